"""The provider `openai`: chat completions, of OpenAI or of any compatible server.

Source: OpenAI's API reference, "Create chat completion" and its streaming events.
"""

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

from holdfast.providers import contents
from holdfast.providers.answer.answer_reader import AnswerReader
from holdfast.providers.answer.part_order import Part
from holdfast.providers.base import FORTY, NINE, IdForm, ProviderRequest, ToolNames
from holdfast.providers.json_fields import read_object
from holdfast.providers.message_list import answer_or_result, list_messages
from holdfast.providers.openai.answer import OpenAIAnswerReader
from holdfast.providers.openai.extra_fields import REASONING, with_extra_fields
from holdfast.providers.parameter_fallback import LENGTH_OPTIONS
from holdfast.providers.tool_schemas import arguments_schema, declared_tools, with_items
from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.message import ChatMessage, Content, ImagePart, Media
from holdfast.validation.content_cache import cached_by_content
from holdfast.validation.schema_keywords import subschemas

# Newer names of options that only OpenAI's own servers are known to take, its own and Azure's.
OWN_HOSTS = ("api.openai.com", ".openai.azure.com")
# Servers that route requests of one key to one cache. Mistral's caches nothing without a key
# ("Prompt caching" in OpenAI's guides, and in Mistral's).
KEY_HOSTS = (*OWN_HOSTS, "api.mistral.ai")
_LOOSE_SCHEMA = "OpenAI cannot enforce so large a schema: the answer is only validated"
MAX_PROPERTIES = 5_000
MAX_LEVELS = 10
MAX_CHARACTERS = 120_000
MAX_ENUM_VALUES = 1_000
# The total of one enum with more than so many texts.
MANY_ENUM_VALUES = 250
MAX_ENUM_CHARACTERS = 15_000

_NOTES = ("title", "description")
# Bounds and patterns are accepted as well, but not by every model.
_OBJECT_KEYWORDS = {"type", "properties", "required", "additionalProperties"}
_ARRAY_KEYWORDS = {"type", "items", "minItems", "maxItems"}
_PLAIN_TYPES = ("string", "number", "integer", "boolean", "null")

Schema = dict[str, Any]


class OpenAIFormat(ProviderFormat):
    """The format of chat completions."""

    kind = "openai"
    path: ClassVar[str] = "/chat/completions"
    reserved: ClassVar[tuple[str, ...]] = ("messages", "tools", "stream")
    answer_reader: ClassVar[type[AnswerReader]] = OpenAIAnswerReader
    id_forms: ClassVar[Mapping[tuple[str, ...], IdForm]] = {
        OWN_HOSTS: FORTY,
        ("api.mistral.ai",): NINE,
    }

    def unsupported_notices(self, ask: Ask) -> list[str]:
        """Return a notice for a schema that is neither enforced nor in the instructions."""
        is_loose = isinstance(ask.output, dict) and not ask.output_told
        return [_LOOSE_SCHEMA] if is_loose and not fits_strict_mode(ask.output) else []

    def data_of_endpoint(self, data: Any, endpoint: str) -> Any:
        """Return the further fields of an answer with the name of their endpoint."""
        is_own = isinstance(data, dict) and data.keys() - {REASONING}
        return {**data, "endpoint": endpoint} if is_own else data

    def data_for_endpoint(self, data: Any, endpoint: str) -> Any:
        """Return the further fields of an answer for their own endpoint; its reasoning for all."""
        fields = read_object(data)
        is_other = fields.get("endpoint", endpoint) != endpoint
        return {key: fields[key] for key in fields if key == REASONING} if is_other else data

    def shows_schema(self, ask: Ask, host: str) -> bool:
        """Report whether the model sees the schema: only OpenAI's servers add it to the prompt."""
        return host.endswith(OWN_HOSTS)

    def encode_user(self, content: Content) -> tuple[bytes, ...]:
        """Encode a message: a text, which is never blank, unless it has media."""
        text = contents.text_of(content)
        shown: Any = text if text.strip() else contents.EMPTY_MESSAGE
        if contents.media_of(content):
            shown = contents.parts_of(content, _texts, _media)
        return (contents.encode_json({"role": "user", "content": shown}),)

    def encode_other(self, message: ChatMessage, names: ToolNames) -> tuple[bytes, ...]:
        """Encode a message; an answer has its further fields with it."""
        encoded = answer_or_result(
            message,
            names,
            REASONING,
            lambda _, call: {"arguments": json.dumps(call.arguments, ensure_ascii=False)},
        )
        if message.role == "assistant":
            if not encoded["content"].strip():
                encoded["content"] = None if message.calls else contents.EMPTY_MESSAGE
            encoded = with_extra_fields(encoded, message)
        return (contents.encode_json(encoded),)

    def declared_functions(self, request: ProviderRequest) -> list[Part]:
        return _declared(request.tool_names.offers(request.ask.tools))

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """Return the request's body: the messages first, then the settings."""
        ask = request.ask
        length = LENGTH_OPTIONS[host.endswith(OWN_HOSTS)]
        has_own_length = any(name in ask.model.options for name in LENGTH_OPTIONS)
        tools = self.declared_functions(request)
        choice = request.tool_choice(
            {}, lambda name: {"type": "function", "function": {"name": name}}
        )
        settings = {
            "model": ask.model.name,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": ask.model.temperature,
            length: None if has_own_length else ask.model.max_output_tokens,
            "tools": [{"type": "function", "function": each} for each in tools] or None,
            "tool_choice": choice if tools else None,
            "response_format": response_format(ask.output),
        }
        if host.endswith(KEY_HOSTS):
            settings["prompt_cache_key"] = request.cache_key or None
        return contents.request_body(
            list_messages(request), settings | request.options(self.reserved)
        )


@cached_by_content
def _declared(offers: list[tuple[str, Part, str]]) -> list[Part]:
    return declared_tools(offers, "parameters", partial(arguments_schema, "openai"))


def response_format(output: dict[str, Any] | bool | None) -> dict[str, Any] | None:
    """Return the form of an answer: JSON, or one that fits a schema."""
    if not isinstance(output, dict):
        return {"type": "json_object"} if output else None
    strict = fits_strict_mode(output)
    schema = {
        "name": "output",
        "schema": output if strict else with_items(output),
        "strict": strict,
    }
    return {"type": "json_schema", "json_schema": schema}


def _texts(text: str) -> list[Part]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _media(part: Media) -> Part:
    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": contents.data_url(part)}}
    if contents.inline_data(part) is None:
        return {"type": "text", "text": contents.unfetched_text(part)}
    return {
        "type": "file",
        "file": {"filename": contents.file_name(part), "file_data": contents.data_url(part)},
    }


@cached_by_content
def fits_strict_mode(schema: Any) -> bool:
    """Report whether OpenAI enforces the schema strictly.

    In strict mode an answer always fits its schema, but only a subset of JSON Schema is accepted,
    and a request with anything else is rejected ("Structured model outputs", "Supported schemas").
    Other schemas are sent without strict mode, and the model follows them as well as it can.
    """
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return False
    places = dict(subschemas(schema))
    nested = {where for where, part in places.items() if part.get("type") in ("object", "array")}
    for where, part in places.items():
        around = sum(where[:length] in nested for length in range(len(where) + 1))
        if not _is_supported(part) or around > MAX_LEVELS:
            return False
    parts = places.values()
    names = [name for part in parts for name in part.get("properties", ())]
    values = [value for part in parts for value in part.get("enum", ())]
    values += [part["const"] for part in parts if "const" in part]
    characters = sum(map(len, names)) + sum(len(str(value)) for value in values)
    is_small = len(names) <= MAX_PROPERTIES and characters <= MAX_CHARACTERS
    return is_small and len(values) <= MAX_ENUM_VALUES


def _is_supported(schema: Schema) -> bool:
    """Report whether a part, apart from the schemas in it, has only supported keywords."""
    keywords = {key: value for key, value in schema.items() if key not in _NOTES}
    match keywords:
        case {"anyOf": [_, *_] as branches, **others}:
            return not others and _are_objects(branches)
        case {"type": "object", "properties": dict(properties), "required": list(required)}:
            is_closed = keywords.get("additionalProperties") is False
            has_only = keywords.keys() <= _OBJECT_KEYWORDS
            is_whole = list(properties) == required and _are_objects(properties.values())
            return is_closed and is_whole and has_only
        case {"type": "array", "items": dict()}:
            return keywords.keys() <= _ARRAY_KEYWORDS
        case {"type": kind, **others}:
            kinds = kind if isinstance(kind, list) else [kind]
            values = others.get("enum", [])
            if not (kinds and all(each in _PLAIN_TYPES for each in kinds)):
                return False
            if not others.keys() <= {"enum", "const"} or not isinstance(values, list):
                return False
            characters = sum(len(str(value)) for value in values)
            return len(values) <= MANY_ENUM_VALUES or characters <= MAX_ENUM_CHARACTERS
    return False


def _are_objects(schemas: Iterable[Any]) -> bool:
    return all(isinstance(each, dict) for each in schemas)

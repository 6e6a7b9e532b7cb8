"""The provider `gemini`: the Gemini API, of Google or of any compatible server.

Sources: Google's API reference ("Generating content", v1beta) and its guides ("Function calling",
"Thought signatures", "Structured outputs", "File input methods"), and the types of its package
`google-genai`, where these are silent.

All results of a turn must be in one content behind their calls, in the order of these ("Function
calling"), so neighbours of one role are joined.

Every event of an answer has the form of a whole answer, and holds more of its parts. A call comes
whole, its arguments an object, which is absent where it is empty; newer models give it an id, older
ones none. The last event has the reason why the model stopped.
"""

import re
from typing import Any, ClassVar

import httpx

from holdfast.providers import contents
from holdfast.providers.answer.answer_reader import AnswerReader, UsageCounts
from holdfast.providers.answer.bounded_text import well_formed
from holdfast.providers.answer.call_draft import CallDraft
from holdfast.providers.answer.call_matching import WholeCall
from holdfast.providers.answer.part_order import Part, in_order
from holdfast.providers.base import ProviderRefused, ProviderRequest, ToolNames
from holdfast.providers.json_fields import read_counts, read_object, read_objects, read_text
from holdfast.providers.message_list import encode_parts, joined_messages
from holdfast.providers.tool_schemas import declared_tools
from holdfast.providers.transport.error_response import shortened
from holdfast.providers.transport.http import ProviderFormat
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.internal.model_request import Ask, ToolOffer
from holdfast.schemas.message import ChatMessage, Content, ImagePart, Media
from holdfast.validation.content_cache import cached_by_content

_DEFINITIONS = "#/definitions/"
_SCHEMAS_BY_NAME = ("properties", "$defs", "definitions")
_SCHEMA_LISTS = ("anyOf", "oneOf", "prefixItems", "allOf")
_SCHEMAS = ("items", "additionalProperties")
_FIELDS = ("candidates", "promptFeedback", "usageMetadata")
# Arguments by path, of the option `streamFunctionCallArguments`.
_PART_FIELDS = ("partialArgs", "willContinue")
_PARTS_NOT_READ = "Gemini sent a call's arguments in parts, which are not read"
# The beginnings of models' names in addresses.
_COLLECTIONS = ("models/", "tunedModels/")
# Of Vertex AI, a base that ends with the publisher contains the version.
_VERSIONED = re.compile(r".*/(v\d\w*|publishers/[\w-]+)/?\Z")
# Of an agent's `options`, the top-level fields of a request. All others are settings of the model,
# in the request's `generationConfig`.
_TOP_LEVEL = ("safetySettings", "cachedContent", "serviceTier", "store", "labels")
# "Image understanding", "Supported image formats"; any other makes the whole request a bad one.
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
_TYPE_OF_ENDING = {each.removeprefix("image/"): each for each in _IMAGE_TYPES} | {
    "jpg": "image/jpeg"
}
_USER, _MODEL = (b'{"role":"%s","parts":[' % role for role in (b"user", b"model"))
# Replaces a signature where there is none ("Thought signatures", the first of the FAQs).
UNSIGNED = "skip_thought_signature_validator"
_MODES = {"auto": {"mode": "AUTO"}, "none": {"mode": "NONE"}, "required": {"mode": "ANY"}}
_SCHEMA_WITH_TOOLS = (
    "Gemini cannot enforce an output's schema beside tools: the answer is only validated"
)
_CALLING = "functionCallingConfig"
# The option with which arguments arrive in parts by path.
_IN_PARTS = "streamFunctionCallArguments"
_ONLY_WHOLE = f"the option `{_IN_PARTS}` was left out of the request: only whole calls are read"


@cached_by_content
def gemini_schema(schema: Any) -> Any:
    """Return the schema as it is sent.

    Gemini ignores keywords that it does not use. It rejects a `$ref` beside other keywords, and
    knows neither `definitions` nor `const` nor `allOf` (API reference, `responseJsonSchema`), so
    these are expressed by keywords that it knows. Arguments and answers are checked by the whole
    schema anyway.
    """
    return _converted(schema)


def _converted(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    keywords: dict[str, Any] = {}
    for name, value in schema.items():
        match value:
            case dict() if name in _SCHEMAS_BY_NAME:
                value = {key: _converted(each) for key, each in value.items()}
            case list() if name in _SCHEMA_LISTS:
                value = [_converted(each) for each in value]
            case dict() if name in _SCHEMAS:
                value = _converted(value)
            case str() if name == "$ref" and value.startswith(_DEFINITIONS):
                value = f"#/$defs/{value.removeprefix(_DEFINITIONS)}"
        keywords["$defs" if name == "definitions" else name] = value
    keywords.pop("$schema", None)
    const = keywords.get("const")
    if isinstance(const, str | int | float) and not isinstance(const, bool):
        # An `enum` has only texts and numbers.
        kind = "string" if isinstance(const, str) else "number"
        keywords = {"type": kind, **keywords, "enum": [const]}
        del keywords["const"]
    match keywords:
        case {"$ref": reference, **others} if any(not name.startswith("$") for name in others):
            return {**others, "anyOf": [{"$ref": reference}]}
        case {"allOf": [only], **others}:
            return {"anyOf": [only], **others}
    return keywords


class GeminiAnswerReader(AnswerReader):
    """One answer, as it arrives: events of a stream, or the whole."""

    format_name = "Gemini answer"
    marker = '"candidates"'
    whole_endings = ("stop",)
    # The input of Google's own tools is input, and reasoning is output.
    counts: ClassVar[UsageCounts] = {
        "input_tokens": (("promptTokenCount", "toolUsePromptTokenCount"),),
        "output_tokens": (("candidatesTokenCount", "thoughtsTokenCount"),),
        "cached_tokens": ("cachedContentTokenCount",),
    }
    # The request lacks what it must have, or the model called too often; or no reason is given.
    refused_endings = ("missing_thought_signature", "too_many_tool_calls", "other")

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read more of the answer, or the whole of it.

        Raises:
            ProviderRefused: the request was blocked.
        """
        if not any(isinstance(value.get(name), dict | list) for name in _FIELDS):
            return False
        self.answer.model = read_text(value.get("modelVersion")) or self.answer.model
        if usage := read_counts(value.get("usageMetadata")):
            self.read_usage({"candidatesTokenCount": 0} | usage)  # it is absent where it is zero
        for candidate in read_objects(value.get("candidates")):
            if candidate.get("index", 0) in (0, None):
                self._read_candidate(candidate)
        feedback = read_object(value.get("promptFeedback"))
        reason = read_text(feedback.get("blockReason"))
        if reason and not value.get("candidates"):
            # An error: the same request would be blocked again.
            message = read_text(feedback.get("blockReasonMessage"))
            why = f"the request was blocked, {reason}"
            raise ProviderRefused(400, shortened(f"{why}: {message}" if message else why))
        return True

    def data_beside(self, calls: list[CallDraft]) -> Any:
        """Return the parts of the answer, if any is signed."""
        parts = self.order.items(calls)
        return parts if any("signature" in part for part in parts) else None

    def _read_candidate(self, candidate: dict[str, Any]) -> None:
        reason = read_text(candidate.get("finishReason"))
        if reason != "FINISH_REASON_UNSPECIFIED":
            self.read_stop(reason, read_text(candidate.get("finishMessage")))
        parts = read_objects(read_object(candidate.get("content")).get("parts"))
        # A part may also be a summary of the reasoning, which is no answer.
        parts = [part for part in parts if part.get("thought") is not True]
        made = [read_object(part["functionCall"]) for part in parts if "functionCall" in part]
        calls = [
            WholeCall.read(
                *(call.get("name"), call.get("id")),
                None if _is_in_parts(call) else call.get("args") or {},
            )
            for call in made
        ]
        drafts = iter(self.add_whole_calls(calls, is_closing=bool(reason)))
        for part in parts:
            signature = well_formed(read_text(part.get("thoughtSignature")))
            signed = {"signature": signature} if signature else {}
            if "functionCall" not in part:
                self.add_text(read_text(part.get("text")), **signed)
            elif (draft := next(drafts)) is not None:
                self.order.add("call", call=draft, **signed)
                notices = self.answer.notices
                if _is_in_parts(part["functionCall"]) and _PARTS_NOT_READ not in notices:
                    notices.append(_PARTS_NOT_READ)


def _is_in_parts(call: Any) -> bool:
    return any(name in read_object(call) for name in _PART_FIELDS)


class GeminiFormat(ProviderFormat):
    """The format of `streamGenerateContent`."""

    kind = "gemini"
    key_header = "x-goog-api-key"  # not in the address, which is written to logs
    reserved = ("contents", "systemInstruction", "tools")
    fetched = ("https://", "gs://")  # "File input methods"
    answer_reader = GeminiAnswerReader

    def url(self, target: EndpointTarget, ask: Ask) -> httpx.URL:
        """Return `BASE/v1beta/models/NAME:streamGenerateContent`; the base may have a version."""
        name = target.model_in_path(ask.model.name, safe="/")
        path = name if name.startswith(_COLLECTIONS) else f"models/{name}"
        is_versioned = _VERSIONED.match(httpx.URL(target.endpoint.base_url or "").path)
        version = "" if is_versioned else "/v1beta"
        return target.url(f"/{path}:streamGenerateContent", version, query="alt=sse")

    def unsupported_notices(self, ask: Ask) -> list[str]:
        """Return a notice for a schema that is not enforced because tools are offered."""
        tool_config = read_object(ask.model.options.get("toolConfig"))
        has_parts = _IN_PARTS in read_object(tool_config.get(_CALLING))
        has_schema = ask.output not in (None, False) and bool(_offered(ask))
        return [_ONLY_WHOLE] * has_parts + [_SCHEMA_WITH_TOOLS] * has_schema

    def shows_schema(self, ask: Ask, host: str) -> bool:
        """Return true: the model is guided by it ("Structured outputs", "Best practices")."""
        return True

    def encode_user(self, content: Content) -> tuple[bytes, ...]:
        """Encode a content of the user; one without parts is rejected."""
        return encode_parts(
            _USER, contents.parts_of(content, _texts, _media) or _texts(contents.EMPTY_MESSAGE)
        )

    def encode_other(self, message: ChatMessage, names: ToolNames) -> tuple[bytes, ...]:
        """Encode a content of the user or of the model: a system message is a user's.

        Only newer models take images within a result, so these follow it.
        """
        text = contents.text_of(message.content)
        match message.role:
            case "assistant":
                return encode_parts(_MODEL, _answer(message, names))
            case "tool":
                named = {
                    "name": names.to_provider(message.tool or ""),
                    "response": {"error" if message.is_error else "output": text},
                }
                result = _identified(named, message.call_id, message.provider_id)
                return encode_parts(_USER, [{"functionResponse": result}])
        return encode_parts(_USER, _texts(contents.system_text(message.content)))

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """Return the request's body: the contents first, then the settings."""
        ask = request.ask
        options = request.options(self.reserved)
        top_level = {name: options.pop(name) for name in _TOP_LEVEL if name in options}
        # A copied request of Gemini's has its settings within these.
        nested = read_object(options.pop("generationConfig", None))
        tool_config = dict(read_object(options.pop("toolConfig", None)))
        if calling := read_object(tool_config.get(_CALLING)):
            tool_config[_CALLING] = {key: calling[key] for key in calling if key != _IN_PARTS}
        offered = _offered(ask)
        tools = _declared(request.tool_names.offers(offered))
        choice = request.tool_choice(
            _MODES, lambda name: {"mode": "ANY", "allowedFunctionNames": [name]}
        )
        chosen = {_CALLING: choice} if tools else {}
        has_schema = ask.output not in (None, False) and not offered
        enforced = has_schema and ask.output is not True
        config = {
            "temperature": ask.model.temperature,
            "maxOutputTokens": ask.model.max_output_tokens,
            "responseMimeType": "application/json" if has_schema else None,
            "responseJsonSchema": gemini_schema(ask.output) if enforced else None,
        }
        config = {name: value for name, value in config.items() if value is not None}
        instructions = {"parts": _texts(ask.instructions)} if ask.instructions else None
        settings = {
            "systemInstruction": instructions,
            "tools": [{"functionDeclarations": tools}] if tools else None,
            "toolConfig": chosen | tool_config or None,
            "generationConfig": config | nested | options or None,
            **top_level,
        }
        messages = joined_messages(request, (_USER, _MODEL), _texts)
        return contents.request_body(messages, settings, "contents")


def _answer(message: ChatMessage, names: ToolNames) -> list[Part]:
    """Return the parts of an answer, each with its signature.

    Gemini signs parts of its answers, and requires each signature back with the very part that it
    came with; without that of the first call of an answer, Gemini 3 rejects the request ("Thought
    signatures"). Without any, the first call is marked as unsigned: the signature was lost, or the
    model signs nothing.
    """
    calls: list[Part] = []
    for call in message.calls:
        named = {"name": names.to_provider(call.tool), "args": call.arguments}
        calls.append({"functionCall": _identified(named, call.id, call.provider_id)})
    parts: list[Part] = []
    for item, each in in_order(message, calls, "call"):
        part = {"text": each} if isinstance(each, str) else each
        if isinstance(signature := item.get("signature"), str) and signature:
            parts.append(part | {"thoughtSignature": signature})
        elif part != {"text": ""}:
            parts.append(part)
    if calls and not any("thoughtSignature" in part for part in parts):
        first = next(part for part in parts if "functionCall" in part)
        first["thoughtSignature"] = UNSIGNED
    return parts


def _texts(text: str) -> list[Part]:
    return [{"text": text}] if text else []


def _media(part: Media) -> Part:
    inline = contents.inline_data(part)
    if inline is not None:
        media_type, data = inline
        if isinstance(part, ImagePart) and media_type not in _IMAGE_TYPES:
            return {"text": contents.unsupported_image_text(media_type)}
        return {"inlineData": {"mimeType": media_type, "data": data}}
    url = part.url or ""
    ending = url.partition("?")[0].rpartition(".")[2].lower()
    known_type = part.media_type or _TYPE_OF_ENDING.get(ending)
    return {"fileData": {"fileUri": url} | ({"mimeType": known_type} if known_type else {})}


def _identified(named: Part, own: str | None, provider_id: str | None) -> Part:
    """Return a call or its result with the id of Gemini.

    Newer models require the id; older ones have none, and identify a result by its position.
    """
    return named | {"id": provider_id} if provider_id and provider_id != own else named


@cached_by_content
def _declared(offers: list[tuple[str, Part, str]]) -> list[Part]:
    return declared_tools(offers, "parametersJsonSchema", _accepted)


def _accepted(schema: Part, description: str) -> tuple[Part | None, str]:
    # A function without parameters has none; an object without properties is not taken everywhere.
    has_parameters = schema.keys() - {"type", "properties"} or schema.get("properties")
    return gemini_schema(schema) if has_parameters else None, description


def _offered(ask: Ask) -> list[ToolOffer]:
    """Return the tools of the request.

    Before Gemini 3, a request with tools and a schema is rejected; one in which no tool may be
    called is equivalent without them.
    """
    return [] if ask.output not in (None, False) and ask.tool_choice == "none" else ask.tools

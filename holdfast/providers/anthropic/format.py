"""The provider `anthropic`: the Messages API, of Anthropic or of any compatible server.

Sources: Anthropic's API reference ("Create a Message", "Streaming Messages", "Errors", "Handling
stop reasons", "Prompt caching", "Structured outputs", "Extended thinking") and the types of its
package for Python, where the reference is silent.

All results of a turn must be in the one message behind their calls, so neighbours of one role are
joined. The cache holds what is before a mark, in the order of tools, instructions, messages, and is
searched only at marks and 20 blocks before them. Of the four marks, one is on the tools, one on the
instructions, one on the end of the conversation, and one on its end in the request before, however
many calls were made in between. The state changes and is behind the last mark.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from holdfast.providers import contents
from holdfast.providers.answer.answer_reader import AnswerReader
from holdfast.providers.answer.part_order import Part, in_order
from holdfast.providers.anthropic.answer import AnthropicAnswerReader
from holdfast.providers.anthropic.schema import answer_schema
from holdfast.providers.base import ProviderRequest, ToolNames, short_name
from holdfast.providers.json_fields import read_object
from holdfast.providers.message_list import encode_parts, joined_messages
from holdfast.providers.tool_schemas import arguments_schema, declared_tools
from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.message import ChatMessage, Content, DocumentPart, ImagePart, Media
from holdfast.validation.content_cache import cached_by_content

# The format has no default. This is the most that every model since Claude 3.5 takes.
DEFAULT_OUTPUT_TOKENS = 8_192

_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
USER, ASSISTANT = (b'{"role":"%s","content":[' % role for role in (b"user", b"assistant"))
_MARK: Part = {"cache_control": {"type": "ephemeral"}}
_ENCODED_MARK = b',"cache_control":{"type":"ephemeral"}'
_LOOSE_SCHEMA = "cannot enforce the output's schema: the answer is only validated"
# Required back with the calls that they led to, unchanged and in their place ("Extended thinking",
# "Preserving thinking blocks").
_THOUGHTS = ("thinking", "redacted_thinking")
_CHOICES = {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}


class AnthropicFormat(ProviderFormat):
    """The format of the Messages API."""

    kind = "anthropic"
    path = "/messages"
    version = "/v1"
    key_header = "x-api-key"
    fixed_headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}
    reserved: ClassVar[tuple[str, ...]] = ("messages", "system", "tools", "stream")
    answer_reader: ClassVar[type[AnswerReader]] = AnthropicAnswerReader
    # What the notice of a schema that cannot be enforced calls the provider.
    title = "Anthropic"
    results_show_media = True

    def unsupported_notices(self, ask: Ask) -> list[str]:
        is_loose = isinstance(ask.output, dict) and held_schema(ask) is None
        return [f"{self.title} {_LOOSE_SCHEMA}"] if is_loose else []

    def data_of_endpoint(self, data: Any, endpoint: str) -> Any:
        """Return the thoughts of an answer, those that no one signed with their endpoint."""
        return [
            part | {"endpoint": endpoint} if _is_unsigned(part) else part for part in data or ()
        ] or None

    def data_for_endpoint(self, data: Any, endpoint: str) -> Any:
        """Return the thoughts without those that another endpoint did not sign."""
        return [
            part
            for part in (data if isinstance(data, list) else ())
            if not _is_unsigned(part) or part.get("endpoint", endpoint) == endpoint
        ]

    def shows_schema(self, ask: Ask, host: str) -> bool:
        """Report whether the answer is held to it ("Structured outputs", "Prompt modification")."""
        return held_schema(ask) is not None

    def encode_user(self, content: Content) -> tuple[bytes, ...]:
        """Encode a message of blocks; one without any is rejected."""
        blocks = contents.parts_of(content, texts, _media) or texts(contents.EMPTY_MESSAGE)
        return encode_parts(USER, [*map(self.block, blocks)])

    def encode_other(self, message: ChatMessage, names: ToolNames) -> tuple[bytes, ...]:
        """Encode a message of blocks.

        Few models accept a system message within a conversation, so it is a user's.
        """
        content, opening = message.content, USER
        match message.role:
            case "assistant":
                opening, blocks = ASSISTANT, _answer(message, names)
            case "tool":
                has_media = self.results_show_media
                result: Part = {
                    "type": "tool_result",
                    "tool_use_id": short_name(message.provider_id or message.call_id or ""),
                    "content": contents.parts_of(
                        content if has_media else contents.text_of(content), texts, _media
                    ),
                }
                blocks = [result | {"is_error": True} if message.is_error else result]
            case _:
                blocks = texts(contents.system_text(content))
        return encode_parts(opening, [*map(self.block, blocks)])

    def block(self, block: Part) -> Part:
        return block

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """Return the request's body: the messages first, then the settings."""
        ask = request.ask
        options = request.options(self.reserved)
        is_marked = "cache_control" not in options
        mark = _MARK if is_marked else {}
        marks = (_ENCODED_MARK, b"}]}") if is_marked else ()
        messages = joined_messages(request, (USER, ASSISTANT), texts, *marks)
        settings = _settings(request) | options
        schema, own = held_schema(ask), read_object(options.get("output_config"))
        held = {"format": {"type": "json_schema", "schema": schema}} if schema else {}
        settings["output_config"] = held | own or None
        settings["system"] = [block | mark for block in texts(ask.instructions)] or None
        if settings["tools"]:
            *others, last = settings["tools"]
            settings["tools"] = [*others, last | mark]
        return contents.request_body(messages, settings)


def _is_unsigned(part: Any) -> bool:
    return isinstance(part, dict) and part.get("signature") == ""


def _answer(message: ChatMessage, names: ToolNames) -> list[Part]:
    calls: list[Part] = [
        {
            "type": "tool_use",
            "id": short_name(call.provider_id),
            "name": names.to_provider(call.tool),
            "input": call.arguments,
        }
        for call in message.calls
    ]
    blocks = []
    for item, part in in_order(message, calls, "tool_use", _THOUGHTS):
        match item:
            case {"type": "thinking", "thinking": str(), "signature": str(signature)}:
                # DeepSeek's and Kimi's models sign nothing, and require their thinking back.
                unsigned = {"type": "thinking", "thinking": item["thinking"]}
                blocks.append(item if signature else unsigned)
            case {"type": "redacted_thinking", "data": str()}:
                blocks.append(item)
            case _:
                blocks += texts(part) if isinstance(part, str) else [part]
    return blocks


def texts(text: str) -> list[Part]:
    """Return the text as a block; a text of only spaces is rejected, so it gives none."""
    return [{"type": "text", "text": text}] if text.strip() else []


def held_schema(ask: Ask) -> dict[str, Any] | None:
    """Return the schema that the answer is held to, if it can be."""
    if not isinstance(ask.output, dict):
        return None
    return answer_schema(ask.output, null_is_absent=ask.null_is_absent)


def _media(part: Media) -> Part:
    title = {"title": part.name} if isinstance(part, DocumentPart) and part.name else {}
    inline = contents.inline_data(part)
    if inline is None:
        return {"type": part.type, "source": {"type": "url", "url": part.url}, **title}
    media_type, data = inline
    if isinstance(part, ImagePart) and media_type not in _IMAGE_TYPES:
        return {"type": "text", "text": contents.unsupported_image_text(media_type)}
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": part.type, "source": source, **title}


@cached_by_content
def _declared(offers: list[tuple[str, Part, str]]) -> list[Part]:
    return declared_tools(offers, "input_schema", partial(arguments_schema, "anthropic"))


def _settings(request: ProviderRequest) -> dict[str, Any]:
    ask = request.ask
    thinking = read_object(ask.model.options.get("thinking"))
    is_thinking = thinking.get("type", "disabled") != "disabled"
    # Reasoning counts as output, and its budget must be less than the whole.
    budget = thinking.get("budget_tokens")
    most = DEFAULT_OUTPUT_TOKENS + (budget if isinstance(budget, int) else 0)
    choice = request.tool_choice(_CHOICES, lambda name: {"type": "tool", "name": name})
    tools = _declared(request.tool_names.offers(ask.tools))
    return {
        "model": ask.model.name,
        "stream": True,
        "max_tokens": ask.model.max_output_tokens or most,
        # A model that thinks takes no temperature.
        "temperature": None if is_thinking else ask.model.temperature,
        "tools": tools or None,
        "tool_choice": choice if tools else None,
    }

"""The provider `bedrock`: Converse and ConverseStream of Amazon Bedrock's runtime.

Sources: the service model `bedrock-runtime` of botocore, and Amazon's guide ("Prompt caching", "Get
validated JSON results from models"; Nova's "Troubleshooting tool calls").

Roles take turns, the user first, and the results of a turn are in one message behind their calls,
so neighbours of one role are joined. Fields that only some models accept are not sent: the status
of a result, and images within it, which follow it as the user's.
"""

import json
import re
from typing import Any

import httpx

from holdfast.providers.answer_reader import read_object
from holdfast.providers.anthropic.format import THOUGHTS
from holdfast.providers.anthropic.schema import answer_schema
from holdfast.providers.base import EncodedMessage, ProviderRequest, ToolNames, short_name
from holdfast.providers.bedrock.answer import BedrockAnswerReader
from holdfast.providers.bedrock.event_stream import EventStreamDecoder
from holdfast.providers.content import (
    EMPTY_MESSAGE,
    encode_json,
    file_name,
    inline_data,
    is_orphan_result,
    media_introduction,
    media_of,
    parts_of,
    request_body,
    system_text,
    text_of,
    unfetched_text,
    unsupported_image_text,
)
from holdfast.providers.message_list import encode_parts, joined_messages
from holdfast.providers.part_order import Part, in_order
from holdfast.providers.tool_schemas import arguments_schema
from holdfast.providers.transport.http import ProviderFormat
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.agent import ForcedTool
from holdfast.schemas.base import sha256
from holdfast.schemas.internal.model_request import Ask, ToolOffer
from holdfast.schemas.message import ChatMessage, DocumentPart, Media

# Of an agent's `options`, the fields of a request, and those of its `inferenceConfig`. All others
# are settings of the model, in `additionalModelRequestFields`.
_TOP_LEVEL = (
    *("additionalModelRequestFields", "additionalModelResponseFieldPaths", "guardrailConfig"),
    *("outputConfig", "performanceConfig", "promptVariables", "requestMetadata", "serviceTier"),
)
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9()\[\]-]+")
_MEDIA_ALONE = "(a message without a text)"
_INFERENCE = ("topP", "stopSequences")
_IMAGE_FORMATS = {f"image/{each}": each for each in ("png", "jpeg", "gif", "webp")}
_USER, _ASSISTANT = (b'{"role":"%s","content":[' % role for role in (b"user", b"assistant"))
# The first models to take cache marks in messages, instructions and tools; others reject them.
_MARKED_MODELS = "anthropic.claude-"
_MARK = {"type": "default"}
_LOOSE_SCHEMA = "Bedrock cannot hold an answer to the output's schema: it is only checked by it"
# A conversation with calls is rejected without tools ("The toolConfig field must be defined …"),
# and there is no tool choice `none`.
_TOOL_BLOCKS = (b'{"toolUse":{', b'{"toolResult":{')
_NO_TOOL = ToolOffer(name="none", description="No tool can be called now.", parameters={})


class BedrockFormat(ProviderFormat):
    """The format of Converse."""

    kind = "bedrock"
    reserved = ("messages", "system", "toolConfig")
    answer_reader = BedrockAnswerReader

    def url(self, target: EndpointTarget, ask: Ask) -> httpx.URL:
        """Return `BASE/model/NAME/converse-stream`, or `converse` with the option `stream: false`.

        The name of a model may be an ARN.
        """
        streams = ask.model.options.get("stream") is not False
        operation = "converse-stream" if streams else "converse"
        return target.url(f"/model/{target.model_in_path(ask.model.name)}/{operation}")

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the key, if any, as a bearer token: Amazon has keys for Bedrock."""
        accepted = "application/vnd.amazon.eventstream, application/json"
        return {"accept": accepted, **super().headers(key)}

    def unsupported_notices(self, ask: Ask) -> list[str]:
        """Return a notice for a schema that cannot be enforced."""
        return [_LOOSE_SCHEMA] if isinstance(ask.output, dict) and not _schema(ask) else []

    def shows_schema(self, ask: Ask, host: str) -> bool:
        """Return false: it depends on the model."""
        return False

    def encode(self, message: ChatMessage, names: ToolNames) -> EncodedMessage:
        """Encode a message for Converse.

        Images of any message but the user's follow as the user's; few models accept a system
        message within a conversation, so it is a user's.
        """
        text = text_of(message.content)
        match message.role:
            case "assistant":
                encoded = encode_parts(_ASSISTANT, _answer(message, text, names))
            case "tool" if not is_orphan_result(message):
                tool_use_id = short_name(message.provider_id or message.call_id or "")
                result = {"toolUseId": tool_use_id, "content": _texts(text) or [{"text": "-"}]}
                encoded = encode_parts(_USER, [{"toolResult": result}])
            case "system":
                return EncodedMessage(encode_parts(_USER, _texts(system_text(message.content))))
            case _:
                parts = parts_of(message.content, _texts, _media)
                if not any("text" in part for part in parts):
                    # A document is rejected without a text.
                    parts[:0] = _texts(_MEDIA_ALONE if parts else EMPTY_MESSAGE)
                return EncodedMessage(encode_parts(_USER, parts))
        images = [_media(part) for part in media_of(message.content)]
        introduction = _texts(media_introduction(message, names)) if images else []
        return EncodedMessage(encoded, encode_parts(_USER, [*introduction, *images]))

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """Return the request's body: the messages first, then the settings."""
        ask = request.ask
        options = request.options((*self.reserved, "stream"))
        is_marked = _MARKED_MODELS in ask.model.name and bool(request.cache_key)
        point = options.pop("cachePoint", _MARK if is_marked else None)
        mark = [{"cachePoint": point}] if point is not None else []
        top_level = {name: options.pop(name) for name in _TOP_LEVEL if name in options}
        limits = {
            "maxTokens": ask.model.max_output_tokens,
            "temperature": ask.model.temperature,
            **read_object(options.pop("inferenceConfig", None)),
            **{name: options.pop(name) for name in _INFERENCE if name in options},
        }
        own = read_object(top_level.pop("additionalModelRequestFields", None)) | options
        output = read_object(top_level.pop("outputConfig", None))
        if (schema := _schema(ask)) is not None:
            structure = {"jsonSchema": {"name": "output", "schema": json.dumps(schema)}}
            output = {"textFormat": {"type": "json_schema", "structure": structure}} | output
        system = _texts(ask.instructions)
        settings = {
            "system": [*system, *mark] if system else None,
            "inferenceConfig": {name: each for name, each in limits.items() if each is not None},
            "toolConfig": _tool_config(request, mark),
            "outputConfig": output or None,
            "additionalModelRequestFields": own or None,
            **top_level,
        }
        marks = (b"," + encode_json(mark)[1:-1], b"]}") if mark else ()
        return request_body(joined_messages(request, (_USER, _ASSISTANT), _texts, *marks), settings)

    def event_decoder(self) -> EventStreamDecoder:
        """Return a decoder of Amazon's event stream."""
        return EventStreamDecoder()


def _answer(message: ChatMessage, text: str, names: ToolNames) -> list[Part]:
    """Return the parts of an answer, its signed reasoning among them where it was."""
    calls: list[Part] = [
        {
            "toolUse": {
                "toolUseId": short_name(call.provider_id),
                "name": names.to_provider(call.tool),
                "input": call.arguments,
            }
        }
        for call in message.calls
    ]
    parts: list[Part] = []
    for item, part in in_order(message.provider_data, text, calls, "tool_use", THOUGHTS):
        match item:
            case {"type": "thinking", "thinking": str(thought), "signature": str(signature)}:
                signed = {"text": thought, "signature": signature}
                parts.append({"reasoningContent": {"reasoningText": signed}})
            case {"type": "redacted_thinking", "data": str(data)}:
                parts.append({"reasoningContent": {"redactedContent": data}})
            case _:
                parts += _texts(part) if isinstance(part, str) else [part]
    return parts


def _texts(text: str) -> list[Part]:
    """Return the text as a block; a text of only spaces is rejected, so it gives none."""
    return [{"text": text}] if text.strip() else []


def _media(part: Media) -> Part:
    inline = inline_data(part)
    if inline is None:
        return {"text": unfetched_text(part)}
    media_type, data = inline
    if isinstance(part, DocumentPart):
        # No two documents of a request have the same name, of few characters ("DocumentBlock").
        name = f"{_NOT_IN_NAMES.sub('-', file_name(part))[:100]} {sha256(data.encode())[:8]}"
        return {"document": {"format": "pdf", "name": name, "source": {"bytes": data}}}
    if media_type not in _IMAGE_FORMATS:
        return {"text": unsupported_image_text(media_type)}
    return {"image": {"format": _IMAGE_FORMATS[media_type], "source": {"bytes": data}}}


def _schema(ask: Ask) -> dict[str, Any] | None:
    if not isinstance(ask.output, dict):
        return None
    return answer_schema(ask.output, null_is_absent=ask.null_is_absent)


def _tool_config(request: ProviderRequest, mark: list[Part]) -> dict[str, Any] | None:
    choice, names = request.ask.tool_choice, request.tool_names
    offered = [] if choice == "none" else request.ask.tools
    if not offered:
        has_calls = any(block in each for each in request.fragments for block in _TOOL_BLOCKS)
        offered = [_NO_TOOL] if has_calls else []
    tools: list[Part] = []
    for tool in offered:
        schema, description = arguments_schema("bedrock", tool.parameters, tool.description)
        spec = {"name": names.to_provider(tool.name), "inputSchema": {"json": schema}}
        tools.append({"toolSpec": spec | ({"description": description} if description else {})})
    if not tools:
        return None
    config: dict[str, Any] = {"tools": [*tools, *mark]}
    if isinstance(choice, ForcedTool):
        config["toolChoice"] = {"tool": {"name": names.to_provider(choice.name)}}
    elif choice == "required" and request.ask.tools:
        config["toolChoice"] = {"any": {}}
    return config

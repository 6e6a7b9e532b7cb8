"""The provider `bedrock`: Converse and ConverseStream of Amazon Bedrock's runtime.

Sources: the service model `bedrock-runtime` of botocore, and Amazon's guide ("Prompt caching", "Get
validated JSON results from models"; Nova's "Troubleshooting tool calls").

Requests and answers are those of the Messages API, whose events and blocks are the same in other
words. Roles take turns, the user first, and the results of a turn are in one message behind their
calls, so neighbours of one role are joined. Fields that only some models accept are not sent: the
status of a result, and images within it, which follow it as the user's. Of an answer, unknown
events and blocks, and calls of tools that Amazon runs itself, are ignored.

Answers come in Amazon's event stream (`application/vnd.amazon.eventstream`), which is read in
linear time. A message begins with a prelude: its length, that of its headers, and their checksum.
botocore checks the rest. An event is returned as an object with the event's type as its one key.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar
from zlib import crc32

import httpx

from holdfast.providers.answer.part_order import Part
from holdfast.providers.anthropic.answer import AnthropicAnswerReader
from holdfast.providers.anthropic.format import ASSISTANT, USER, AnthropicFormat, held_schema
from holdfast.providers.base import ProviderRequest
from holdfast.providers.contents import encode_json, media_of, request_body, text_of
from holdfast.providers.json_fields import read_object, read_objects
from holdfast.providers.message_list import joined_messages
from holdfast.providers.tool_schemas import arguments_schema, declared_tools
from holdfast.providers.transport.event_decoders import EventDecoder
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.base import sha256
from holdfast.schemas.internal.model_request import Ask, ToolOffer
from holdfast.schemas.message import Content, TextPart
from holdfast.validation.content_cache import cached_by_content

_PRELUDE_BYTES = 12
_MIN_MESSAGE_BYTES = 16
_EVENTS = (
    *("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop"),
    *("messageStop", "metadata"),
)
_TOKENS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
    "cache_creation_input_tokens": "cacheWriteInputTokens",
}
# Of an agent's `options`, the fields of a request, and those of its `inferenceConfig`. All others
# are settings of the model, in `additionalModelRequestFields`.
_TOP_LEVEL = (
    *("additionalModelRequestFields", "additionalModelResponseFieldPaths", "guardrailConfig"),
    *("outputConfig", "performanceConfig", "promptVariables", "requestMetadata", "serviceTier"),
)
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9()\[\]-]+")
_MEDIA_ALONE = "(a message without a text)"
_INFERENCE = ("topP", "stopSequences")
# The first models to take cache marks in messages, instructions and tools; others reject them.
_MARKED_MODELS = "anthropic.claude-"
_MARK = {"type": "default"}
# A conversation with calls is rejected without tools ("The toolConfig field must be defined …"),
# and there is no tool choice `none`.
_TOOL_BLOCKS = (b'{"toolUse":{', b'{"toolResult":{')
_CHOICES: dict[str, Any] = {"auto": None, "none": None, "required": {"any": {}}}
_NO_TOOL = ToolOffer(name="none", description="No tool can be called now.", parameters={})


class EventStreamDecoder(EventDecoder):
    """Decodes messages, or one JSON document sent in their place.

    After a broken message, nothing more is read.
    """

    def __init__(self) -> None:
        from botocore.eventstream import EventStreamBuffer  # of the extra `bedrock`

        super().__init__()
        self._buffer = EventStreamBuffer()
        self._data = bytearray()
        self._has_message = False
        self._is_broken = False

    def feed(self, chunk: bytes) -> list[str]:
        """Return the events that these bytes complete."""
        self._data += chunk
        events: list[str] = []
        try:
            while not self._is_broken and len(self._data) >= (size := _message_bytes(self._data)):
                self._buffer.add_data(bytes(self._data[:size]))
                events += [_event(each.headers, each.payload) for each in self._buffer]
                del self._data[:size]
                self._has_message = True
        except Exception:  # botocore's errors of broken messages have no common class
            self._is_broken = True
        return events

    def rest(self) -> str | None:
        """Return the document that was sent in place of a stream."""
        is_begun = len(self._data) >= _PRELUDE_BYTES and not self._is_broken
        is_message = self._has_message or is_begun
        return None if is_message else self._data.decode("utf-8", "replace").strip()


def _message_bytes(data: bytearray) -> int:
    """Return the length of the first message, or that of its prelude until this has arrived."""
    if len(data) < _PRELUDE_BYTES:
        return _PRELUDE_BYTES
    if crc32(data[:8]) != int.from_bytes(data[8:_PRELUDE_BYTES]):
        raise ValueError("not the beginning of a message")
    return max(int.from_bytes(data[:4]), _MIN_MESSAGE_BYTES)


def _event(headers: dict[str, Any], payload: bytes) -> str:
    text = payload.decode("utf-8", "replace") or "null"
    match headers:
        case {":message-type": "exception", ":exception-type": name}:
            return f'{{"error": {{"type": {json.dumps(str(name))}, "error": {text}}}}}'
        case {":message-type": "error", ":error-code": code}:
            error = {"type": str(code), "message": str(headers.get(":error-message", ""))}
            return json.dumps({"error": error})
    return f"{{{json.dumps(str(headers.get(':event-type')))}: {text}}}"


class BedrockAnswerReader(AnthropicAnswerReader):
    """One answer of Converse, as it arrives: events of ConverseStream, or one whole message."""

    format_name = "answer of Converse"
    marker = '"output"'
    keeps_unsigned = False

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read an event, or a whole answer."""
        is_whole = isinstance(read_object(value.get("output")).get("message"), dict)
        if not is_whole and not any(name in value for name in _EVENTS):
            return False
        for event in _translated(value):
            super().read_event(event)
        self.is_finished |= is_whole
        self.is_done = self.is_finished and "metadata" in value
        return True


def _translated(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of the Messages API that mean the same."""
    match value:
        case {"output": {"message": {"content": list(blocks)}}}:
            cited = (
                read_objects(read_object(each.get("citationsContent")).get("content")) or [each]
                for each in read_objects(blocks)
            )
            yield {"type": "message", "content": [*map(_block, chain.from_iterable(cited))]}
        case {"messageStart": dict(message)}:
            yield {"type": "message_start", "message": message}
        case {"contentBlockStart": {"start": {"toolUse": dict()} as block} as event}:
            yield _started(event, block)
        case {"contentBlockDelta": {"delta": dict(delta)} as event}:
            yield _continued(event, delta)
    usage = read_object(read_object(value.get("metadata", value)).get("usage"))
    stop = read_object(value.get("messageStop", value))
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": stop.get("stopReason")},
        "usage": {name: usage.get(theirs) for name, theirs in _TOKENS.items()},
    }


def _started(event: Part, block: Part) -> Part:
    index = event.get("contentBlockIndex")
    return {"type": "content_block_start", "index": index, "content_block": _block(block)}


def _block(block: Part) -> Part:
    match block:
        case {"toolUse": dict(call)}:
            return {"type": "tool_use", **call, "id": call.get("toolUseId")}
        case {"reasoningContent": {"reasoningText": dict(thought)}}:
            return {"type": "thinking", **thought, "thinking": thought.get("text")}
        case {"reasoningContent": {"redactedContent": data}}:
            return {"type": "redacted_thinking", "data": data}
    return {"type": "text", **block}


def _continued(event: Part, delta: Part) -> Part:
    continued = {"type": "text_delta", **delta}
    match delta:
        case {"toolUse": {"input": piece}}:
            continued = {"type": "input_json_delta", "partial_json": piece}
        case {"reasoningContent": {"redactedContent": _}}:
            return _started(event, delta)
        case {"reasoningContent": dict(thought)}:
            continued = {"type": "thinking_delta", **thought, "thinking": thought.get("text")}
    index = event.get("contentBlockIndex")
    return {"type": "content_block_delta", "index": index, "delta": continued}


class BedrockFormat(AnthropicFormat):
    """The format of Converse: the blocks of the Messages API in other words."""

    kind = "bedrock"
    key_header = "authorization"
    fixed_headers: ClassVar[Mapping[str, str]] = {
        "accept": "application/vnd.amazon.eventstream, application/json"
    }
    reserved = ("messages", "system", "toolConfig")
    fetched = ()
    answer_reader = BedrockAnswerReader
    event_decoder = EventStreamDecoder
    title = "Bedrock"
    results_show_media = False

    def url(self, target: EndpointTarget, ask: Ask) -> httpx.URL:
        """Return `BASE/model/NAME/converse-stream`, or `converse` with the option `stream: false`.

        The name of a model may be an ARN.
        """
        streams = ask.model.options.get("stream") is not False
        operation = "converse-stream" if streams else "converse"
        return target.url(f"/model/{target.model_in_path(ask.model.name)}/{operation}")

    def shows_schema(self, ask: Ask, host: str) -> bool:
        """Return false: it depends on the model."""
        return False

    def encode_user(self, content: Content) -> tuple[bytes, ...]:
        """Encode a message of blocks: a document is rejected without a text."""
        if media_of(content) and not text_of(content, lambda _: ""):
            content = [TextPart(text=_MEDIA_ALONE), *media_of(content)]
        return super().encode_user(content)

    def block(self, block: Part) -> Part:
        """Return a block of the Messages API in Converse's words."""
        match block:
            case {"type": "tool_use", "id": call_id, "name": name, "input": arguments}:
                return {"toolUse": {"toolUseId": call_id, "name": name, "input": arguments}}
            case {"type": "tool_result", "tool_use_id": call_id, "content": content}:
                shown = [*map(self.block, content)] or [{"text": "-"}]
                return {"toolResult": {"toolUseId": call_id, "content": shown}}
            case {"type": "thinking", "thinking": thought, "signature": signature}:
                signed = {"text": thought, "signature": signature}
                return {"reasoningContent": {"reasoningText": signed}}
            case {"type": "redacted_thinking", "data": data}:
                return {"reasoningContent": {"redactedContent": data}}
            case {"type": "image", "source": {"media_type": str(kind), "data": data}}:
                return {"image": {"format": kind.removeprefix("image/"), "source": {"bytes": data}}}
            case {"type": "document", "source": {"data": data}}:
                # No two documents of a request have the same name, of few characters.
                title = _NOT_IN_NAMES.sub("-", block.get("title", "document"))[:100]
                name = f"{title} {sha256(data.encode())[:8]}"
                return {"document": {"format": "pdf", "name": name, "source": {"bytes": data}}}
        return {"text": block["text"]}

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
        if (schema := held_schema(ask)) is not None:
            structure = {"jsonSchema": {"name": "output", "schema": json.dumps(schema)}}
            output = {"textFormat": {"type": "json_schema", "structure": structure}} | output
        system = _texts(ask.instructions)
        offered = [] if ask.tool_choice == "none" else ask.tools
        forced = request.tool_choice(_CHOICES, lambda name: {"tool": {"name": name}})
        if not offered and any(
            block in each for each in request.fragments for block in _TOOL_BLOCKS
        ):
            offered, forced = [_NO_TOOL], None
        specs = _declared(request.tool_names.offers(offered))
        tools = {"tools": [*({"toolSpec": spec} for spec in specs), *mark]}
        settings = {
            "system": [*system, *mark] if system else None,
            "inferenceConfig": {name: each for name, each in limits.items() if each is not None},
            "toolConfig": tools | ({"toolChoice": forced} if forced else {}) if specs else None,
            "outputConfig": output or None,
            "additionalModelRequestFields": {k: v for k, v in own.items() if v is not None} or None,
            **top_level,
        }
        marks = (b"," + encode_json(mark)[1:-1], b"]}") if mark else ()
        return request_body(joined_messages(request, (USER, ASSISTANT), _texts, *marks), settings)


def _texts(text: str) -> list[Part]:
    return [{"text": text}] if text.strip() else []


@cached_by_content
def _declared(offers: list[tuple[str, Part, str]]) -> list[Part]:
    return declared_tools(offers, "inputSchema", _accepted)


def _accepted(schema: Part, description: str) -> tuple[Part, str]:
    parameters, described = arguments_schema("bedrock", schema, description)
    return {"json": parameters}, described

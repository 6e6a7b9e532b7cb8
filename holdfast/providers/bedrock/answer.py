"""The answers of Converse: events of ConverseStream, or one whole message.

They are read as those of the Messages API, whose events and blocks are the same in other words.
Unknown events and blocks, and calls of tools that Amazon runs itself, are ignored.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.providers.answer.part_order import Part
from holdfast.providers.anthropic.answer import AnthropicAnswerReader
from holdfast.providers.json_fields import read_object, read_objects

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


class BedrockAnswerReader(AnthropicAnswerReader):
    """One answer of Converse, as it arrives."""

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
            yield {
                "type": "message",
                "content": [_block(part) for parts in cited for part in parts],
            }
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

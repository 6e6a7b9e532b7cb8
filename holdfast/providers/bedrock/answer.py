"""The answers of Converse: events of ConverseStream, or one whole message.

They are read as those of the Messages API, whose events and blocks are the same in other words.
Unknown events and blocks, and calls of tools that Amazon runs itself, are ignored.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.providers.answer_reader import read_object, read_objects, read_text
from holdfast.providers.anthropic.answer import AnthropicAnswerReader
from holdfast.providers.part_order import Part

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
_FILTERED = ("guardrail_intervened", "content_filtered")
# The model wrote a call or an answer that Amazon itself could not read.
_BROKEN = ("malformed_tool_use", "malformed_model_output")


class BedrockAnswerReader(AnthropicAnswerReader):
    """One answer of Converse, as it arrives."""

    format_name = "answer of Converse"
    marker = '"output"'

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read an event, or a whole answer."""
        is_whole = isinstance(read_object(value.get("output")).get("message"), dict)
        if not is_whole and not any(name in value for name in _EVENTS):
            return False
        for event in _translated(value):
            super().read_event(event)
        stop = value if is_whole else read_object(value.get("messageStop"))
        reason = read_text(stop.get("stopReason"))
        self.is_broken |= reason in _BROKEN
        if reason in (*_FILTERED, *_BROKEN):
            self.answer.notices.append(f"Bedrock ended the answer with {reason}")
        self.is_finished |= is_whole
        self.is_done = self.is_finished and "metadata" in value
        return True


def _translated(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of the Messages API that mean the same."""
    match value:
        case {"output": {"message": {"content": list(blocks)}}}:
            for index, block in enumerate(read_objects(blocks)):
                cited = read_objects(read_object(block.get("citationsContent")).get("content"))
                for each in cited or [block]:
                    yield _started(index, each)
        case {"contentBlockStart": {"start": {"toolUse": dict()} as block} as event}:
            yield _started(event.get("contentBlockIndex"), block)
        case {"contentBlockDelta": {"delta": dict(delta)} as event}:
            yield _continued(event.get("contentBlockIndex"), delta)
    usage = read_object(read_object(value.get("metadata", value)).get("usage"))
    stop = read_object(value.get("messageStop", value))
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": stop.get("stopReason")},
        "usage": {name: usage.get(theirs) for name, theirs in _TOKENS.items()},
    }


def _started(index: Any, block: dict[str, Any]) -> dict[str, Any]:
    started: Part = {"type": "text", **block}
    match block:
        case {"toolUse": dict(call)}:
            started = {"type": "tool_use", **call, "id": call.get("toolUseId")}
        case {"reasoningContent": {"reasoningText": dict(thought)}}:
            started = {"type": "thinking", **thought, "thinking": thought.get("text")}
        case {"reasoningContent": {"redactedContent": data}}:
            started = {"type": "redacted_thinking", "data": data}
    return {"type": "content_block_start", "index": index, "content_block": started}


def _continued(index: Any, delta: dict[str, Any]) -> dict[str, Any]:
    continued: Part = {"type": "text_delta", **delta}
    match delta:
        case {"toolUse": {"input": piece}}:
            continued = {"type": "input_json_delta", "partial_json": piece}
        case {"reasoningContent": {"redactedContent": _}}:
            return _started(index, delta)
        case {"reasoningContent": dict(thought)}:
            continued = {"type": "thinking_delta", **thought, "thinking": thought.get("text")}
    return {"type": "content_block_delta", "index": index, "delta": continued}

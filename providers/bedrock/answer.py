"""The answers of Converse: events of ConverseStream, or one whole message.

Only a call's block has a beginning of its own. Unknown events and blocks, and calls of tools that
Amazon runs itself, are ignored.
"""

from typing import Any

from holdfast.providers.answer_reader import (
    AnswerReader,
    arguments_text,
    read_count,
    read_object,
    read_objects,
    read_text,
)
from holdfast.providers.part_order import Part, PartOrder
from holdfast.providers.streamed_answer import (
    MAX_PROVIDER_DATA_BYTES,
    BoundedText,
    CallDraft,
    StreamedAnswer,
    well_formed,
)
from holdfast.schemas.internal.solution import Solution, StopReason, Usage

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "filtered",
    "content_filtered": "filtered",
}
# The model wrote a call or an answer that Amazon itself could not read, so none of it is used: the
# run reports to the model that its answer was empty.
_BROKEN = ("malformed_tool_use", "malformed_model_output")
_INPUT_TOKENS = ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
_THOUGHTS = ("text", "signature")


class BedrockAnswerReader(AnswerReader):
    """One answer of Converse, as it arrives."""

    format_name = "answer of Converse"
    marker = '"output"'

    def __init__(self, answer: StreamedAnswer) -> None:
        super().__init__(answer)
        self._order = PartOrder()
        self._blocks: dict[int | None, CallDraft | Part] = {}
        self._reason = ""

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read an event, or a whole answer."""
        match value:
            case {"output": {"message": {"content": list(blocks)}}}:
                for index, block in enumerate(read_objects(blocks)):
                    self._read_block(index, block)
                self._read_stop(value)
                self._read_usage(value)
                self.is_finished = True
            case {"contentBlockStart": {"start": {"toolUse": dict(call)}} as event}:
                self._read_call(_position(event), call)
            case {"contentBlockDelta": {"delta": dict(delta)} as event}:
                self._read_delta(_position(event), delta)
            case {"messageStop": dict(event)}:
                self._read_stop(event)
            case {"metadata": dict(event)}:
                self._read_usage(event)
                self.is_done = self.is_finished
            case _:
                return any(name in value for name in ("messageStart", "contentBlockStop"))
        return True

    def solution(self) -> Solution:
        """Return the whole answer with its signed reasoning; an empty one where it is broken."""
        # Models that sign nothing do not accept their reasoning back.
        parts = [each for each in self._order.items() if each.get("signature") != ""]
        has_reasoning = any("reasoning" in each["type"] for each in parts)
        self.answer.provider_data = parts if has_reasoning else None
        solution = super().solution()
        if self._reason not in _BROKEN:
            return solution
        nothing: dict[str, Any] = {"text": "", "calls": [], "provider_data": None}
        return solution.model_copy(update=nothing | {"stop_reason": "stop"})

    def _read_block(self, index: int, block: dict[str, Any]) -> None:
        match block:
            case {"toolUse": dict(call)}:
                self._read_call(index, call)
                written = {"input": arguments_text(call.get("input"))}
                self._read_delta(index, {"toolUse": written})
            case {"reasoningContent": {"reasoningText": dict(thought)}}:
                self._read_delta(index, {"reasoningContent": thought})
            case {"citationsContent": {"content": pieces}}:
                for piece in read_objects(pieces):
                    self._read_delta(index, piece)
            case _:
                self._read_delta(index, block)

    def _read_call(self, index: int | None, call: dict[str, Any]) -> None:
        if call.get("type") != "server_tool_use":
            provider_id = read_text(call.get("toolUseId")) or None
            self._blocks[index] = self.answer.add_call(read_text(call.get("name")), provider_id)
            self._order.add("tool_use")

    def _read_delta(self, index: int | None, delta: dict[str, Any]) -> None:
        match delta, self._blocks.get(index):
            case {"text": str(piece)}, _:
                self.answer.add_text(piece)
                self._order.add_text(piece)
            case {"toolUse": {"input": str(piece)}}, CallDraft() as call:
                self.answer.add_arguments(call, piece)
            case {"reasoningContent": {"redactedContent": str(data)}}, _:
                self._order.add("redacted_reasoning", data=well_formed(data))
            case {"reasoningContent": dict(thought)}, thinking if not isinstance(
                thinking, CallDraft
            ):
                if thinking is None:
                    # A solution stores no longer data than that, so the rest is never sent back.
                    texts = {name: BoundedText(MAX_PROVIDER_DATA_BYTES) for name in _THOUGHTS}
                    thinking = self._blocks[index] = self._order.add("reasoning", **texts)
                for name in _THOUGHTS:
                    thinking[name].add(read_text(thought.get(name)))

    def _read_usage(self, event: dict[str, Any]) -> None:
        """Read the counts: tokens read from the cache, or written to it, are counted apart."""
        usage = read_object(event.get("usage"))
        tokens, *cached = (read_count(usage.get(name)) for name in _INPUT_TOKENS)
        self.answer.usage = Usage(
            input_tokens=None if tokens is None else tokens + sum(each or 0 for each in cached),
            output_tokens=read_count(usage.get("outputTokens")),
            cached_tokens=cached[0],
            written_tokens=cached[1],
        )

    def _read_stop(self, event: dict[str, Any]) -> None:
        self._reason = read_text(event.get("stopReason"))
        self.is_finished = bool(self._reason)
        self.stop_reason = _STOP_REASONS.get(self._reason)
        if self.stop_reason == "filtered" or self._reason in _BROKEN:
            self.answer.notices.append(f"Bedrock ended the answer with {self._reason}")


def _position(event: dict[str, Any]) -> int | None:
    return read_count(event.get("contentBlockIndex"))

"""The Messages API's answers: events of a stream, or one whole message.

Unknown events, and blocks of tools that Anthropic runs itself, are ignored.
"""

from typing import Any

from holdfast.providers.answer_reader import (
    AnswerReader,
    read_count,
    read_counts,
    read_object,
    read_text,
)
from holdfast.providers.part_order import Part
from holdfast.providers.streamed_answer import (
    MAX_PROVIDER_DATA_BYTES,
    BoundedText,
    CallDraft,
    StreamedAnswer,
    well_formed,
)
from holdfast.providers.transport.error_response import shortened
from holdfast.schemas.internal.solution import Solution, Usage

_INPUT_TOKENS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_THOUGHTS = ("thinking", "signature")
_EVENTS = ("message_", "content_block_", "ping")
_REFUSED = "the provider's filters ended the answer"
_PAUSED = "the provider paused a long turn: the answer is what was received until then"


class AnthropicAnswerReader(AnswerReader):
    """One message, as it arrives."""

    format_name = "message of the Messages API"
    marker = '"type"'

    def __init__(self, answer: StreamedAnswer) -> None:
        super().__init__(answer)
        self._blocks: dict[int | None, CallDraft | Part] = {}
        # Some servers send the arguments of a call whole, with its name.
        self._calls: list[tuple[CallDraft, Any]] = []
        self._tokens: dict[str, int] = {}

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read an event, or a message."""
        match value:
            case {"type": "message", "content": list(blocks)}:
                self._read_message(value)
                for index, block in enumerate(blocks):
                    self._read_block(index, block)
                self._read_stop(value)
                self.is_finished = True
            case {"type": "message_start", "message": dict(message)}:
                self._read_message(message)
            case {"type": "content_block_start", "content_block": dict(block)}:
                self._read_block(value.get("index"), block)
            case {"type": "content_block_delta", "delta": dict(delta)}:
                self._read_delta(value.get("index"), delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._read_usage(value.get("usage"))
                self._read_stop(delta)
            case {"type": "message_stop"}:
                self.is_finished = self.is_done = True
            case _:
                return str(value.get("type")).startswith(_EVENTS)
        return True

    def solution(self) -> Solution:
        """Return the whole answer, with its thinking beside it."""
        for call, whole in self._calls if self.is_finished else ():
            if not call.arguments.bytes:
                self.add_arguments(call, whole)
        # No thinking is accepted back without its signature.
        blocks = [each for each in self.order.items() if each.get("signature") != ""]
        is_thinking = any("thinking" in each["type"] for each in blocks)
        self.answer.provider_data = blocks if is_thinking else None
        return super().solution()

    def _read_message(self, message: dict[str, Any]) -> None:
        self.answer.model = read_text(message.get("model")) or self.answer.model
        self._read_usage(message.get("usage"))

    def _read_block(self, index: Any, block: Any) -> None:
        position = read_count(index)
        self._blocks.pop(position, None)
        match block:
            case {"type": "text"}:
                self.add_text(read_text(block.get("text")))
            case {"type": "tool_use"}:
                call = self.add_call(block.get("name"), block.get("id"))
                self._blocks[position] = call
                self._calls.append((call, block.get("input")))
                self.order.add("tool_use")
            case {"type": "thinking"}:
                self._add_thoughts(position, block)
            case {"type": "redacted_thinking", "data": str(data)}:
                self.order.add("redacted_thinking", data=well_formed(data))

    def _read_delta(self, index: Any, delta: dict[str, Any]) -> None:
        position = read_count(index)
        match delta.get("type"), self._blocks.get(position):
            case "text_delta", _:
                self.add_text(read_text(delta.get("text")))
            case "input_json_delta", CallDraft() as call:
                self.answer.add_arguments(call, read_text(delta.get("partial_json")))
            case "thinking_delta" | "signature_delta", _:
                self._add_thoughts(position, delta)

    def _add_thoughts(self, position: int | None, piece: dict[str, Any]) -> None:
        if position not in self._blocks:
            # A solution stores no longer data than that, so the rest is never sent back.
            texts = {name: BoundedText(MAX_PROVIDER_DATA_BYTES) for name in _THOUGHTS}
            self._blocks[position] = self.order.add("thinking", **texts)
        thinking = self._blocks[position]
        if not isinstance(thinking, CallDraft):
            for name in _THOUGHTS:
                thinking[name].add(read_text(piece.get(name)))

    def _read_usage(self, usage: Any) -> None:
        """Read the counts: each is the sum so far, and an absent one is unchanged."""
        self._tokens |= read_counts(usage)
        total = sum(self._tokens.get(name, 0) for name in _INPUT_TOKENS)
        self.answer.usage = Usage(
            input_tokens=total if "input_tokens" in self._tokens else None,
            output_tokens=self._tokens.get("output_tokens"),
            cached_tokens=self._tokens.get("cache_read_input_tokens"),
            written_tokens=self._tokens.get("cache_creation_input_tokens"),
        )

    def _read_stop(self, delta: dict[str, Any]) -> None:
        reason = delta.get("stop_reason")
        self.read_stop(reason)
        if reason == "refusal":
            why = read_text(read_object(delta.get("stop_details")).get("explanation"))
            self.answer.notices.append(shortened(f"{_REFUSED}: {why}" if why else _REFUSED))
        if reason == "pause_turn":
            self.answer.notices.append(_PAUSED)

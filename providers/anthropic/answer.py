"""The Messages API, on the way back: events of a stream, or one whole message, into an answer.

Events that are new to us, and blocks of tools that Anthropic itself carries out, are passed over.
"""

from typing import Any

from holdfast.providers.answer_reading import AnswerReader, arguments_text, read_count, read_text
from holdfast.providers.anthropic.blocks import Block, BlockOrder, ThinkingBlock
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.providers.transport.error_response import shortened
from holdfast.schemas.internal.solution import Solution, StopReason, Usage

_STOP: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "refusal": "filtered",
}
_INPUT_TOKENS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_EVENTS = ("message_", "content_block_", "ping")
_REFUSED = "the provider's filters ended the answer"
_PAUSED = "the provider paused a long turn: what came until then is the answer"


class AnthropicAnswerReader(AnswerReader):
    """One message, as it arrives."""

    format_name = "message of the Messages API"
    marker = '"type"'

    def __init__(self, answer: StreamedAnswer) -> None:
        super().__init__(answer)
        self._order = BlockOrder()
        self._begun: dict[int | None, CallBlock | ThinkingBlock | None] = {}
        self._calls: list[CallBlock] = []
        self._tokens: dict[str, int] = {}

    def read_event(self, value: dict[str, Any]) -> bool:
        """An event, or a message."""
        match value:
            case {"type": "message", "content": list(blocks)}:
                self._message(value)
                for index, block in enumerate(blocks):
                    self._block(index, block)
                self._stopped(value)
                self.is_finished = True
            case {"type": "message_start", "message": dict(message)}:
                self._message(message)
            case {"type": "content_block_start", "content_block": dict(block)}:
                self._block(value.get("index"), block)
            case {"type": "content_block_delta", "delta": dict(delta)}:
                self._delta(value.get("index"), delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._spent(value.get("usage"))
                self._stopped(delta)
            case {"type": "message_stop"}:
                self.is_finished = self.is_done = True
            case _:
                return str(value.get("type")).startswith(_EVENTS)
        return True

    def solution(self) -> Solution:
        """The whole answer.

        Raises:
            CutOff: it is not whole.
            Unreadable: nothing in it was of the format.
        """
        for call in self._calls if self.is_finished else ():
            call.finish()
        self.answer.provider_data = self._order.data()
        return super().solution()

    def _message(self, message: dict[str, Any]) -> None:
        self.answer.model = read_text(message.get("model")) or self.answer.model
        self._spent(message.get("usage"))

    def _block(self, index: Any, block: Any) -> None:
        begun: CallBlock | ThinkingBlock | None = None
        match block:
            case {"type": "text"}:
                self._say(block)
            case {"type": "tool_use"}:
                begun = CallBlock(self.answer, block)
                self._calls.append(begun)
                self._order.call()
            case {"type": "thinking"}:
                begun = self._order.thought(block)
            case {"type": "redacted_thinking", "data": str(data)}:
                self._order.hidden(data)
        self._begun[_place(index)] = begun

    def _delta(self, index: Any, delta: dict[str, Any]) -> None:
        match delta.get("type"), self._begun.get(_place(index)):
            case "text_delta", _:
                self._say(delta)
            case "input_json_delta", CallBlock() as call:
                call.add(read_text(delta.get("partial_json")))
            case "thinking_delta" | "signature_delta", ThinkingBlock() as thought:
                thought.add(delta)

    def _say(self, said: dict[str, Any]) -> None:
        piece = read_text(said.get("text"))
        self.answer.add_text(piece)
        self._order.text(piece)

    def _spent(self, usage: Any) -> None:
        """Take in the counts, each of them the sum so far; those that are not said stay."""
        said = usage if isinstance(usage, dict) else {}
        counts = {name: counted for name in said if (counted := read_count(said[name])) is not None}
        self._tokens |= counts
        total = sum(self._tokens.get(name, 0) for name in _INPUT_TOKENS)
        self.answer.usage = Usage(
            input_tokens=total if "input_tokens" in self._tokens else None,
            output_tokens=self._tokens.get("output_tokens"),
            cached_tokens=self._tokens.get("cache_read_input_tokens"),
            written_tokens=self._tokens.get("cache_creation_input_tokens"),
        )

    def _stopped(self, delta: dict[str, Any]) -> None:
        reason = delta.get("stop_reason")
        if not isinstance(reason, str):
            return
        self.is_finished = True
        self.stop_reason = _STOP.get(reason)
        if reason == "refusal":
            details = delta.get("stop_details")
            why = read_text(details.get("explanation")) if isinstance(details, dict) else ""
            self.answer.notices.append(shortened(f"{_REFUSED}: {why}" if why else _REFUSED))
        if reason == "pause_turn":
            self.answer.notices.append(_PAUSED)


class CallBlock:
    """A call while it is being made. Its arguments come in pieces; some servers give them whole,
    with its name."""

    def __init__(self, answer: StreamedAnswer, block: Block) -> None:
        self._answer = answer
        self._whole = block.get("input")
        provider_id = read_text(block.get("id")) or None
        self._draft = answer.add_call(read_text(block.get("name")), provider_id)

    def add(self, piece: str) -> None:
        """More of its arguments."""
        self._answer.add_arguments(self._draft, piece)

    def finish(self) -> None:
        """No more pieces come; where none came, the arguments are those given with the name."""
        if not self._draft.arguments.bytes:
            self.add(arguments_text(self._whole))


def _place(index: Any) -> int | None:
    return index if isinstance(index, int) else None

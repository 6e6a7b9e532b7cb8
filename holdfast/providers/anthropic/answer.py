"""The Messages API's answers: events of a stream, or one whole message.

Unknown events, and blocks of tools that Anthropic runs itself, are ignored.
"""

from typing import Any, ClassVar

from holdfast.providers.answer.answer_reader import AnswerReader, UsageCounts
from holdfast.providers.answer.bounded_text import BoundedText, well_formed
from holdfast.providers.answer.call_draft import CallDraft
from holdfast.providers.answer.part_order import Part
from holdfast.providers.answer.streamed_answer import MAX_PROVIDER_DATA_BYTES, StreamedAnswer
from holdfast.providers.json_fields import read_object, read_place, read_text

_INPUT_TOKENS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_THOUGHTS = ("thinking", "signature")
# Where arguments belong to a call at another place; tools of Anthropic's own have arguments, too.
_NOT_CALLS = (None, "text", "thinking", "redacted_thinking")
_EVENTS = ("message_", "content_block_", "ping")
_PAUSED = "the provider paused a long turn: the answer is what was received until then"


class AnthropicAnswerReader(AnswerReader):
    """One message, as it arrives; `keeps_unsigned`: a thought is accepted back unsigned."""

    keeps_unsigned: ClassVar[bool] = True
    format_name = "message of the Messages API"
    marker = '"type"'
    whole_endings = ("end_turn", "tool_use", "stop_sequence", "stop", "tool_calls")
    counts: ClassVar[UsageCounts] = {
        "input_tokens": (_INPUT_TOKENS,),
        "output_tokens": ("output_tokens",),
        "cached_tokens": ("cache_read_input_tokens",),
        "written_tokens": ("cache_creation_input_tokens",),
    }

    def __init__(self, answer: StreamedAnswer) -> None:
        super().__init__(answer)
        self._blocks: dict[str | None, CallDraft | Part] = {}

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read an event, or a message."""
        match value:
            case {"type": "message", "content": list(blocks)}:
                self._begin(value)
                for index, block in enumerate(blocks):
                    self._read_block(index, block, is_begin=False)
                self._read_stop(value)
                self.is_finished = True
                return True
            case {"type": "message_start", "message": dict(message)}:
                self._begin(message)
            case {"type": "content_block_start", "content_block": dict(block)}:
                self._read_block(value.get("index"), block, is_begin=True)
            case {"type": "content_block_delta", "delta": dict(delta)}:
                self._read_delta(value.get("index"), delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                self.read_usage(value.get("usage"))
                self._read_stop(delta)
            case {"type": "message_stop"}:
                self.is_finished = self.is_done = True
        return str(value.get("type")).startswith(_EVENTS)

    def data_beside(self, calls: list[CallDraft]) -> Any:
        """Return the blocks of the answer, if any is a thought."""
        blocks = [
            each
            for each in self.order.items(calls)
            if each.get("signature") != "" or (self.keeps_unsigned and each["thinking"])
        ]
        return blocks if any("thinking" in each["type"] for each in blocks) else None

    def _begin(self, message: dict[str, Any]) -> None:
        if self._recognised:  # a gateway that starts again with another model
            self.restart()
            self._blocks = {}
        self.answer.model = read_text(message.get("model")) or self.answer.model
        self.read_usage(message.get("usage"))

    def _read_block(self, index: Any, block: Any, *, is_begin: bool) -> None:
        position = read_place(index)
        self._blocks[position] = read_object(block)
        match block:
            case {"type": "text"}:
                self.add_text(read_text(block.get("text")))
            case {"type": "tool_use"}:
                call = self.add_call(block.get("name"), block.get("id"))
                self._blocks[position] = call
                self.order.add("tool_use", call=call)
                # Whole at some servers; empty where pieces follow.
                self.answer.add_whole_arguments(call, block.get("input"), is_begin=is_begin)
            case {"type": "thinking"}:
                del self._blocks[position]
                self._add_thoughts(position, block)
            case {"type": "redacted_thinking", "data": str(data)}:
                self.order.add("redacted_thinking", data=well_formed(data))

    def _read_delta(self, index: Any, delta: dict[str, Any]) -> None:
        position = read_place(index)
        block = self._blocks.get(position)
        match delta.get("type"):
            case "text_delta":
                self.add_text(read_text(delta.get("text")))
            case "input_json_delta":
                piece = read_text(delta.get("partial_json"))
                is_call = isinstance(block, CallDraft)
                if piece and not is_call and read_object(block).get("type") in _NOT_CALLS:
                    block = self._blocks[position] = self.add_call("", "")
                if isinstance(block, CallDraft):
                    self.answer.add_arguments(block, piece)
            case "thinking_delta" | "signature_delta":
                self._add_thoughts(position, delta)

    def _add_thoughts(self, position: str | None, piece: dict[str, Any]) -> None:
        thinking = self._blocks.get(position)
        if isinstance(thinking, CallDraft):
            return
        if thinking is None or not isinstance(thinking.get("signature"), BoundedText):
            # A solution stores no longer data than that, so the rest is never sent back.
            texts = {name: BoundedText(MAX_PROVIDER_DATA_BYTES) for name in _THOUGHTS}
            thinking = self._blocks[position] = self.order.add("thinking", **texts)
        for name in _THOUGHTS:
            thinking[name].add(read_text(piece.get(name)))

    def _read_stop(self, delta: dict[str, Any]) -> None:
        reason, details = delta.get("stop_reason"), read_object(delta.get("stop_details"))
        self.read_stop(reason, read_text(details.get("explanation")))
        if reason == "pause_turn":
            self.answer.notices.append(_PAUSED)

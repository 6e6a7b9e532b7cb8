"""What a run is doing right now, in a word: for the line beside the spinner."""

from collections.abc import Mapping
from typing import Any

from cli.composing import told
from cli.remote import Streaming
from cli.text import clean, one_line, shorten

_NAME_CHARS = 40
_CALL_CHARS = 2_000
_LAST_LINES = 10


class Activity:
    """Follows the entries of a run and knows what is under way."""

    def __init__(self) -> None:
        self.streaming: Streaming | None = None
        self.waits = False
        self._running: dict[str, str] = {}
        self._turn = 0

    def entry(self, entry: Mapping[str, Any]) -> None:
        """Take note of what happened."""
        match entry:
            case {"type": "turn_start", "turn": int() as turn}:
                self._turn, self.waits = turn, False
            case {"type": "tool_start", "callId": call, "tool": tool}:
                self._running[call] = one_line(f"{tool} ({call})", _NAME_CHARS)
            case {"type": "tool_end", "callId": call}:
                self._running.pop(call, None)
            case {"type": "decision", "decided": dict()}:
                self.waits = False
            case {"type": "confirmation_required"}:
                self.waits = True

    def now(self) -> str:
        """What is going on, for a person."""
        if self._running:
            return shorten(f"carrying out {', '.join(self._running.values())}", 70)
        if self.waits:
            return "waiting for a person's decision"
        if self.streaming is not None:
            return self._answering(self.streaming)
        return f"turn {self._turn}" if self._turn else "starting"

    def last_lines(self, width: int, height: int) -> list[str]:
        """The end of what the model has said, in lines that fit the terminal."""
        if self.streaming is None:
            return []
        text = clean(_said(self.streaming)[-width * _LAST_LINES :])
        lines = [
            line[start : start + width]
            for line in [*text.expandtabs(4).split("\n"), *map(_written, self.streaming.calls)]
            for start in range(0, max(len(line), 1), width)
        ]
        return lines[-min(_LAST_LINES, max(height - 3, 1)) :]

    def _answering(self, streaming: Streaming) -> str:
        again = f" (attempt {streaming.attempt})" if streaming.attempt > 1 else ""
        return f"turn {self._turn}: the model answers{again}"


def _said(streaming: Streaming) -> str:
    """What the model says besides the calls that it is writing, as a person reads it."""
    return told(streaming.text, streaming.offset) if streaming.composed else streaming.text


def _written(call: Any) -> str:
    """A call that the model is writing, as far as it has got."""
    if not isinstance(call, Mapping):
        return ""
    return one_line(f"{call.get('tool', '')} {call.get('arguments', '')}", _CALL_CHARS)

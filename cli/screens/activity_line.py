"""What a run is doing right now, in a word: for the line beside the spinner."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.client.run_handle import AnswerProgress
from holdfast.client.stream.live_text import answer_text, call_lines
from holdfast.runtime.text_safety import clean, one_line, shorten

_NAME_CHARS = 40
_LAST_LINES = 10
_RUNNING_CHARS = 48
# The stages of a call that was started and is not running now, and of those that people or other
# calls of its turn hold up.
_OVER = ("ended", "unsure")
_ASKS = ("waiting", "unsure")
_HELD = ("pending", "queued")


class Activity:
    """The current activity of a run, by its entries."""

    def __init__(self) -> None:
        self.streaming: AnswerProgress | None = None
        self.waits = False
        self.waits_elsewhere = False
        self._running: dict[str, str] = {}
        self._stages: dict[str, str] = {}
        self._turn = 0

    def add_entry(self, entry: Mapping[str, Any]) -> None:
        """Take note of what happened."""
        match entry:
            case {"type": "turn_start", "turn": int() as turn}:
                self._turn, self.waits, self._stages = turn, False, {}
            case {"type": "tool_start", "callId": call, "tool": tool}:
                self._running[call] = one_line(f"{tool} ({call})", _NAME_CHARS)
            case {"type": "tool_end", "callId": call}:
                self._running.pop(call, None)
            case {"type": "decision", "decided": dict()}:
                self.waits = False
            case {"type": "confirmation_required"}:
                self.waits = True

    def show_calls(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """Set the stages of the calls of the turn.

        The log has their results when all of them have ended.
        """
        self._stages = {str(call["callId"]): str(call["stage"]) for call in calls}

    def text(self) -> str:
        """What is going on, for a person."""
        return "; ".join(filter(None, [self._going_on(), self._besides()]))

    def _going_on(self) -> str:
        if self.waits_elsewhere:
            return "waiting for a person's decision in a delegate"
        stages = self._stages
        running = [name for call, name in self._running.items() if stages.get(call) not in _OVER]
        if running:
            return shorten(f"running {', '.join(running)}", _RUNNING_CHARS)
        if self.waits or any(stage in _ASKS for stage in stages.values()):
            return "waiting for a person's decision"
        if self.streaming is not None:
            return self._answering(self.streaming)
        return f"turn {self._turn}" if self._turn else "starting"

    def _besides(self) -> str:
        """How many calls of the turn have ended without being told yet, or wait for others."""
        ended = sum(stage == "ended" for stage in self._stages.values())
        held = sum(
            stage in _HELD and call not in self._running for call, stage in self._stages.items()
        )
        told = [f"{ended} ended"] if ended else []
        return ", ".join(told + ([f"{held} held up by others"] if held else []))

    def last_lines(self, width: int, height: int) -> list[str]:
        """The end of what the model has said, in lines that fit the terminal."""
        if self.streaming is None:
            return []
        text = clean(answer_text(self.streaming)[-width * _LAST_LINES :])
        lines = [
            line[start : start + width]
            for line in [*text.expandtabs(4).split("\n"), *call_lines(self.streaming)]
            for start in range(0, max(len(line), 1), width)
        ]
        return lines[-min(_LAST_LINES, max(height - 3, 1)) :]

    def _answering(self, streaming: AnswerProgress) -> str:
        again = f" (attempt {streaming.attempt})" if streaming.attempt > 1 else ""
        return f"turn {self._turn}: the model answers{again}"

"""The current activity of a run in a few words, for the line beside the spinner."""

from collections.abc import Sequence

from holdfast.client.stream.heartbeats import AnswerProgress
from holdfast.client.stream.live_text import answer_text, call_lines
from holdfast.runtime.text_safety import clean, one_line, shorten
from holdfast.schemas import log_entry
from holdfast.schemas.run import ReportedCall

_NAME_CHARS = 40
_LAST_LINES = 10
_RUNNING_CHARS = 48
# The stages of a call that was started and is not running now, of a call that needs a decision,
# and of a call that other calls of its turn delay.
_OVER = ("ended", "unsure")
_UNDECIDED = ("waiting", "unsure")
_DELAYED = ("pending", "queued")


class Activity:
    """The current activity of a run, by its entries."""

    def __init__(self) -> None:
        self.streaming: AnswerProgress | None = None
        self.waits = False
        self.waits_elsewhere = False
        self.retry = ""
        self._running: dict[str, str] = {}
        self._stages: dict[str, str] = {}
        self._turn = 0

    def add_entry(self, entry: log_entry.Entry) -> None:
        """Update the activity by the next entry of the log."""
        match entry:
            case log_entry.TurnStartEntry(turn=turn):
                self._turn, self.waits, self._stages = turn, False, {}
            case log_entry.ToolStartEntry(call_id=call, tool=tool):
                self._running[call] = one_line(f"{tool} ({call})", _NAME_CHARS)
            case log_entry.ToolEndEntry(call_id=call):
                self._running.pop(call, None)
            case log_entry.DecisionEntry(decided=decided) if decided is not None:
                self.waits = False
            case log_entry.ConfirmationRequiredEntry():
                self.waits = True

    def show_answer(self, streaming: AnswerProgress | None) -> None:
        """Set the partial answer of the model; `None` without one."""
        self.streaming = streaming

    def show_delegates_wait(self, waits: bool) -> None:
        """Set whether delegates have pending approvals."""
        self.waits_elsewhere = waits

    def show_calls(self, calls: Sequence[ReportedCall]) -> None:
        """Set the stages of the calls of the turn.

        The log has their results when all of them have ended.
        """
        self._stages = {call.call_id: call.stage for call in calls}

    def text(self) -> str:
        """Return the activity, the numbers of ended and delayed calls of the turn, and a retry."""
        ended = sum(stage == "ended" for stage in self._stages.values())
        delayed = sum(
            stage in _DELAYED and call not in self._running for call, stage in self._stages.items()
        )
        counts = [f"{ended} ended"] if ended else []
        counts += [f"{delayed} delayed by the rate limit"] if delayed else []
        return "; ".join(filter(None, [self._current(), ", ".join(counts), self.retry]))

    def _current(self) -> str:
        if self.waits_elsewhere:
            return "waiting for a person's decision in a delegate"
        stages = self._stages
        running = [name for call, name in self._running.items() if stages.get(call) not in _OVER]
        if running:
            return shorten(f"running {', '.join(running)}", _RUNNING_CHARS)
        if self.waits or any(stage in _UNDECIDED for stage in stages.values()):
            return "waiting for a person's decision"
        if self.streaming is not None:
            attempt = self.streaming.attempt
            again = f" (attempt {attempt})" if attempt > 1 else ""
            return f"turn {self._turn}: the model answers{again}"
        return f"turn {self._turn}" if self._turn else "starting"

    def last_lines(self, width: int, height: int) -> list[str]:
        """Return the end of the model's answer, in lines that fit the terminal."""
        if self.streaming is None:
            return []
        text = clean(answer_text(self.streaming)[-width * _LAST_LINES :])
        lines = [
            line[start : start + width]
            for line in [*text.expandtabs(4).split("\n"), *call_lines(self.streaming)]
            for start in range(0, max(len(line), 1), width)
        ]
        return lines[-min(_LAST_LINES, max(height - 3, 1)) :]

"""A run as plain lines, one for each event: for pipes, files and logs.

A line is the time in UTC, a word, and its subject. Words, order and separators are stable. A screen
has the current activity of the run in a few words, for the line beside a spinner.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from holdfast.client import question_text
from holdfast.client.result import RunEnding, ending_lines
from holdfast.client.stream.heartbeats import (
    AnswerProgress,
    PendingActivity,
    answer_text,
    call_lines,
    new_failure_lines,
)
from holdfast.runtime.narration.log_narration import LogNarration, NarrationLine
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.text_safety import clean, format_clock, one_line, shorten
from holdfast.schemas import log_entry
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.run import ReportedCall

_WORD_COLUMNS = 10
_BODY_CHARS = 500
_NAME_CHARS = 80
_ARGUMENT_CHARS = 2_000

_ACTIVITY_CHARS = 40
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
                self._running[call] = one_line(f"{tool} ({call})", _ACTIVITY_CHARS)
            case log_entry.ToolEndEntry(call_id=call):
                self._running.pop(call, None)
            case log_entry.DecisionEntry(decided=decided) if decided is not None:
                self.waits = False
            case log_entry.ConfirmationRequiredEntry():
                self.waits = True

    def show_answer(self, streaming: AnswerProgress | None) -> None:
        self.streaming = streaming

    def show_decision(self, call_id: str) -> None:
        self.waits = False
        self._stages.pop(call_id, None)

    def show_delegates_wait(self, waits: bool) -> None:
        self.waits_elsewhere = waits

    def show_calls(self, calls: Sequence[ReportedCall]) -> None:
        """Set the stages of the calls of the turn.

        The log has their results when all of them have ended.
        """
        self._stages = {call.call_id: call.stage for call in calls}

    def text(self) -> str:
        """Return the activity, the numbers of ended and delayed calls of the turn, and a retry."""
        ended, stages = sum(each == "ended" for each in self._stages.values()), self._stages.items()
        delayed = sum(each in _DELAYED and call not in self._running for call, each in stages)
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


class PlainScreen:
    """Writes lines without colours; the current `activity` is not shown."""

    def __init__(self, stream: TextIO, run_id: str) -> None:
        self._stream = stream
        self._run_id = run_id
        self._narration = LogNarration(run_id)
        self._failures: dict[str, str] = {}
        self.activity = Activity()

    @contextmanager
    def live(self) -> Iterator[None]:
        yield

    @contextmanager
    def pause_for_input(self) -> Iterator[None]:
        """Draw nothing while a person types, in the body of the `with` statement."""
        yield

    def show_entry(self, entry: Mapping[str, Any]) -> None:
        for line in self._narration.lines(log_entry.read_record(entry)):
            self._write_line(line)

    def show_approval(self, waiting: PendingApproval, *, asked: bool) -> None:
        """Write the command that decides it, and all details if the person is asked next."""
        view = QuestionView.of(waiting)
        name = f"{one_line(waiting.call_id, _NAME_CHARS)} {view.name}"
        text = f"{name}: {question_text.how_to_decide(self._run_id, waiting)}"
        self._write_line(NarrationLine(format_clock(waiting.requested_at), "waiting", text))
        if not asked:
            return
        self.print_note(f"    {one_line(view.heading, _ARGUMENT_CHARS)}")
        because = [("because", view.reasoning)] if view.reasoning else []
        for name, value in because + view.rows:
            self.print_note(f"    {name}: {one_line(value, _ARGUMENT_CHARS)}")
        for text in question_text.explanations(waiting):
            self.print_note(f"    {one_line(text, _ARGUMENT_CHARS)}")

    def print_waiting(self, text: str) -> None:
        """Write what the run waits for, at the current time; `text` is safe to print."""
        now = format_clock(datetime.now(UTC).isoformat())
        self._write_line(NarrationLine(now, "waiting", text))

    def show_failing(self, failing: Sequence[PendingActivity]) -> None:
        self.activity.retry = failing[0].next_attempt() if failing else ""
        for line in new_failure_lines(failing, self._failures):
            self.print_waiting(line)

    def print_note(self, text: str) -> None:
        """Write a note as a line of its own; `text` is safe to print."""
        print(text, file=self._stream, flush=True)

    def prompt(self, text: str) -> None:
        print(text, end="", file=self._stream, flush=True)

    def show_ending(self, ending: RunEnding) -> None:
        for name, text in ending_lines(ending):
            self.print_note(f"{name}: {text}")

    def _write_line(self, line: NarrationLine) -> None:
        body = one_line(line.body, _BODY_CHARS)
        text = "  ".join(part for part in (line.text, body) if part)
        self.print_note(f"{line.at} {line.word.ljust(_WORD_COLUMNS)} {text}".rstrip())

"""A run as plain lines, one for each event: for pipes, files and logs.

A line is the local time, a word, and its subject. Words, order and separators are stable.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from holdfast.cli.screens.activity_line import Activity
from holdfast.client import question_text
from holdfast.client.result import RunEnding, ending_lines
from holdfast.client.stream.heartbeats import PendingActivity, new_failure_lines
from holdfast.runtime.narration.log_narration import LogNarration, NarrationLine
from holdfast.runtime.text_safety import format_clock, one_line
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.log_entry import read_record

_WORD_COLUMNS = 10
_BODY_CHARS = 500
_NAME_CHARS = 80
_ARGUMENT_CHARS = 2_000


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
        """Draw the run in the body of the `with` statement."""
        yield

    @contextmanager
    def pause_for_input(self) -> Iterator[None]:
        """Draw nothing while a person types, in the body of the `with` statement."""
        yield

    def show_entry(self, entry: Mapping[str, Any]) -> None:
        """Write the lines of an entry."""
        for line in self._narration.lines(read_record(entry)):
            self._write_line(line)

    def show_approval(self, waiting: PendingApproval, *, asked: bool) -> None:
        """Write the command that decides it, and all details if the person is asked next."""
        name = f"{one_line(waiting.call_id, _NAME_CHARS)} {question_text.call_name(waiting)}"
        text = f"{name}: {question_text.how_to_decide(self._run_id, waiting)}"
        self._write_line(NarrationLine(format_clock(waiting.requested_at), "waiting", text))
        if not asked:
            return
        self.print_note(f"    {one_line(question_text.heading(waiting), _ARGUMENT_CHARS)}")
        rows = question_text.arguments(waiting)
        if reason := question_text.reasoning(waiting):
            rows = [("because", reason), *rows]
        for name, value in rows:
            self.print_note(f"    {name}: {one_line(value, _ARGUMENT_CHARS)}")
        for text in question_text.explanations(waiting):
            self.print_note(f"    {one_line(text, _ARGUMENT_CHARS)}")

    def print_waiting(self, text: str) -> None:
        """Write what the run waits for, at the current time; `text` is safe to print."""
        now = format_clock(datetime.now(UTC).isoformat())
        self._write_line(NarrationLine(now, "waiting", text))

    def show_failing(self, failing: Sequence[PendingActivity]) -> None:
        """Write each new failure of an activity that is tried again."""
        self.activity.retry = failing[0].next_attempt() if failing else ""
        for line in new_failure_lines(failing, self._failures):
            self.print_waiting(line)

    def print_note(self, text: str) -> None:
        """Write a note as a line of its own; `text` is safe to print."""
        print(text, file=self._stream, flush=True)

    def prompt(self, text: str) -> None:
        """Write a prompt; the answer follows on its line."""
        print(text, end="", file=self._stream, flush=True)

    def show_ending(self, ending: RunEnding) -> None:
        """Write the output, the state and the usage of the run."""
        for name, text in ending_lines(ending):
            self.print_note(f"{name}: {text}")

    def _write_line(self, line: NarrationLine) -> None:
        body = one_line(line.body, _BODY_CHARS)
        text = "  ".join(part for part in (line.text, body) if part)
        self.print_note(f"{line.at} {line.word.ljust(_WORD_COLUMNS)} {text}".rstrip())

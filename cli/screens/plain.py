"""A run as plain lines, one for each thing that happens: for pipes, files and logs.

A line is the local time, a word, and what it is about. Words, order and separators are stable.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from holdfast.client import question_text
from holdfast.client.result import RunEnding, ending_lines
from holdfast.client.run_handle import AnswerProgress
from holdfast.runtime.narration.log_narration import LogNarration, NarrationLine
from holdfast.runtime.narration.phrases import QUEUED_FOR_MODEL
from holdfast.runtime.text_safety import format_clock, one_line
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.delegate import DelegatePending
from holdfast.schemas.log_entry import read_record

_WORD_COLUMNS = 10
_BODY_CHARS = 500
_NAME_CHARS = 80
_ARGUMENT_CHARS = 2_000


class PlainScreen:
    """Writes lines without colours; tokens are left to the message that they end up in."""

    log = names.CONTEXT

    def __init__(self, stream: TextIO, run_id: str) -> None:
        self._stream = stream
        self._run_id = run_id
        self._story = LogNarration(run_id)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Nothing to set up."""
        yield

    def show_entry(self, entry: Mapping[str, Any]) -> None:
        """Write a line for what happened."""
        for line in self._story.lines(read_record(entry)):
            self._write(_folded(line))

    def show_answer(self, streaming: AnswerProgress | None) -> None:
        """The message, when it is there, has all of it in one line."""

    def show_calls(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """A line is for what has happened."""

    def show_approval(self, waiting: PendingApproval, *, asked: bool) -> None:
        """Write the command that decides it, and all details if the person is asked."""
        name = f"{one_line(waiting.call_id, _NAME_CHARS)} {question_text.call_name(waiting)}"
        text = f"{name}: {question_text.how_to_decide(self._run_id, waiting)}"
        self._write(_folded(NarrationLine(format_clock(waiting.requested_at), "waiting", text)))
        if asked:
            self._describe(waiting)

    def show_delegate_approvals(self, new: list[DelegatePending], *, waits: bool) -> None:
        """Write a line for each, at the current time."""
        for there in new:
            at = format_clock(datetime.now(UTC).isoformat())
            self._write(_folded(NarrationLine(at, "waiting", question_text.delegate_line(there))))

    def show_queued(self) -> None:
        """Write a line, at the time at which it is seen."""
        at = format_clock(datetime.now(UTC).isoformat())
        self._write(_folded(NarrationLine(at, "waiting", QUEUED_FOR_MODEL)))

    def print_note(self, text: str) -> None:
        """Write a remark of ours."""
        self._write(text)

    @contextmanager
    def pause_for_input(self) -> Iterator[None]:
        """Lines do not move."""
        yield

    def prompt(self, text: str) -> None:
        """Write the question; the answer follows on its line."""
        print(text, end="", file=self._stream, flush=True)

    def show_ending(self, ending: RunEnding) -> None:
        """Write the output, the state and what the run used."""
        for name, text in ending_lines(ending):
            self._write(f"{name}: {text}")

    def _describe(self, waiting: PendingApproval) -> None:
        if why := question_text.reasoning(waiting):
            self._write(f"    because: {one_line(why, _ARGUMENT_CHARS)}")
        for name, value in question_text.arguments(waiting):
            self._write(f"    {name}: {one_line(value, _ARGUMENT_CHARS)}")
        self._write(f"    {one_line(question_text.question(waiting), _BODY_CHARS)}")
        for text in (question_text.effects(waiting), question_text.terms(waiting)):
            if text:
                self._write(f"    {text}")

    def _write(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


def _folded(line: NarrationLine) -> str:
    body = one_line(line.body, _BODY_CHARS)
    text = "  ".join(part for part in (line.text, body) if part)
    return f"{line.at} {line.word.ljust(_WORD_COLUMNS)} {text}".rstrip()

"""A run as one JSON object a line, for programs.

`holdfast run` begins with `{"type": "run", "run": ID}`. Then come the run's events as they are,
with `token` and `tool_call_delta` between them, and last either `done` or `error`. A delta has the
characters from `offset` on of what the model has said in this `attempt`; a new attempt starts at 0.
In composed calling that is its JSON, calls and all. A `done` whose output is a reference to the
worker's store is written when the run has closed, with the whole output where that can be had.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from holdfast.client.result import RunEnding
from holdfast.client.run_handle import AnswerProgress
from holdfast.client.stream.deltas import calls_delta, token
from holdfast.client.stream.live_text import TokenText
from holdfast.runtime.text_safety import as_json
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.delegate import DelegatePending
from holdfast.schemas.internal.stored_value import Stored


class JsonScreen:
    """Writes JSON lines; what is meant for people alone is left out."""

    log = names.EVENTS

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._tokens = TokenText()
        self._turn = 0
        self._over = False
        self._done: dict[str, Any] | None = None

    @contextmanager
    def live(self) -> Iterator[None]:
        """Nothing to set up."""
        yield

    def show_entry(self, entry: Mapping[str, Any]) -> None:
        """Write an event as it is."""
        self._turn = entry.get("turn", self._turn)
        self._over = entry["type"] in ("done", "error")
        if self._over and Stored.of(entry.get("output")) is not None:
            self._done = dict(entry)
            return
        self._write(entry)

    def show_answer(self, streaming: AnswerProgress | None) -> None:
        """Write what the model has said since the last time."""
        if streaming is None:
            return
        offset, text = self._tokens.new(streaming)
        if text:
            self._write(token(self._turn, streaming.attempt, offset, text))
        if calls := self._tokens.new_calls(streaming):
            self._write(calls_delta(self._turn, streaming.attempt, calls))

    def show_calls(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """A program asks for it by the query `status`."""

    def show_approval(self, waiting: PendingApproval, *, asked: bool) -> None:
        """The event `confirmation_required` has said it."""

    def show_delegate_approvals(self, new: list[DelegatePending], *, waits: bool) -> None:
        """The delegate's own events say it."""

    def show_queued(self) -> None:
        """A remark for people."""

    def print_note(self, text: str) -> None:
        """A remark for people."""

    @contextmanager
    def pause_for_input(self) -> Iterator[None]:
        """A program is asked nothing."""
        yield

    def prompt(self, text: str) -> None:
        """A program is asked nothing."""

    def show_ending(self, ending: RunEnding) -> None:
        """Write the end, where the run could not write it itself or not all of it."""
        if self._done is not None:
            self._write(ending.whole(self._done))
        elif not self._over:
            self._write(ending.event())

    def _write(self, value: Mapping[str, Any]) -> None:
        print(as_json(value), file=self._stream, flush=True)

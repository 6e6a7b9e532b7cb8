"""A run as one JSON object a line, for programs.

`holdfast run` begins with `{"type": "run", "run": ID}`. Then come the run's events as they are,
with `token` and `tool_call_delta` between them, and last either `done` or `error`. A delta has the
characters from `offset` on of the model's answer in this `attempt`; a new attempt starts at 0. In
composed calling these are its JSON, with the calls. A `done` whose output is a reference to the
worker's store is written when the run has closed, with the whole output where it is available.
"""

from collections.abc import Mapping
from typing import Any, TextIO

from holdfast.cli.screens.screen import Screen
from holdfast.client.result import RunEnding
from holdfast.client.run_handle import AnswerProgress
from holdfast.client.stream.deltas import calls_delta, token
from holdfast.client.stream.live_text import TokenText
from holdfast.runtime.text_safety import as_json
from holdfast.schemas import names
from holdfast.schemas.internal.stored_value import Stored


class JsonScreen(Screen):
    """Writes JSON lines, without notes for people and without prompts."""

    log = names.EVENTS

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._tokens = TokenText()
        self._turn = 0
        self._over = False
        self._done: dict[str, Any] | None = None

    def show_entry(self, entry: Mapping[str, Any]) -> None:
        """Write an event as it is."""
        self._turn = entry.get("turn", self._turn)
        self._over = entry["type"] in ("done", "error")
        if self._over and Stored.of(entry.get("output")) is not None:
            self._done = dict(entry)
            return
        self._write(entry)

    def show_answer(self, streaming: AnswerProgress | None) -> None:
        """Write the new part of the model's answer."""
        if streaming is None:
            return
        offset, text = self._tokens.new(streaming)
        if text:
            self._write(token(self._turn, streaming.attempt, offset, text))
        if calls := self._tokens.new_calls(streaming):
            self._write(calls_delta(self._turn, streaming.attempt, calls))

    def show_ending(self, ending: RunEnding) -> None:
        """Write the end, where the run could not write it itself or not all of it."""
        if self._done is not None:
            self._write(ending.whole(self._done))
        elif not self._over:
            self._write(ending.event())

    def _write(self, value: Mapping[str, Any]) -> None:
        print(as_json(value), file=self._stream, flush=True)

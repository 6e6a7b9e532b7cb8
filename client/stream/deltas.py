"""What is told between events: the answer that a model writes, and what calls say of themselves.

    Streaming ─► Answering ─► token, tool_call_delta        the answer in the log ─► its last tokens
    Update    ─► Updating  ─► tool_update

The tokens of an answer, those of its last attempt, add up to what the model said, whatever of it
was seen on its way. The other two replace what was said before of the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from holdfast.client.run_handle import Streaming
from holdfast.client.stream.cursor import StreamCursor
from holdfast.client.stream.heartbeats import Update

MAX_TOKEN_CHARS: Final = 16_000


@dataclass(frozen=True)
class Frame:
    """One thing that is told: an event, or a part of something on its way. Whoever has it stands
    at `position`."""

    position: StreamCursor
    data: dict[str, Any]

    @property
    def type(self) -> str:
        """What is told."""
        return str(self.data["type"])


def token(turn: int, attempt: int, offset: int, text: str) -> dict[str, Any]:
    """The characters from `offset` on of what the model says in an attempt to answer."""
    said = {"turn": turn, "attempt": attempt, "offset": offset, "text": text}
    return {"type": "token", **said}


def calls_delta(turn: int, attempt: int, calls: list[Any]) -> dict[str, Any]:
    """The calls that the model is writing, as far as it has got."""
    return {"type": "tool_call_delta", "turn": turn, "attempt": attempt, "calls": calls}


class Answering:
    """One answer of the model: what of it was told, and what is next."""

    def __init__(self, turn: int, position: StreamCursor) -> None:
        self.turn = turn
        self.position = position
        self._key: str | None = None
        self._calls: list[Any] = []

    def seen(self, streaming: Streaming) -> Iterator[Frame]:
        """What is new in an answer on its way.

        Where it is longer than what is seen of it, the middle is missing: the rest is told when the
        whole is there.
        """
        if streaming.call or streaming.summary or streaming.turn not in (self.turn, None):
            return
        voids = False
        if not self._goes_on(streaming):
            if streaming.offset or not (streaming.text or streaming.calls):
                return  # there is nothing to tell of it yet
            voids = self.position.told_chars > 0
            self._begin(streaming.attempt)
        self._key = streaming.key
        start = self.position.told_chars - streaming.offset
        yield from self._tokens(streaming.text[start:] if start >= 0 else "", even_none=voids)
        if streaming.calls and streaming.calls != self._calls:
            self._calls = streaming.calls
            told = calls_delta(self.turn, self.position.attempt, streaming.calls)
            yield Frame(self.position, told)

    def answered(self, text: str) -> Iterator[Frame]:
        """What is left to tell of the answer that the model gave."""
        if not self.position.begins(text):
            self._begin(0)
            yield from self._tokens(text, even_none=True)
            return
        if not self.position.attempt:
            self._begin(1)
        yield from self._tokens(text[self.position.told_chars :])

    def _goes_on(self, streaming: Streaming) -> bool:
        """Whether this is of the attempt that was told of last."""
        if self._key is not None:
            return streaming.key == self._key
        # Told of by another process.
        told, end = self.position.told_chars, streaming.offset + len(streaming.text)
        fits = told <= end if streaming.offset else self.position.begins(streaming.text)
        return streaming.attempt == self.position.attempt and fits

    def _begin(self, attempt: int) -> None:
        self._calls = []
        self.position = self.position.in_attempt(max(attempt, self.position.attempt + 1))

    def _tokens(self, text: str, *, even_none: bool = False) -> Iterator[Frame]:
        starts = range(0, len(text), MAX_TOKEN_CHARS) if text or not even_none else [0]
        for start in starts:
            at, piece = self.position, text[start : start + MAX_TOKEN_CHARS]
            self.position = at.told(piece)
            yield Frame(self.position, token(self.turn, at.attempt, at.told_chars, piece))


class Updating:
    """What calls have said of themselves, and what of that is new."""

    def __init__(self) -> None:
        self._told: dict[str, Update] = {}

    def new(self, updates: Iterable[Update], position: StreamCursor) -> Iterator[Frame]:
        """What has changed since the last time."""
        before, self._told = self._told, {one.call_id: one for one in updates}
        for one in self._told.values():
            if before.get(one.call_id) != one:
                said = {"turn": one.turn, "callId": one.call_id, "attempt": one.attempt}
                yield Frame(position, {"type": "tool_update", **said, "details": one.details})

"""The frames between events: the partial answer of a model, and the progress of calls.

    AnswerProgress ─► AnswerStream ─► token, tool_call_delta     final answer ─► its last tokens
    CallProgress   ─► CallUpdates  ─► tool_update

The tokens of the last attempt at an answer add up to the model's answer, however much of it was
read before it was complete. Each of the other two frames replaces the one before for the same call
or answer.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from holdfast.client.stream.heartbeats import AnswerProgress, CallProgress

_WRITTEN: Final = re.compile(
    r"([0-9]{1,12})(?:\.([0-9]{1,9})\.([0-9]{1,9})\.([0-9a-f]{8})|(\.end))?"
)

MAX_TOKEN_CHARS: Final = 16_000
BETWEEN_EVENTS: Final = ("token", "tool_call_delta", "tool_update")
"""The types of the frames that are no events."""


@dataclass(frozen=True)
class StreamCursor:
    """The position of a reader: all events up to number `after`, and a part of the next answer.

    The part is the first `sent_chars` characters of an `attempt`, with their checksum. `ended`: the
    end was sent, too.
    """

    after: int = 0
    attempt: int = 0
    sent_chars: int = 0
    checksum: int = 0
    ended: bool = False

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse the id of a frame.

        Raises:
            ValueError: the text is not the id of a frame.
        """
        match = _WRITTEN.fullmatch(text)
        if match is None:
            raise ValueError("no frame has this id; send that of the last frame, or a number")
        after, attempt, told_chars, checksum, end = match.groups()
        return cls(
            after=int(after),
            attempt=int(attempt or 0),
            sent_chars=int(told_chars or 0),
            checksum=int(checksum or "0", 16),
            ended=end is not None,
        )

    def __str__(self) -> str:
        if self.ended:
            return f"{self.after}.end"
        if not self.attempt:
            return str(self.after)
        return f"{self.after}.{self.attempt}.{self.sent_chars}.{self.checksum:08x}"

    def advanced(self, text: str) -> Self:
        return replace(
            self, sent_chars=self.sent_chars + len(text), checksum=_checksum(text, self.checksum)
        )

    def in_attempt(self, attempt: int) -> Self:
        return replace(self, attempt=attempt, sent_chars=0, checksum=0)

    def is_prefix_of(self, text: str) -> bool:
        prefix = text[: self.sent_chars]
        return len(prefix) == self.sent_chars and _checksum(prefix) == self.checksum


def _checksum(text: str, before: int = 0) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"), before)


@dataclass(frozen=True)
class Frame:
    """A frame of a stream: an event, or a part of an answer; `position` is the place after it."""

    position: StreamCursor
    data: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.data["type"])


class AnswerStream:
    """The frames of one answer of the model."""

    def __init__(self, turn: int, position: StreamCursor) -> None:
        self.turn = turn
        self.position = position
        self._key: str | None = None
        self._calls: list[Any] = []

    def update(self, streaming: AnswerProgress) -> Iterator[Frame]:
        """Yield the new parts of an unfinished answer.

        Where the progress shows only its end, the middle is missing: `finish` sends the rest.
        """
        if streaming.call or streaming.summary or streaming.turn not in (self.turn, None):
            return
        sent, end = self.position.sent_chars, streaming.offset + len(streaming.text)
        if self._key is not None:
            is_same_attempt = streaming.key == self._key
        else:
            # Another process may have sent the characters.
            fits = self.position.is_prefix_of(streaming.text)
            fits = sent <= end if streaming.offset else fits
            is_same_attempt = streaming.attempt == self.position.attempt and fits
        voids = False
        if not is_same_attempt:
            if streaming.offset or not (streaming.text or streaming.calls):
                return  # there is no content yet
            voids = sent > 0
            self._begin(streaming.attempt)
        self._key = streaming.key
        start = self.position.sent_chars - streaming.offset
        yield from self._tokens(streaming.text[start:] if start >= 0 else "", even_none=voids)
        if streaming.calls and streaming.calls != self._calls:
            self._calls = streaming.calls
            data = {"turn": self.turn, "attempt": self.position.attempt, "calls": self._calls}
            yield Frame(self.position, {"type": "tool_call_delta", **data})

    def finish(self, text: str) -> Iterator[Frame]:
        """Yield the rest of the final answer."""
        if not self.position.is_prefix_of(text):
            self._begin(0)
            yield from self._tokens(text, even_none=True)
            return
        if not self.position.attempt:
            self._begin(1)
        yield from self._tokens(text[self.position.sent_chars :])

    def _begin(self, attempt: int) -> None:
        self._calls = []
        self.position = self.position.in_attempt(max(attempt, self.position.attempt + 1))

    def _tokens(self, text: str, *, even_none: bool = False) -> Iterator[Frame]:
        starts = range(0, len(text), MAX_TOKEN_CHARS) if text or not even_none else [0]
        for start in starts:
            at, piece = self.position, text[start : start + MAX_TOKEN_CHARS]
            self.position = at.advanced(piece)
            data = {"turn": self.turn, "attempt": at.attempt, "offset": at.sent_chars}
            yield Frame(self.position, {"type": "token", **data, "text": piece})


class CallUpdates:
    """The progress of calls that a reader has been sent."""

    def __init__(self) -> None:
        self._sent: Sequence[CallProgress] = ()

    def new(self, updates: Sequence[CallProgress]) -> list[CallProgress]:
        before, self._sent = self._sent, updates
        return [one for one in updates if one not in before]

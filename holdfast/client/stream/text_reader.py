"""What a reader has of the answer that a model is writing: the one cursor of all streams.

    AnswerProgress ─► `read` ─► more text          final answer ─► `finish` ─► its last text

The parts of the last attempt at an answer add up to the model's answer, however much of it was read
before it was complete.
"""

import re
import zlib
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from holdfast.client.stream.heartbeats import AnswerProgress

_WRITTEN: Final = re.compile(
    r"([0-9]{1,12})(?:\.([0-9]{1,9})\.([0-9]{1,9})\.([0-9a-f]{8})|(\.end))?"
)


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

    def is_prefix_of(self, text: str) -> bool:
        prefix = text[: self.sent_chars]
        return len(prefix) == self.sent_chars and _checksum(prefix) == self.checksum


def _checksum(text: str, before: int = 0) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"), before)


@dataclass(frozen=True)
class TextDelta:
    """More of an answer: `text` from the cursor `at` on, and the `calls` if they have changed.

    `is_void`: what was sent of another attempt is void. `has_gap`: some text before it is missing;
    `fills_gap`: it is there now.
    """

    at: StreamCursor
    text: str
    is_void: bool = False
    has_gap: bool = False
    fills_gap: bool = False
    calls: list[Any] | None = None


class TextReader:
    """Returns of each answer what its reader does not have."""

    def __init__(self, cursor: StreamCursor | None = None) -> None:
        self.cursor = cursor or StreamCursor()
        self._key: str | None = None
        self._calls: list[Any] = []
        self._has_gap = False

    def is_over(self, progress: AnswerProgress | None) -> bool:
        """Report whether the previous answer is complete: there is another one, or none."""
        before, self._key = self._key, None if progress is None else progress.key
        if before != self._key:
            self.cursor, self._calls, self._has_gap = StreamCursor(), [], False
        return before not in (None, self._key)

    def read(self, progress: AnswerProgress, *, skips: bool = False) -> TextDelta | None:
        """Return the new part of an unfinished answer, if there is one.

        If only the end of the text is known, a reader that `skips` receives it. Any other waits for
        the text before it, which the final answer has.
        """
        text, offset, sent = progress.text, progress.offset, self.cursor.sent_chars
        is_same = progress.key == self._key
        if self._key is None and progress.attempt == self.cursor.attempt:
            # Another process may have sent the characters.
            is_same = sent <= offset + len(text) if offset else self.cursor.is_prefix_of(text)
        if not is_same:
            if offset or not (text or progress.calls):
                return None  # there is no content yet
            self._begin(progress.attempt)
        if offset > self.cursor.sent_chars and not skips:
            text = ""
        calls = None if progress.calls == self._calls else progress.calls
        self._key, self._calls = progress.key, progress.calls
        return self._delta(text, offset, is_void=not is_same and sent > 0, calls=calls)

    def finish(self, text: str) -> TextDelta | None:
        """Return the rest of the final answer, if there is more."""
        is_void = not self.cursor.is_prefix_of(text)
        if is_void or not self.cursor.attempt:
            self._begin(0)
        return self._delta(text, is_void=is_void)

    def _begin(self, attempt: int) -> None:
        attempt, self._calls = max(attempt, self.cursor.attempt + 1), []
        self.cursor = replace(self.cursor, attempt=attempt, sent_chars=0, checksum=0)

    def _delta(
        self, shown: str, offset: int = 0, *, is_void: bool, calls: list[Any] | None = None
    ) -> TextDelta | None:
        """Return what is new of a text, whose part after `offset` is `shown`."""
        at, has_gap = self.cursor, offset > self.cursor.sent_chars
        text = shown[max(at.sent_chars - offset, 0) :]
        fills_gap = self._has_gap and not offset
        if text and has_gap:
            at = replace(at, sent_chars=offset)
        if text or fills_gap:
            self._has_gap = not fills_gap and (self._has_gap or has_gap)
        self.cursor = at.advanced(text)
        if not (text or is_void or fills_gap or calls is not None):
            return None
        return TextDelta(at, text, is_void, has_gap, fills_gap, calls)

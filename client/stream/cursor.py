"""How far somebody has been told of a run, as the id of the last frame that they have.

    12                  all events up to number 12
    12.1.340.5f2a9c01   and of the answer after it, in attempt 1, 340 characters
    13.end              all there is

Whoever comes back with it is told the rest, by whatever process. The last part is a checksum of
those characters: an attempt that says something else, or an answer that is another in the end, is
told from its beginning.
"""

import re
import zlib
from dataclasses import dataclass, replace
from typing import Final, Self

_WRITTEN: Final = re.compile(
    r"([0-9]{1,12})(?:\.([0-9]{1,9})\.([0-9]{1,9})\.([0-9a-f]{8})|(\.end))?"
)


@dataclass(frozen=True)
class StreamCursor:
    """All events up to number `after`; of the answer that is written then, `told_chars` characters
    of an `attempt`, with their checksum. `ended`: the end as well."""

    after: int = 0
    attempt: int = 0
    told_chars: int = 0
    checksum: int = 0
    ended: bool = False

    @classmethod
    def read(cls, text: str) -> Self:
        """What a frame's id says.

        Raises:
            ValueError: it is none.
        """
        said = _WRITTEN.fullmatch(text)
        if said is None:
            raise ValueError("no frame has this id; send that of the last frame, or a number")
        after, attempt, told_chars, checksum, end = said.groups()
        return cls(
            after=int(after),
            attempt=int(attempt or 0),
            told_chars=int(told_chars or 0),
            checksum=int(checksum or "0", 16),
            ended=end is not None,
        )

    def __str__(self) -> str:
        if self.ended:
            return f"{self.after}.end"
        if not self.attempt:
            return str(self.after)
        return f"{self.after}.{self.attempt}.{self.told_chars}.{self.checksum:08x}"

    def told(self, text: str) -> Self:
        """After this much more of the answer."""
        return replace(
            self,
            told_chars=self.told_chars + len(text),
            checksum=_checksum(text, self.checksum),
        )

    def in_attempt(self, attempt: int) -> Self:
        """At the beginning of an attempt to answer."""
        return replace(self, attempt=attempt, told_chars=0, checksum=0)

    def begins(self, text: str) -> bool:
        """Whether what was told is the beginning of a text."""
        begun = text[: self.told_chars]
        return len(begun) == self.told_chars and _checksum(begun) == self.checksum


def _checksum(text: str, before: int = 0) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"), before)

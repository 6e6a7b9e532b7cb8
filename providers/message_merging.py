"""Messages that formats want as one: encoded apart, once each, and joined as bytes.

Some formats want roles to take turns, or all results of a turn in one message. A message is encoded
when it comes and never again, so two of one role are joined where their lists of parts meet.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby


def with_user_first(
    fragments: Sequence[bytes], answer: bytes, said_first: bytes
) -> Sequence[bytes]:
    """The fragments, with `said_first` before them where the first has the opening of an answer."""
    begins_so = bool(fragments) and fragments[0].startswith(answer)
    return (said_first, *fragments) if begins_so else fragments


def merge_neighbours(
    fragments: Iterable[bytes], openings: Sequence[bytes], closing: bytes
) -> list[bytes]:
    """The fragments, each run of neighbours with one opening as one. In linear time.

    An opening is what all messages of one role begin with, up to the bracket of their list of
    parts, such as `{"role":"user","content":[`; the closing is what all messages end with, such as
    `]}`. No opening begins with another one, and no list is empty. A fragment without an opening
    stays as it is.
    """

    def opening_of(fragment: bytes) -> bytes:
        for opening in openings:
            if fragment.startswith(opening):
                return opening
        return b""

    messages: list[bytes] = []
    for opening, neighbours in groupby(fragments, opening_of):
        alike = list(neighbours)
        # Most stand alone: megabytes of them are not copied in every turn.
        if opening and len(alike) > 1:
            parts = (each[len(opening) : -len(closing)] for each in alike)
            alike = [opening + b",".join(parts) + closing]
        messages += alike
    return messages

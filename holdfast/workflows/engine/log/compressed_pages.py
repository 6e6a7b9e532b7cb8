"""Sealed pages: compressed entries of a log that do not change any more.

A page is created when a turn has ended, and never changed; only a small last page is created again
when a run continues as new. So the same bytes are passed on, and a content-addressed store keeps
them once. A page whose entries are `left_out` has no bytes: only the numbers of its entries and the
time of the last one are known.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import Field

from holdfast.schemas.base import Lenient
from holdfast.schemas.log_entry import EVENTS

# Before compression: large enough to compress well, small enough to be read quickly.
PAGE_BYTES = 256_000
MAX_INFLATED_BYTES = 128 * 1024 * 1024

Record = dict[str, Any]


class CompressedPage(Lenient):
    """One page; as JSON, its index: its numbers, sizes, time, and the digest of all before."""

    first: int
    entries: int
    first_event: int
    events: int
    origin: str
    at: str
    size_bytes: int = 0
    data: bytes = Field(default=b"", exclude=True)

    @property
    def last(self) -> int:
        return self.first + self.entries - 1

    @property
    def last_event(self) -> int:
        """Return the number of its last event; without events, that of the last one before it."""
        return self.first_event + self.events - 1

    @property
    def is_left_out(self) -> bool:
        return not self.data

    def records(self) -> list[Record]:
        """Return its entries."""
        if self.is_left_out:
            return [self._blank(self.first + n) for n in range(self.entries)]
        records: list[Record] = json.loads(decompress(self.data))
        return records

    def event_records(self) -> list[Record]:
        """Return its events, under event numbers."""
        first = self.first_event
        if self.is_left_out:
            return [self._blank(first + n) for n in range(self.events)]
        return renumber(events_in(self.records()), first)

    def _blank(self, number: int) -> Record:
        return {"n": number, "at": self.at, "type": "left_out"}


def decompress(data: bytes) -> bytes:
    """Decompress a part of a run's state; raise `ValueError` if it is damaged or too large."""
    unpacking = zlib.decompressobj()
    try:
        whole = unpacking.decompress(data, MAX_INFLATED_BYTES)
    except zlib.error as error:
        raise ValueError(f"the passed-on state cannot be read: {error}") from None
    if not unpacking.eof:
        raise ValueError(
            f"the passed-on state is incomplete, or has more than {MAX_INFLATED_BYTES} bytes"
        )
    return whole


def compress_records(records: Sequence[Record], first_event: int, origin: str) -> CompressedPage:
    """Return a page of these entries; `origin` is the digest of all entries before it."""
    text = json.dumps(records, separators=(",", ":"), ensure_ascii=False)
    data = text.encode("utf-8", "surrogatepass")
    return CompressedPage(
        first=records[0]["n"],
        entries=len(records),
        first_event=first_event,
        events=sum(1 for _ in events_in(records)),
        origin=origin,
        at=records[-1]["at"],
        size_bytes=len(data),
        data=zlib.compress(data),
    )


def events_in(records: Iterable[Record]) -> Iterator[Record]:
    """Yield events under the entries' numbers; a `tool_end` holds its call's result."""
    end: Record | None = None
    for record in records:
        if end is not None:
            message = record.get("message", {})
            is_result = "callId" in message and message["callId"] == end["callId"]
            yield {**end, "result": message.get("content", "")} if is_result else end
            end = None
        if record["type"] == "tool_end":
            end = record
        elif record["type"] in EVENTS:
            yield record
    if end is not None:
        yield end


def renumber(events: Iterable[Record], first: int) -> list[Record]:
    return [{**event, "n": number} for number, event in enumerate(events, start=first)]

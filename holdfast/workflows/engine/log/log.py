"""The log of a run: its decisions, in order, each stored once.

An entry is never changed. Its number is its position, from 1. Entries are kept as the JSON that is
shown and digested; `digest` is the last link of the chain over all of them. All other state of a
run is a function of these entries. The newest are in memory; those before them are in sealed pages,
which are decompressed on demand: a long or waiting run uses little memory.

A page is sealed when a turn has ended, and never changed; only a small last page is created again
when a run continues as new. So the same bytes are passed on, and a content-addressed store keeps
them once. A page whose entries are `left_out` has no bytes.

Times are shown and not digested: near a local activity, a replay may see a workflow task some
milliseconds earlier or later than its first execution did. So no decision depends on them; a timer
triggers what must happen after a time.
"""

import json
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from pydantic import Field

from holdfast.schemas.base import Lenient, json_size, link, rfc3339, sha256
from holdfast.schemas.internal.model_request import ConversationPageRequest
from holdfast.schemas.log_entry import (
    EVENTS,
    SHOWN_TO_MODELS,
    Entry,
    MessageEntry,
    NoticeEntry,
    digested,
)
from holdfast.schemas.message import ChatMessage
from holdfast.workflows.engine.state.redaction import truncate

# Before compression: large enough to compress well, small enough to be read quickly.
SEALED_BYTES = 256_000
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


# A page stays under a megabyte: of whole entries, or of one entry's characters at four bytes each.
PAGE_BYTES = 700_000
PIECE_CHARACTERS = 175_000
# A sealed page up to this size is small.
SMALL_BYTES = SEALED_BYTES // 2


class LogSnapshot(Lenient):
    """A log with all entries sealed, without the data of its pages."""

    pages: list[CompressedPage] = []
    digest: str = ""


# The bytes of a piece of a log, which stays under two megabytes in base64.
PIECE_BYTES = 1_400_000


class LogPiece(Lenient):
    """A piece of the data of all pages of a log, in base64, with the index of the pages."""

    log: LogSnapshot
    sizes: list[int]
    data: str


class Log:
    """The append-only context of one run: new, or of a snapshot with the data of its pages."""

    def __init__(
        self,
        clock: Callable[[], datetime],
        snapshot: LogSnapshot | None = None,
        pages: Iterable[bytes] = (),
    ) -> None:
        snapshot = snapshot or LogSnapshot()
        self._clock = clock
        # When the newest entry was written, and its text.
        self._now: datetime | None = None
        self._at = ""
        # The sealed pages, the oldest first.
        self.pages = [
            page.model_copy(update={"data": data})
            for page, data in zip(snapshot.pages, pages, strict=True)
        ]
        # The number of the last entry that is sealed.
        self._before = self.pages[-1].last if self.pages else 0
        self._tail: list[Record] = []
        self._tail_digests: list[str] = []
        # What models are shown of the entries that were not requested yet, by their numbers.
        self._unrequested: dict[int, str] = {}
        # The size of the entries that are not sealed, as JSON.
        self.open_bytes = 0
        # The digest of all that is sealed.
        self._origin = self.digest = snapshot.digest

    def snapshot(self) -> LogSnapshot:
        """Return the log without the data of its pages; call `seal_all` first."""
        return LogSnapshot(pages=self.pages, digest=self.digest)

    def __len__(self) -> int:
        return self._before + len(self._tail)

    def add_message(self, message: ChatMessage) -> None:
        self.append(MessageEntry(message=message))

    def add_notice(self, text: str) -> None:
        """Write a line for people, which no model reads."""
        self.append(NoticeEntry(text=text))

    def append(self, entry: Entry) -> Record:
        """Write an entry, with its number and time."""
        now = self._clock()
        if now is not self._now:
            self._now, self._at = now, rfc3339(now)
        record = {"n": len(self) + 1, "at": self._at, **entry.to_json()}
        data = digested(record)
        digest = sha256(data)
        self._tail.append(record)
        self._tail_digests.append(digest)
        if entry.type in SHOWN_TO_MODELS:
            self._unrequested[record["n"]] = data.decode("utf-8", "surrogatepass")
        self.open_bytes += len(data)
        self.digest = link(self.digest, digest)
        return record

    def seal(self, least_bytes: int = 1) -> None:
        """Seal the open entries into a page, if they have at least `least_bytes`.

        A call's end and its result must not be separated.
        """
        if self.open_bytes < least_bytes:
            return
        self.pages = self._all_pages()
        self._tail, self._tail_digests, self.open_bytes = [], [], 0
        self._unrequested.clear()
        self._origin, self._before = self.digest, self.pages[-1].last

    def seal_all(self) -> None:
        """Seal all open entries, together with a small last page."""
        last = self.pages[-1] if self._tail and self.pages else None
        if last is not None and not last.is_left_out and last.size_bytes < SMALL_BYTES:
            self.pages.pop()
            self._tail, self._origin = [*last.records(), *self._tail], last.origin
        self.seal()

    def digest_at(self, n: int) -> str:
        """Return the digest of all entries up to number `n`."""
        if n >= self._before:
            digest, digests = self._origin, self._tail_digests[: n - self._before]
        else:
            page = next(page for page in self.pages if page.last > n)
            digest = page.origin
            digests = [_digest(one) for one in page.records() if one["n"] <= n]
        for each in digests:
            digest = link(digest, each)
        return digest

    def records(self, after: int, limit: int) -> list[Record]:
        """Return entries from number `after + 1` on, at most `limit` and a megabyte in total.

        A single entry that is larger than that is shortened, and its `cut` holds its original size.
        """
        return list(_bounded(islice(self.records_after(after), limit)))

    def events(self, after: int, limit: int) -> list[Record]:
        """Return events from number `after + 1` on; events have their own numbers, without gaps."""
        return list(_bounded(islice(self._events_after(after), limit)))

    def records_after(self, after: int) -> Iterator[Record]:
        """Yield every entry from number `after + 1` on, unshortened."""
        for page in self.pages:
            if page.last > after:
                yield from (record for record in page.records() if record["n"] > after)
        yield from islice(self._tail, max(after - self._before, 0), None)

    def messages(self) -> list[Record]:
        return self.entries("message")

    def entries(self, type_: str) -> list[Record]:
        return [record for record in self.records_after(0) if record["type"] == type_]

    def page(self, want: ConversationPageRequest) -> tuple[list[str], bool]:
        """Return the log items that a model request needs, and whether the last item is cut."""
        items: list[str] = []
        room, offset = PAGE_BYTES, want.offset
        wanted = islice(self.records_after(want.after), max(want.upto - want.after, 0))
        for number, record in enumerate(wanted, start=want.after + 1):
            if record["type"] in SHOWN_TO_MODELS:
                known = self._unrequested.pop(number, None)
                item = known or digested(record).decode("utf-8", "surrogatepass")
            else:
                position = number - self._before - 1
                item = "#" + (self._tail_digests[position] if position >= 0 else _digest(record))
            item, offset = item[offset:], 0
            size = len(item) if len(item) > PAGE_BYTES else json_size(item)
            if size > room and items:
                break
            if size > PAGE_BYTES:
                return [item[:PIECE_CHARACTERS]], len(item) > PIECE_CHARACTERS
            items.append(item)
            room -= size
        return items, False

    def piece(self, offset: int) -> LogPiece:
        """Return the piece of the compressed log that begins with a byte of it."""
        pages = self._all_pages()
        data = b"".join(page.data for page in pages)[offset : offset + PIECE_BYTES]
        return LogPiece(
            log=LogSnapshot(pages=pages, digest=self.digest),
            sizes=[len(page.data) for page in pages],
            data=b64encode(data).decode(),
        )

    def _all_pages(self) -> list[CompressedPage]:
        """Return the sealed pages, and one of the open entries."""
        first_event = self.pages[-1].last_event + 1 if self.pages else 1
        last = [compress_records(self._tail, first_event, self._origin)] if self._tail else []
        return [*self.pages, *last]

    def _events_after(self, after: int) -> Iterator[Record]:
        for page in self.pages:
            if page.last_event > after:
                yield from (event for event in page.event_records() if event["n"] > after)
        first = self.pages[-1].last_event + 1 if self.pages else 1
        yield from (event for event in renumber(events_in(self._tail), first) if event["n"] > after)


def _digest(record: Record) -> str:
    return sha256(digested(record))


def _bounded(records: Iterable[Record]) -> Iterator[Record]:
    room = PAGE_BYTES
    for position, record in enumerate(records):
        size = json_size(record)
        room -= size
        if room < 0 and position:
            return
        if size > PAGE_BYTES:
            short = truncate(record, PAGE_BYTES - 10_000)
            if json_size(short) > PAGE_BYTES:
                short = {key: record[key] for key in ("n", "at", "type")}
            record = {**short, "cut": size}
        yield record

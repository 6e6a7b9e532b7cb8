"""The log of a run: its decisions, in order, each stored once.

An entry is never changed. Its number is its position, from 1. Entries are kept as the JSON that is
shown and digested; `digest` is the last link of the chain over all of them. All other state of a
run is a function of these entries. The newest are in memory; those before them are in sealed pages,
which are decompressed on demand: a long or waiting run uses little memory.

Times are shown and not digested: near a local activity, a replay may see a workflow task some
milliseconds earlier or later than its first execution did. So no decision depends on them; a timer
triggers what must happen after a time.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice

from holdfast.schemas.base import Lenient, json_size, link, rfc3339, sha256
from holdfast.schemas.internal.model_request import ConversationPageRequest
from holdfast.schemas.log_entry import SHOWN_TO_MODELS, Entry, MessageEntry, NoticeEntry, digested
from holdfast.schemas.message import ChatMessage
from holdfast.workflows.engine.log.compressed_pages import PAGE_BYTES as SEALED_BYTES
from holdfast.workflows.engine.log.compressed_pages import (
    CompressedPage,
    Record,
    compress_records,
    events_in,
    renumber,
)
from holdfast.workflows.engine.state.redaction import truncate

# A page stays under a megabyte: of whole entries, or of one entry's characters at four bytes each.
PAGE_BYTES = 700_000
PIECE_CHARACTERS = 175_000
# A sealed page up to this size is small.
SMALL_BYTES = SEALED_BYTES // 2


class LogSnapshot(Lenient):
    """A log with all entries sealed, without the data of its pages."""

    pages: list[CompressedPage] = []
    digest: str = ""


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
        # The sealed pages, the oldest first.
        self.pages = [
            page.model_copy(update={"data": data})
            for page, data in zip(snapshot.pages, pages, strict=True)
        ]
        self._tail: list[Record] = []
        self._tail_digests: list[str] = []
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
        at = rfc3339(self._clock())
        record = {"n": len(self) + 1, "at": at, **entry.to_json()}
        data = digested(record)
        digest = sha256(data)
        self._tail.append(record)
        self._tail_digests.append(digest)
        self.open_bytes += len(data)
        self.digest = link(self.digest, digest)
        return record

    def seal(self, least_bytes: int = 1) -> None:
        """Seal the open entries into a page, if they have at least `least_bytes`.

        A call's end and its result must not be separated.
        """
        if self.open_bytes < least_bytes:
            return
        first_event = self.pages[-1].last_event + 1 if self.pages else 1
        self.pages.append(compress_records(self._tail, first_event, self._origin))
        self._tail, self._tail_digests, self.open_bytes = [], [], 0
        self._origin = self.digest

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
        room = PAGE_BYTES
        for number, record in enumerate(self.records_after(want.after), start=want.after + 1):
            if number > want.upto:
                break
            if record["type"] in SHOWN_TO_MODELS:
                item = digested(record).decode("utf-8", "surrogatepass")
            else:
                position = number - self._before - 1
                item = "#" + (self._tail_digests[position] if position >= 0 else _digest(record))
            item = item[want.offset if number == want.after + 1 else 0 :]
            size = len(item) if len(item) > PAGE_BYTES else json_size(item)
            if size > room and items:
                break
            if size > PAGE_BYTES:
                return [item[:PIECE_CHARACTERS]], len(item) > PIECE_CHARACTERS
            items.append(item)
            room -= size
        return items, False

    @property
    def _before(self) -> int:
        return self.pages[-1].last if self.pages else 0

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

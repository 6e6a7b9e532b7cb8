"""The log of a run: what was decided, in order, each thing once.

An entry is never changed. Its number is its place, from 1. Entries are kept as the JSON that they
are shown and digested as; `digest` is the last link of the chain over all of them, so it fixes the
whole log up to there. What else is known of a run is a function of these entries.

Times are shown and not digested: near a local activity, a replay may see a workflow task some
milliseconds earlier or later than its first execution did. For that reason nothing is decided by
them either; what must happen after a time waits for a timer.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from schemas.base import json_size, link, rfc3339, sha256
from schemas.entry import Entry, MessageEntry, digested
from schemas.generate import PageOf
from schemas.message import ChatMessage
from workflows.engine.shortening import shortened

# A page stays under a megabyte: of whole entries, or of one entry's characters at four bytes each.
PAGE_BYTES = 700_000
PIECE_CHARACTERS = 175_000

Record = dict[str, Any]


class Log:
    """The append-only context of one run."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._records: list[Record] = []
        self._digests: list[str] = []
        self._events: list[Record] = []
        self.digest = ""

    def __len__(self) -> int:
        return len(self._records)

    def append(self, entry: Entry) -> Record:
        """Write an entry, with its number and time."""
        at = rfc3339(self._clock())
        record = {"n": len(self._records) + 1, "at": at, **entry.to_json()}
        digest = sha256(digested(record))
        self._records.append(record)
        self._digests.append(digest)
        self.digest = link(self.digest, digest)
        if entry.event:
            self._events.append({**record, "n": len(self._events) + 1})
        elif isinstance(entry, MessageEntry) and entry.message.call_id is not None:
            self._tell_result(entry.message)
        return record

    def records(self, after: int, limit: int) -> list[Record]:
        """Entries from number `after + 1` on, at most `limit` and under a megabyte in all.

        One that is larger than that by itself is shortened, and its `cut` says how large it is.
        """
        return list(_bounded(self._records[after : after + limit]))

    def events(self, after: int, limit: int) -> list[Record]:
        """Events from number `after + 1` on; they have a numbering of their own, without gaps."""
        return list(_bounded(self._events[after : after + limit]))

    def messages(self) -> list[Record]:
        """Every message, whole."""
        return self.entries("message")

    def entries(self, type_: str) -> list[Record]:
        """Every entry of a type, whole."""
        return [record for record in self._records if record["type"] == type_]

    def page(self, want: PageOf) -> tuple[list[str], bool]:
        """What a request to a model needs of the log, and whether the last item is cut."""
        items: list[str] = []
        room = PAGE_BYTES
        for index in range(want.after, min(want.upto, len(self._records))):
            item = self._item(index)[want.offset if index == want.after else 0 :]
            size = len(item) if len(item) > PAGE_BYTES else json_size(item)
            if size > room and items:
                break
            if size > PAGE_BYTES:
                return [item[:PIECE_CHARACTERS]], len(item) > PIECE_CHARACTERS
            items.append(item)
            room -= size
        return items, False

    def _tell_result(self, message: ChatMessage) -> None:
        """A result stands once in the log; whoever reads events finds it in its `tool_end`."""
        if self._events and self._events[-1].get("callId") == message.call_id:
            self._events[-1]["result"] = message.to_json().get("content", "")

    def _item(self, index: int) -> str:
        record = self._records[index]
        if record["type"] != "message":
            return "#" + self._digests[index]
        return digested(record).decode("utf-8", "surrogatepass")


def _bounded(records: list[Record]) -> Iterator[Record]:
    room = PAGE_BYTES
    for position, record in enumerate(records):
        size = json_size(record)
        room -= size
        if room < 0 and position:
            return
        yield record if size <= PAGE_BYTES else _fitting(record) | {"cut": size}


def _fitting(record: Record) -> Record:
    short: Record = shortened(record, PAGE_BYTES - 10_000)
    if json_size(short) <= PAGE_BYTES:
        return short
    return {key: record[key] for key in ("n", "at", "type")}

"""The memory that an agent keeps beyond its runs: texts under keys, within limits.

A memory is a function of its writes, in the order in which they were applied. A write has an id: a
repeated id, sent because the answer was lost, changes nothing. The latest write is the newest
entry, and comes first among entries that rank equally.
"""

import re
from datetime import datetime
from typing import Any

from holdfast.schemas import names
from holdfast.schemas.base import json_size, rfc3339, sha256
from holdfast.schemas.internal import memory

# Older writes are not repeated: no attempt of an activity takes that long.
MAX_APPLIED = 1_000
_MARK_CHARACTERS = 32
MAX_KEYS_SHOWN = 100
MAX_EXCERPT_CHARACTERS = 1_000

# The scores of a query's word: whole or part of another word, in the key or in the text.
_WHOLE_IN_KEY, _IN_KEY, _WHOLE, _PART = 4, 3, 2, 1
_WORD = re.compile(r"\w+")


class WriteRefused(Exception):
    """A write is not applied: its `type`, and a message with the reason and the fix."""

    def __init__(self, type_: str, message: str) -> None:
        super().__init__(message)
        self.type = type_


class Memory:
    """One memory, whose `state` has its entries and the marks of the writes that were applied."""

    def __init__(self, state: memory.MemoryState) -> None:
        self.state = state
        self.size_bytes = sum(_size_bytes(key, entry) for key, entry in state.entries.items())

    def __len__(self) -> int:
        return len(self.state.entries)

    def check(self, write: memory.MemoryWrite, write_id: str) -> None:
        """Raise `WriteRefused` unless a write's condition is met and there is room for it."""
        if _mark(write_id) in self.state.applied:
            return
        held = self.state.entries.get(write.key)
        if write.if_value not in (None, held.value if held else ""):
            problem = "the text under this key is not the one in `ifValue`"
            raise WriteRefused(names.MEMORY_CONFLICT, f"{problem}; read it, and write again")
        if (text := self._text_after(write)) is None:
            return
        size_bytes = len(text.encode("utf-8", "surrogatepass"))
        if size_bytes > memory.MAX_VALUE_BYTES:
            problem = f"the entry would have {size_bytes} bytes of {memory.MAX_VALUE_BYTES}"
            fix = "append to another key, or replace it by a shorter text"
            raise WriteRefused(names.MEMORY_FULL, f"{problem}; {fix}")
        entry = memory.MemoryEntry(value=text, written_at="")
        would = self.size_bytes - self._held_bytes(write.key) + _size_bytes(write.key, entry)
        why = f"it would have {would} bytes of {memory.MAX_MEMORY_BYTES}"
        if len({*self.state.entries, write.key}) > memory.MAX_ENTRIES:
            why = f"it has {memory.MAX_ENTRIES} entries"
        elif would <= memory.MAX_MEMORY_BYTES:
            return
        fix = "delete entries that are not needed (write null), or store less"
        raise WriteRefused(names.MEMORY_FULL, f"the memory is full: {why}; {fix}")

    def write(self, write: memory.MemoryWrite, write_id: str, now: datetime) -> dict[str, Any]:
        """Apply a checked write once, and return the answer for the writer."""
        mark = _mark(write_id)
        if mark not in self.state.applied:
            text = self._text_after(write)
            self.size_bytes -= self._held_bytes(write.key)
            self.state.entries.pop(write.key, None)
            if text is not None:
                entry = memory.MemoryEntry(value=text, written_at=rfc3339(now))
                self.state.entries[write.key] = entry
                self.size_bytes += _size_bytes(write.key, entry)
            self.state.applied.append(mark)
            del self.state.applied[:-MAX_APPLIED]
        return {"key": write.key, "kept": write.value is not None, "entries": len(self)}

    def read(self, key: str | None, prefix: str = "", skip: int = 0) -> dict[str, Any]:
        """Return the entry of the key; without a key or an entry, return the newest keys.

        They begin with the prefix, without the first `skip`; `more` is the number of others.
        """
        if not self.state.entries:
            return dict(memory.EMPTY)
        entry = self.state.entries.get(key) if key is not None else None
        if key is not None and entry is not None:
            return {"key": key, "value": entry.value, "writtenAt": entry.written_at}
        missed = {} if key is None else {"key": key, "value": None}
        keys = [each for each in reversed(self.state.entries) if each.startswith(prefix)][skip:]
        shown, more = keys[:MAX_KEYS_SHOWN], len(keys) - MAX_KEYS_SHOWN
        found = {**missed, "entries": len(self), "keys": shown}
        return {**found, "more": more} if more > 0 else found

    def search(self, search: memory.MemorySearch) -> dict[str, Any]:
        """Return the entries that contain words of the query, the best first."""
        if not self.state.entries:
            return dict(memory.EMPTY)
        words = list(dict.fromkeys(_WORD.findall(search.query.casefold())))
        scored = (
            (_score(words, key, entry.value), key, entry)
            for key, entry in reversed(self.state.entries.items())
        )
        best = sorted((each for each in scored if each[0]), key=lambda each: -each[0])
        found = []
        for _, key, entry in best[: search.limit]:
            shown: dict[str, Any] = {"key": key, "value": entry.value}
            shown["writtenAt"] = entry.written_at
            if len(entry.value) > MAX_EXCERPT_CHARACTERS:
                shown |= {"value": entry.value[:MAX_EXCERPT_CHARACTERS], "cut": True}
            found.append(shown)
        return {"entries": len(self), "matches": len(best), "found": found}

    def _text_after(self, write: memory.MemoryWrite) -> str | None:
        held = self.state.entries.get(write.key)
        if write.append and held is not None and held.value:
            return f"{held.value}\n{write.value}"
        return write.value

    def _held_bytes(self, key: str) -> int:
        entry = self.state.entries.get(key)
        return 0 if entry is None else _size_bytes(key, entry)


def _mark(write_id: str) -> str:
    """Return the stored form of an id, which has a bounded length."""
    return sha256(write_id.encode("utf-8", "surrogatepass"))[:_MARK_CHARACTERS]


def _size_bytes(key: str, entry: memory.MemoryEntry) -> int:
    return json_size(key) + json_size(entry.value)


def _score(words: list[str], key: str, value: str) -> int:
    key, value = key.casefold(), value.casefold()
    whole_key, whole = set(_WORD.findall(key)), set(_WORD.findall(value))
    score = 0
    for word in words:
        if word in key:
            score += _WHOLE_IN_KEY if word in whole_key else _IN_KEY
        elif word in value:
            score += _WHOLE if word in whole else _PART
    return score

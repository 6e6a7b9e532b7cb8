r"""Events out of the bytes of a response, however these are cut, in linear time.

A line ends with `\n`, `\r\n` or `\r`; a byte order mark before the first one is dropped. An event
whose name is only in its line `event:` has it as its `type`. A decoder takes bytes and returns
texts: it knows nothing of connections.
"""

import json
from abc import ABC, abstractmethod

from holdfast.schemas.base import parsed_or_none

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SSE_FIELDS = (b"", b"id", b"retry")
_BRACKETS = ("{", "[")


class EventDecoder(ABC):
    """Takes bytes as they arrive and returns the text of each complete event.

    `stray` is the first text that is not part of any event.
    """

    def __init__(self) -> None:
        self.stray = ""

    @abstractmethod
    def feed(self, chunk: bytes) -> list[str]:
        """Return the events that these bytes complete."""

    @abstractmethod
    def rest(self) -> str | None:
        """Return the text after the last complete event: a document, or a truncated event."""


class LineDecoder(EventDecoder):
    """Decodes the data of server-sent events, JSON lines, or one JSON document in their place."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._has_line = False
        self._has_document = False
        self._data: list[bytes] = []
        # The name of the event, which some servers do not repeat in its data.
        self._name = ""
        self._has_data = False
        # The lines of a document that fills several, in place of a stream.
        self._document: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        """Return the events that these bytes complete."""
        self._parts.append(chunk)
        if b"\n" not in chunk and b"\r" not in chunk:
            return []
        lines = self._buffered().splitlines(keepends=True)
        # What follows the last end of a line; a carriage return may be half of one.
        self._parts = [] if lines[-1].endswith(b"\n") else [lines.pop()]
        self._has_line |= bool(lines)
        events = map(self._read_line, lines)
        return [event for event in events if event is not None]

    def rest(self) -> str | None:
        """Return the text after the last complete event: a document, or a truncated event."""
        last = self._buffered().strip()
        if self._document or last[:1] in (b"{", b"["):
            return b"\n".join([*self._document, last]).decode("utf-8", "replace").rstrip()
        return self._read_line(last) or self._read_line(b"")

    def _read_line(self, line: bytes) -> str | None:
        line = line.rstrip(b"\r\n")
        name, _, value = line.partition(b":")
        if self._document:
            self._document.append(line)
        elif not line:
            return self._end_event()
        elif name == b"event":
            self._name = value.strip().decode("utf-8", "replace")
        elif name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._has_data = True
        else:
            return self._read_document(line, name)
        return None

    def _read_document(self, line: bytes, name: bytes) -> str | None:
        """Read a line that is no field of an event."""
        document = line.decode("utf-8", "replace").strip()
        if document.startswith(_BRACKETS) and not self._has_data:
            if self._has_document or parsed_or_none(document) is not None:
                self._has_document = True
                return document
            self._document.append(line.lstrip())
        elif document and name not in _SSE_FIELDS and not self.stray:
            self.stray = document
        return None

    def _end_event(self) -> str | None:
        data, name = b"\n".join(self._data), self._name
        self._data, self._name = [], ""
        text = data.decode("utf-8", "replace")
        # Without a name, an event is a `message`.
        if name not in ("", "message") and text.startswith("{"):
            # First, so that a type within the data is the one that counts.
            further = "" if text[1:].lstrip().startswith("}") else ", "
            text = f'{{"type": {json.dumps(name)}{further}{text[1:]}'
        return text or None

    def _buffered(self) -> bytes:
        buffered = b"".join(self._parts)
        return buffered if self._has_line else buffered.removeprefix(_BYTE_ORDER_MARK)

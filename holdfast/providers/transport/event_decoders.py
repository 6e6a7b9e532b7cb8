r"""Events out of the bytes of a response, however these are cut, in linear time.

A line ends with `\n` or `\r\n`; a byte order mark before the first one is dropped. A decoder
takes bytes and returns texts: it knows nothing of connections.
"""

from abc import ABC, abstractmethod

from holdfast.schemas.base import parsed_or_none

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SSE_FIELDS = (b"", b"event", b"id", b"retry")
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
        self._has_data = False
        # The lines of a document that fills several, in place of a stream.
        self._document: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        """Return the events that these bytes complete."""
        self._parts.append(chunk)
        if b"\n" not in chunk:
            return []
        *lines, last = self._buffered().split(b"\n")
        self._parts = [last]
        self._has_line = True
        events = map(self._read_line, lines)
        return [event for event in events if event is not None]

    def rest(self) -> str | None:
        """Return the text after the last complete event: a document, or a truncated event."""
        last = self._buffered().strip()
        if self._document or last[:1] in (b"{", b"["):
            return b"\n".join([*self._document, last]).decode("utf-8", "replace").rstrip()
        return self._read_line(last) or self._read_line(b"")

    def _read_line(self, line: bytes) -> str | None:
        line = line.removesuffix(b"\r")
        document = line.decode("utf-8", "replace").strip()
        name, _, value = line.partition(b":")
        if self._document:
            self._document.append(line)
        elif not line:
            data, self._data = self._data, []
            return b"\n".join(data).decode("utf-8", "replace") if data else None
        elif name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._has_data = True
        elif document.startswith(_BRACKETS) and not self._has_data:
            if self._has_document or parsed_or_none(document) is not None:
                self._has_document = True
                return document
            self._document.append(line.lstrip())
        elif document and name not in _SSE_FIELDS and not self.stray:
            self.stray = document
        return None

    def _buffered(self) -> bytes:
        buffered = b"".join(self._parts)
        return buffered if self._has_line else buffered.removeprefix(_BYTE_ORDER_MARK)

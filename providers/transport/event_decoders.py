r"""Events out of the bytes of a response, however these are cut, in linear time.

A line ends with `\n` or `\r\n`; a byte order mark before the first one is dropped. A decoder
takes bytes and returns texts: it knows nothing of connections.
"""

import json
from abc import ABC, abstractmethod

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
    """Decodes events that are made of lines."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._has_line = False
        self._has_event = False
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
        events = (self._read_line(line.removesuffix(b"\r")) for line in lines)
        return [event for event in events if event is not None]

    @abstractmethod
    def _read_line(self, line: bytes) -> str | None:
        """Return the event that this line completes."""

    def _last_line(self) -> bytes:
        return self._buffered().removesuffix(b"\r")

    def _buffered(self) -> bytes:
        buffered = b"".join(self._parts)
        return buffered if self._has_line else buffered.removeprefix(_BYTE_ORDER_MARK)


class SseDecoder(LineDecoder):
    """Decodes the data of server-sent events, or one JSON document sent in their place."""

    def __init__(self) -> None:
        super().__init__()
        self._data: list[bytes] = []

    def rest(self) -> str | None:
        """Return the text after the last complete event: a document, or a truncated event."""
        event = self._read_line(self._last_line())
        if self._document:
            return b"\n".join(self._document).decode("utf-8", "replace").lstrip()
        return event or self._read_line(b"")

    def _read_line(self, line: bytes) -> str | None:
        # No line of an event stream begins with a bracket.
        if self._document or (not self._has_event and line.lstrip()[:1] in (b"{", b"[")):
            self._document.append(line)
            return None
        self._has_event = self._has_event or bool(line.strip())
        if not line:
            data, self._data = self._data, []
            return b"\n".join(data).decode("utf-8", "replace") if data else None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name not in _SSE_FIELDS and not self.stray:
            self.stray = line.decode("utf-8", "replace")
        return None


class JsonLinesDecoder(LineDecoder):
    """Decodes JSON documents: one a line, or a single one that fills several lines."""

    def rest(self) -> str | None:
        """Return the text after the last complete line, or the document that fills several."""
        lines = [*self._document, self._last_line()]
        return b"\n".join(lines).decode("utf-8", "replace").strip() or None

    def _read_line(self, line: bytes) -> str | None:
        text = line.decode("utf-8", "replace").strip()
        if not text:
            return None
        if not self._has_event and text.startswith(_BRACKETS) and not self._document:
            try:
                json.loads(text)
            except (ValueError, RecursionError):
                # The first line is only the beginning of a document.
                self._document.append(line)
                return None
        elif self._document:
            self._document.append(line)
            return None
        self._has_event = True
        if text.startswith(_BRACKETS):
            return text
        self.stray = self.stray or text
        return None

"""Server-sent events out of the bytes of a response, or the one JSON document sent in their place.

It is fed bytes and gives texts; it knows nothing of connections.
"""

from holdfast.providers.transport.lines import LineReader

_FIELDS = (b"", b"event", b"id", b"retry")


class SseDecoder:
    """Takes bytes as they arrive and gives the data of each event once it is whole.

    `stray` is the first line that has no place in a stream.
    """

    def __init__(self) -> None:
        self._lines = LineReader()
        self._data: list[bytes] = []
        self._begun = False
        # The lines of the document, which is no stream.
        self._document: list[bytes] = []
        self.stray = ""

    def feed(self, chunk: bytes) -> list[str]:
        """The data of those events that these bytes make whole."""
        events = (self._line(line) for line in self._lines.feed(chunk))
        return [event for event in events if event is not None]

    def rest(self) -> str | None:
        """What stands after the last whole event: the document, or an event that may be cut."""
        event = self._line(self._lines.rest())
        if self._document:
            return b"\n".join(self._document).decode("utf-8", "replace").lstrip()
        return event or self._line(b"")

    def _line(self, line: bytes) -> str | None:
        if self._document or (not self._begun and _is_bracketed(line)):
            self._document.append(line)
            return None
        self._begun = self._begun or bool(line.strip())
        if line:
            self._field(line)
            return None
        data, self._data = self._data, []
        return b"\n".join(data).decode("utf-8", "replace") if data else None

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name not in _FIELDS and not self.stray:
            self.stray = line.decode("utf-8", "replace")


def _is_bracketed(line: bytes) -> bool:
    """Whether a first line is of a document: no line of an event stream begins like this."""
    return line.lstrip()[:1] in (b"{", b"[")

"""Server-sent events out of the bytes of a response, or the one JSON document sent in their place.

It is fed bytes and gives texts; it knows nothing of connections. Lines end with `\\n` or `\\r\\n`.
"""

_FIELDS = (b"", b"event", b"id", b"retry")


class EventStream:
    """Takes bytes as they arrive and gives the data of each event once it is whole.

    `stray` is the first line that has no place in a stream.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._data: list[bytes] = []
        self._begun = False
        self._document = False
        self.stray = ""

    def feed(self, chunk: bytes) -> list[str]:
        """The data of those events that these bytes make whole."""
        if not self._begun:
            chunk = self._begin(chunk)
        if self._document or b"\n" not in chunk:
            self._parts.append(chunk)
            return []
        *lines, rest = b"".join([*self._parts, chunk]).split(b"\n")
        self._parts = [rest]
        return [data for line in lines if (data := self._line(line)) is not None]

    def rest(self) -> str | None:
        """What stands after the last whole event: the document, or an event that may be cut."""
        last = b"".join(self._parts)
        if self._document:
            return last.decode("utf-8", "replace")
        return self._line(last) or self._line(b"")

    def _begin(self, chunk: bytes) -> bytes:
        chunk = b"".join([*self._parts, chunk]).removeprefix(b"\xef\xbb\xbf").lstrip()
        self._parts = []
        self._begun = bool(chunk)
        # No line of an event stream begins like this.
        self._document = chunk[:1] in (b"{", b"[")
        return chunk

    def _line(self, line: bytes) -> str | None:
        line = line.removesuffix(b"\r")
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif name not in _FIELDS and not self.stray:
                self.stray = line.decode("utf-8", "replace")
            return None
        data, self._data = self._data, []
        return b"\n".join(data).decode("utf-8", "replace") if data else None

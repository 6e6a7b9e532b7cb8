"""Lines out of the bytes of a response, however these are cut.

A line ends with `\\n` or `\\r\\n`. A byte order mark before the first one is taken off.
"""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineReader:
    """Takes bytes as they arrive and gives each line once it is whole, in linear time."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that these bytes make whole, without their ends."""
        self._parts.append(chunk)
        if b"\n" not in chunk:
            return []
        *lines, last = self._taken().split(b"\n")
        self._parts = [last]
        self._begun = True
        return [line.removesuffix(b"\r") for line in lines]

    def rest(self) -> bytes:
        """What stands after the last whole line."""
        return self._taken().removesuffix(b"\r")

    def _taken(self) -> bytes:
        taken = b"".join(self._parts)
        return taken if self._begun else taken.removeprefix(_BYTE_ORDER_MARK)

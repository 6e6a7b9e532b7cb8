"""Text of a stream: bounded, and well-formed however its characters were cut."""


def well_formed(text: str) -> str:
    """Return the text with surrogate pairs joined, and lone surrogates replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class BoundedText:
    """Text that arrives in pieces, of which the first `limit_bytes` of UTF-8 are stored."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.pieces: list[str] = []
        self.bytes = 0

    def add(self, piece: str) -> None:
        """Append a piece, or as much of it as there is room for."""
        encoded = piece.encode("utf-8", "surrogatepass")
        room = max(self._limit_bytes - self.bytes, 0)
        if len(encoded) > room:
            piece = encoded[:room].decode("utf-8", "ignore")
        self.pieces.append(piece)
        self.bytes += len(encoded)

    @property
    def is_over(self) -> bool:
        return self.bytes > self._limit_bytes

    def as_json(self) -> str:
        """Return the text of JSON, in which half of a surrogate pair is escaped."""
        joined = "".join(self.pieces).encode("utf-16-le", "surrogatepass")
        text = joined.decode("utf-16-le", "surrogatepass")
        return text.encode(errors="backslashreplace").decode()

    def __str__(self) -> str:
        return well_formed("".join(self.pieces))

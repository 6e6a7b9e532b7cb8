"""JSON documents out of the bytes of a response: one a line, or one alone that fills several.

It is fed bytes and gives texts; it knows nothing of connections.
"""

import json

from holdfast.providers.transport.lines import LineReader

_BRACKETS = ("{", "[")


class JsonLinesDecoder:
    """Takes bytes as they arrive and gives the text of each document once its line is whole.

    `stray` is the first line that can be no part of a document.
    """

    def __init__(self) -> None:
        self._lines = LineReader()
        self._begun = False
        # The lines of the one document that fills several.
        self._spread: list[bytes] = []
        self.stray = ""

    def feed(self, chunk: bytes) -> list[str]:
        """The documents that these bytes make whole."""
        events = (self._document(line) for line in self._lines.feed(chunk))
        return [event for event in events if event is not None]

    def rest(self) -> str | None:
        """What stands after the last whole line, or the document that fills several."""
        last = self._lines.rest()
        return b"\n".join([*self._spread, last]).decode("utf-8", "replace").strip() or None

    def _document(self, line: bytes) -> str | None:
        text = line.decode("utf-8", "replace").strip()
        if not text:
            return None
        if self._spread or (not self._begun and _is_part(text)):
            self._spread.append(line)
            return None
        self._begun = True
        if text.startswith(_BRACKETS):
            return text
        self.stray = self.stray or text
        return None


def _is_part(text: str) -> bool:
    """Whether the first line is only the beginning of a document."""
    if not text.startswith(_BRACKETS):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return True
    return False

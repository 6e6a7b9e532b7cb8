"""What is new in what a model has said.

A heartbeat holds the end of the text so far, so two looks overlap, or leave a gap when the model is
faster than the looks. A new request or a new attempt starts anew.
"""

from typing import Any

from holdfast.client.run_handle import Streaming


class TokenText:
    """Remembers how much of the present answer has been seen."""

    def __init__(self) -> None:
        self._key = ""
        self._seen_chars = 0
        self._calls: list[Any] = []

    def new(self, streaming: Streaming) -> tuple[int, str]:
        """The text that was not seen before, and how many characters stand before it."""
        self._turn_to(streaming.key)
        start = max(self._seen_chars, streaming.offset)
        text = streaming.text[start - streaming.offset :]
        self._seen_chars = max(start + len(text), self._seen_chars)
        return start, text

    def new_calls(self, streaming: Streaming) -> list[Any]:
        """The calls that are being written, where they changed; else an empty list."""
        self._turn_to(streaming.key)
        changed = streaming.calls if streaming.calls != self._calls else []
        self._calls = streaming.calls
        return changed

    def _turn_to(self, key: str) -> None:
        if key != self._key:
            self._key, self._seen_chars, self._calls = key, 0, []

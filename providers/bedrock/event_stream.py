"""Events out of Amazon's event stream (`application/vnd.amazon.eventstream`), in linear time.

A message begins with a prelude: its length, that of its headers, and their checksum. botocore
checks the rest, and reads headers and payload. An event is returned as an object with the event's
type as its one key.
"""

import json
import math
from typing import Any
from zlib import crc32

from holdfast.providers.transport.event_decoders import EventDecoder

_PRELUDE_BYTES = 12
_MIN_MESSAGE_BYTES = 16


class EventStreamDecoder(EventDecoder):
    """Decodes messages, or one JSON document sent in their place.

    After a broken message, nothing more is read.
    """

    def __init__(self) -> None:
        from botocore.eventstream import EventStreamBuffer  # of the extra `bedrock`

        super().__init__()
        self._buffer = EventStreamBuffer()
        self._parts: list[bytes] = []
        self._size_bytes = 0
        # A prelude, the whole message that it begins, or nothing more.
        self._wanted_bytes: float = _PRELUDE_BYTES
        self._has_message = False

    def feed(self, chunk: bytes) -> list[str]:
        """Return the events that these bytes complete."""
        self._parts.append(chunk)
        self._size_bytes += len(chunk)
        if self._size_bytes < self._wanted_bytes:
            return []
        data, events = b"".join(self._parts), []
        start = 0
        try:
            while len(data) - start >= self._wanted_bytes:
                end = start + int(self._wanted_bytes)
                if self._wanted_bytes == _PRELUDE_BYTES:
                    self._wanted_bytes = _message_bytes(data[start:end])
                    continue
                self._buffer.add_data(data[start:end])
                events += [_event(each.headers, each.payload) for each in self._buffer]
                self._wanted_bytes, start = _PRELUDE_BYTES, end
                self._has_message = True
        except Exception:  # botocore's errors of broken messages have no common class
            self._wanted_bytes = math.inf
        self._parts = [data[start:]]
        self._size_bytes = len(data) - start
        return events

    def rest(self) -> str | None:
        """Return the document that was sent in place of a stream."""
        is_message = self._has_message or _PRELUDE_BYTES < self._wanted_bytes < math.inf
        return None if is_message else b"".join(self._parts).decode("utf-8", "replace").strip()


def _message_bytes(prelude: bytes) -> int:
    if crc32(prelude[:8]) != int.from_bytes(prelude[8:]):
        raise ValueError("not the beginning of a message")
    return max(int.from_bytes(prelude[:4]), _MIN_MESSAGE_BYTES)


def _event(headers: dict[str, Any], payload: bytes) -> str:
    text = payload.decode("utf-8", "replace") or "null"
    match headers:
        case {":message-type": "exception", ":exception-type": name}:
            return f'{{"error": {{"type": {json.dumps(str(name))}, "error": {text}}}}}'
        case {":message-type": "error", ":error-code": code}:
            error = {"type": str(code), "message": str(headers.get(":error-message", ""))}
            return json.dumps({"error": error})
    return f"{{{json.dumps(str(headers.get(':event-type')))}: {text}}}"

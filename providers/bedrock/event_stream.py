"""Events out of Amazon's event stream (`application/vnd.amazon.eventstream`), in linear time.

A message begins with its length; botocore checks its checksums and reads its headers and payload.
An event is returned as an object with the event's type as its one key.
"""

import json
import math
from typing import Any

from holdfast.providers.transport.event_decoders import EventDecoder

_LENGTH_BYTES = 4
_MIN_MESSAGE_BYTES = 16
# No message is so long that the first byte of its length is larger: a text begins so.
_MAX_FIRST_BYTE = 1
_MAX_STRAY_BYTES = 1_000


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
        self._wanted_bytes = 1.0
        self._is_document = False

    def feed(self, chunk: bytes) -> list[str]:
        """Return the events that these bytes complete."""
        self._parts.append(chunk)
        self._size_bytes += len(chunk)
        if self._size_bytes < self._wanted_bytes:
            return []
        data = b"".join(self._parts)
        start, events = 0, []
        while len(data) - start >= self._wanted_bytes:
            length = max(int.from_bytes(data[start : start + _LENGTH_BYTES]), _MIN_MESSAGE_BYTES)
            if data[start] > _MAX_FIRST_BYTE:
                self._is_document = start == 0
                self._stop(data[start:])
            elif len(data) - start < length:
                self._wanted_bytes = length
            else:
                events += self._read(data[start : start + length])
                start += length
        self._parts = [data[start:]]
        self._size_bytes = len(data) - start
        return events

    def rest(self) -> str | None:
        """Return the document that was sent in place of a stream."""
        document = b"".join(self._parts).decode("utf-8", "replace").strip()
        return document if self._is_document else None

    def _read(self, message: bytes) -> list[str]:
        self._wanted_bytes = 1.0
        try:
            self._buffer.add_data(message)
            return [_event(each.headers, each.payload) for each in self._buffer]
        except Exception:  # botocore's errors of broken messages have no common class
            self._stop(message)
            return []

    def _stop(self, data: bytes) -> None:
        self._wanted_bytes = math.inf
        if not self._is_document:
            self.stray = data[:_MAX_STRAY_BYTES].decode("utf-8", "replace")


def _event(headers: dict[str, Any], payload: bytes) -> str:
    text = payload.decode("utf-8", "replace") or "null"
    match headers:
        case {":message-type": "exception", ":exception-type": name}:
            return f'{{"error": {{"type": {json.dumps(str(name))}, "error": {text}}}}}'
        case {":message-type": "error", ":error-code": code}:
            error = {"type": str(code), "message": str(headers.get(":error-message", ""))}
            return json.dumps({"error": error})
    return f"{{{json.dumps(str(headers.get(':event-type')))}: {text}}}"

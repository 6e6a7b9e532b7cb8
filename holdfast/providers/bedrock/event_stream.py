"""Events out of Amazon's event stream (`application/vnd.amazon.eventstream`), in linear time.

A message begins with a prelude: its length, that of its headers, and their checksum. botocore
checks the rest, and reads headers and payload. An event is returned as an object with the event's
type as its one key.
"""

import json
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
        self._data = bytearray()
        self._has_message = False
        self._is_broken = False

    def feed(self, chunk: bytes) -> list[str]:
        """Return the events that these bytes complete."""
        self._data += chunk
        events: list[str] = []
        try:
            while not self._is_broken and len(self._data) >= (size := _message_bytes(self._data)):
                self._buffer.add_data(bytes(self._data[:size]))
                events += [_event(each.headers, each.payload) for each in self._buffer]
                del self._data[:size]
                self._has_message = True
        except Exception:  # botocore's errors of broken messages have no common class
            self._is_broken = True
        return events

    def rest(self) -> str | None:
        """Return the document that was sent in place of a stream."""
        is_begun = len(self._data) >= _PRELUDE_BYTES and not self._is_broken
        is_message = self._has_message or is_begun
        return None if is_message else self._data.decode("utf-8", "replace").strip()


def _message_bytes(data: bytearray) -> int:
    """Return the length of the first message, or that of its prelude until this has arrived."""
    if len(data) < _PRELUDE_BYTES:
        return _PRELUDE_BYTES
    if crc32(data[:8]) != int.from_bytes(data[8:_PRELUDE_BYTES]):
        raise ValueError("not the beginning of a message")
    return max(int.from_bytes(data[:4]), _MIN_MESSAGE_BYTES)


def _event(headers: dict[str, Any], payload: bytes) -> str:
    text = payload.decode("utf-8", "replace") or "null"
    match headers:
        case {":message-type": "exception", ":exception-type": name}:
            return f'{{"error": {{"type": {json.dumps(str(name))}, "error": {text}}}}}'
        case {":message-type": "error", ":error-code": code}:
            error = {"type": str(code), "message": str(headers.get(":error-message", ""))}
            return json.dumps({"error": error})
    return f"{{{json.dumps(str(headers.get(':event-type')))}: {text}}}"

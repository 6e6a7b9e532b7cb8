"""The bytes of an answer: server-sent events, JSON lines, Amazon's event stream, one document."""

import json
from binascii import crc32
from collections.abc import Iterable
from typing import Any

from tests.providers.writers.abstract_answer import Choices, Event

_NOISE = (b": keep-alive", b"id: 7", b"retry: 10", b": OPENROUTER PROCESSING")


def server_sent(events: Iterable[Event], choices: Choices, *, has_names: bool = False) -> bytes:
    """Server-sent events; `has_names`: each has its type as its name, perhaps there alone."""
    end = choices.one(b"\n", b"\r\n", b"\r")
    space = choices.one(b" ", b"")
    are_named = has_names and choices.one(True, False)
    are_noisy = choices.one(False, True)
    sent = choices.one(b"", b"\xef\xbb\xbf")
    for event in events:
        value, lines = event.value, list[bytes]()
        if are_noisy:
            lines += [choices.one(*_NOISE), *choices.one([], [b""])]
        if are_named and isinstance(value, dict) and "type" in value:
            lines.append(b"event: " + value["type"].encode())
            if choices.one(False, True) and value.get("object") != "response":
                value = {name: value[name] for name in value if name != "type"}
        text = value if isinstance(value, str) else _json(value, choices)
        lines += [b"data:" + space + line for line in text.encode().split(b"\n")]
        sent += b"".join(line + end for line in [*lines, b""])
    return sent


def json_lines(events: Iterable[Event]) -> bytes:
    return b"".join(json.dumps(event.value).encode() + b"\n" for event in events)


def document(value: Any, choices: Choices) -> bytes:
    """A whole answer in place of a stream."""
    return _json(value, choices).encode()


def event_stream(events: Iterable[Any]) -> bytes:
    """Amazon's event stream; a value that is no object of one key is an unknown event's."""
    sent = b""
    for value in events:
        match value:
            case {"exception": str(kind), **payload}:
                headers = {"exception-type": kind, "message-type": "exception"}
            case {"error": str(code), "message": str(text)}:
                payload = None
                headers = {"error-code": code, "error-message": text, "message-type": "error"}
            case dict() if len(value) == 1:
                [(name, payload)] = value.items()
                headers = {"event-type": name, "message-type": "event"}
            case payload:
                headers = {"event-type": "tomorrow", "message-type": "event"}
        sent += event_stream_message(json.dumps(payload).encode(), headers)
    return sent


def event_stream_message(payload: bytes, headers: dict[str, str]) -> bytes:
    """One message; the names of its headers are without their colon."""
    encoded = b""
    for name, value in headers.items():
        key = f":{name}".encode()
        encoded += bytes([len(key)]) + key + b"\x07" + len(value).to_bytes(2) + value.encode()
    prelude = (16 + len(encoded) + len(payload)).to_bytes(4) + len(encoded).to_bytes(4)
    message = prelude + crc32(prelude).to_bytes(4) + encoded + payload
    return message + crc32(message).to_bytes(4)


def _json(value: Any, choices: Choices) -> str:
    return json.dumps(value, ensure_ascii=choices.one(True, False), indent=choices.one(None, 2))

"""An error of a provider, read: in its several shapes, out of a response or out of a stream."""

import json
from collections.abc import Iterator
from typing import Any

from activities.providers.answer import sound
from activities.providers.base import Refused

MAX_MESSAGE_CHARACTERS = 2_000
_MAX_DEPTH = 6
# Words by which providers name errors that have no status of their own, within a stream.
_STATUS_OF_WORD = {
    "rate_limit": 429,
    "overloaded": 503,
    "authentication": 401,
    "permission": 403,
    "not_found": 404,
    "badrequest": 400,
    "invalid_request": 400,
    "context_length": 400,
    "exceed_context": 400,
}
_UNKNOWN_STATUS = 500


def refusal_of(status: int, headers: Any, body: bytes) -> Refused:
    """The error that a response is."""
    text = body.decode("utf-8", "replace").strip()
    try:
        message = message_in(json.loads(text))
    except (ValueError, RecursionError):
        message = "a web page, not a message" if text.startswith("<") else text
    return Refused(status, shortened(message), headers)


def refusal_in(event: Any) -> Refused | None:
    """The error that an event of a stream is, or a whole answer with a good status; else None."""
    if not isinstance(event, dict):
        return None
    error = event if event.get("object") == "error" else event.get("error")
    if not error:
        return None
    return Refused(_status_in(error), shortened(message_in({"error": error})))


def message_in(value: Any) -> str:
    """The message of an error in JSON, wherever it stands in it; else the whole as JSON."""
    return next(_messages(value), None) or json.dumps(value, ensure_ascii=False)


def shortened(text: str) -> str:
    """The text, at most 2,000 characters of it, in one line."""
    text = " ".join(sound(text[: 4 * MAX_MESSAGE_CHARACTERS]).split())
    if len(text) <= MAX_MESSAGE_CHARACTERS:
        return text
    return text[: MAX_MESSAGE_CHARACTERS - 2] + " …"


def _messages(value: Any, depth: int = 0) -> Iterator[str]:
    match value:
        case str() if value.strip():
            yield value
        case [first, *_] if depth < _MAX_DEPTH:
            yield from _messages(first, depth + 1)
        case dict() if depth < _MAX_DEPTH:
            for key in ("error", "message", "detail", "msg", "errors", "description"):
                yield from _messages(value.get(key), depth + 1)


def _status_in(error: Any) -> int:
    fields = error if isinstance(error, dict) else {"message": error}
    for key in ("code", "status", "status_code"):
        code = fields.get(key)
        if isinstance(code, int | str) and str(code).isdecimal() and 400 <= int(code) <= 599:
            return int(code)
    said = " ".join(str(fields.get(key, "")) for key in ("type", "code")).lower()
    words = (status for word, status in _STATUS_OF_WORD.items() if word in said)
    return next(words, _UNKNOWN_STATUS)

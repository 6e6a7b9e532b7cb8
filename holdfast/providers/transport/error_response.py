"""Errors of providers in their several forms, from a response or from a stream."""

import json
import re
from typing import Any

from holdfast.providers.answer.bounded_text import well_formed
from holdfast.providers.base import ContextOverflow, ProviderRefused
from holdfast.providers.context_overflow import context_overflow, error_parts, error_texts

MAX_MESSAGE_CHARACTERS = 2_000
# The end of a text that was longer.
CUT = " …"
# The names of errors without a status of their own, within a stream.
_STATUS_OF_WORD = {
    # Of the Responses API ("Error codes" of a response that failed).
    "image": 400,
    "invalid_prompt": 400,
    "policy": 400,
    "data_residency": 400,
    "rate_limit": 429,
    "quota": 429,
    "throttling": 429,
    "overloaded": 503,
    "serviceunavailable": 503,
    "authentication": 401,
    "billing": 402,
    "permission": 403,
    "not_found": 404,
    "too_large": 413,
    "badrequest": 400,
    "invalid_request": 400,
    "validation": 400,
    "context_length": 400,
    "exceed_context": 400,
}
_UNKNOWN_STATUS = 500
# A protobuf `Duration` in JSON, as in Google's `RetryInfo`.
_STATUS = re.compile(r"[45][0-9]{2}")
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)s")


def error_of_response(status: int, headers: Any, body: bytes) -> ProviderRefused | ContextOverflow:
    """Return the error of a response."""
    text = body.decode("utf-8", "replace").strip()
    try:
        error = json.loads(text)
        message, texts, retry = message_in(error), error_texts(error), _retry_after(error)
    except (ValueError, RecursionError):
        message = texts = "a web page, not a message" if text.startswith("<") else text
        retry = {}
    return _error(status, message, texts, {**retry, **headers})


def error_in_event(event: Any) -> ProviderRefused | ContextOverflow | None:
    """Return the error in an event of a stream, or in an answer with a good status, if any."""
    if not isinstance(event, dict):
        return None
    is_error = "error" in (event.get("object"), event.get("type"))
    error = event.get("error") or (event if is_error else None)
    if not error:
        return None
    fields = error if isinstance(error, dict) else {"message": error}
    codes = (fields.get("code"), fields.get("status"), fields.get("status_code"))
    name = f"{fields.get('type', '')} {fields.get('code', '')}".lower()
    statuses = [
        *(int(code) for code in map(str, codes) if _STATUS.fullmatch(code)),
        *(status for word, status in _STATUS_OF_WORD.items() if word in name),
        _UNKNOWN_STATUS,
    ]
    whole = {"error": error}
    return _error(statuses[0], message_in(whole), error_texts(whole), _retry_after(whole))


def _error(
    status: int, message: str, texts: str, headers: dict[str, str]
) -> ProviderRefused | ContextOverflow:
    message = shortened(message)
    overflow = context_overflow(status, message, texts)
    return overflow or ProviderRefused(status, message, headers, texts)


def message_in(value: Any) -> str:
    """Return the message of an error in JSON, wherever it is in it; else the whole as JSON."""
    messages = (text for code, text in error_parts(value) if not code)
    return next(messages, None) or json.dumps(value, ensure_ascii=False)


def shortened(text: str, limit_characters: int = MAX_MESSAGE_CHARACTERS) -> str:
    """Return the text in one line, at most so many characters of it."""
    line = " ".join(well_formed(text[: 4 * limit_characters]).split())
    is_whole = len(line) <= limit_characters and len(text) <= 4 * limit_characters
    return line if is_whole else line[: limit_characters - len(CUT)] + CUT


def _retry_after(value: Any) -> dict[str, str]:
    """Return the delay in a detail of Google's error, as the header of the other providers.

    The detail is `{"@type": "…/google.rpc.RetryInfo", "retryDelay": "37s"}`.
    """
    match value:
        case [first, *_]:
            return _retry_after(first) if isinstance(first, dict) else {}
        case {"error": {"details": [*details]}}:
            values = [each.get("retryDelay") for each in details if isinstance(each, dict)]
            delays = [_DURATION.fullmatch(each) for each in values if isinstance(each, str)]
            return next(({"retry-after": delay[1]} for delay in delays if delay), {})
    return {}

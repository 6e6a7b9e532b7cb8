"""Parse JSON as models write it: inside a code fence, with trailing commas.

`ensure_json` checks that a value can be stored as JSON.
"""

import json
import math
import re
from typing import Any

from holdfast.schemas.base import MAX_JSON_DEPTH, is_deeper

MAX_INTEGER_DIGITS = 1_000

# The word after the opening of a code fence.
_LANGUAGE = re.compile(r"[A-Za-z0-9_+-]*\s*\Z")
# A string, or a trailing comma. The string may be unterminated, or the search would restart at each
# of its quotes.
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\(?:.|\Z))*+(?:"|\Z)|,(?=\s*+[}\]])', re.DOTALL)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(text: str) -> Any:
    """Parse JSON as models write it.

    Raises:
        ValueError: the text is still not JSON, or is JSON that cannot be stored.
    """
    written, fenced = text, text.strip()
    if fenced.startswith("```") and fenced.endswith("```") and len(fenced) >= 6:
        first, newline, rest = fenced[3:-3].partition("\n")
        is_language = newline and _LANGUAGE.match(first)
        written = rest if is_language else fenced[3:-3].removeprefix("json")
    try:
        value = _strict(written)
    except ValueError as first_error:
        fixed = _STRING_OR_COMMA.sub(lambda m: m.group(0) if m.group(0) != "," else "", written)
        try:
            value = _strict(fixed)
        except ValueError:
            raise first_error from None
    value = ensure_json(value)
    return _without_halves(value) if _HALF.search(text) else value


def ensure_json(value: Any) -> Any:
    """Return the value itself, after checking that it can be stored and shown.

    Raises:
        ValueError: the value is too deep, or has parts that JSON does not have.
    """
    if is_deeper(value, MAX_JSON_DEPTH):
        raise ValueError(f"nested deeper than {MAX_JSON_DEPTH} levels")
    if not _is_finite(value):
        raise ValueError("it holds NaN or an infinity, which JSON does not have")
    return value


def _strict(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite, parse_int=_integer)
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_JSON_DEPTH} levels") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no JSON number")
    return number


def _integer(text: str) -> int:
    if len(text) > MAX_INTEGER_DIGITS:
        raise ValueError(f"a number has {len(text)} digits; at most {MAX_INTEGER_DIGITS}")
    return int(text)


def _without_halves(value: Any) -> Any:
    """Return the value without halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return [_without_halves(item) for item in value]
        case dict():
            return {_without_halves(key): _without_halves(item) for key, item in value.items()}
        case _:
            return value


def _is_finite(value: Any) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(_is_finite(item) for item in value.values())
        case list():
            return all(_is_finite(item) for item in value)
        case _:
            return True

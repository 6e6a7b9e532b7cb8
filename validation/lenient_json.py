"""Parse JSON as models write it: inside a code fence, with trailing commas.

What parsing would silently change is an error (a key that is there twice, half of a surrogate
pair), or kept (a `Number` has its digits). `ensure_json` checks that a value can be stored as JSON.
"""

import json
import math
import re
from typing import Any

from holdfast.schemas.base import MAX_JSON_DEPTH, canonical_json, is_deeper
from holdfast.schemas.names import EXACT_ARGUMENTS
from holdfast.validation.rule_changes import applies

MAX_INTEGER_DIGITS = 1_000

# The word after the opening of a code fence.
_LANGUAGE = re.compile(r"[A-Za-z0-9_+-]*\s*\Z")
# A string, or a trailing comma. The string may be unterminated, or the search would restart at each
# of its quotes.
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\(?:.|\Z))*+(?:"|\Z)|,(?=\s*+[}\]])', re.DOTALL)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class Number(float):
    """A number, with the digits that it was written with."""

    def __init__(self, digits: str) -> None:
        self.digits = digits


def without_digits(value: Any) -> Any:
    """Return the value with plain numbers."""
    if isinstance(value, dict):
        return {key: without_digits(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_digits(item) for item in value]
    return float(value) if isinstance(value, Number) else value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs, an `object_pairs_hook`.

    Raises:
        ValueError: a key is there twice, with different values.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        for key, value in pairs:
            other = found[key]
            if other is not value and canonical_json(other) != canonical_json(value):
                raise ValueError(f"the key {json.dumps(key)} is there twice, with different values")
    return found


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
    if _HALF.search(text):
        plain = json.dumps(value, ensure_ascii=False)
        whole = plain.encode("utf-8", "replace")
        if whole != plain.encode("utf-8", "surrogatepass"):
            if applies(EXACT_ARGUMENTS):
                raise ValueError("it holds half of a surrogate pair; write whole characters")
            return json.loads(whole)
    return value


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
        return json.loads(
            text,
            parse_constant=_finite,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_JSON_DEPTH} levels") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no JSON number")
    return number if repr(number) == text else Number(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    try:
        return unique_keys(pairs)
    except ValueError:
        if applies(EXACT_ARGUMENTS):
            raise
        return dict(pairs)


def _integer(text: str) -> int:
    if len(text) > MAX_INTEGER_DIGITS:
        raise ValueError(f"a number has {len(text)} digits; at most {MAX_INTEGER_DIGITS}")
    return int(text)


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

"""Parse JSON as models write it: inside a code fence, with trailing commas.

What parsing would silently change is an error (a key that is there twice, half of a surrogate
pair, a number that float64 does not hold), or kept (a `Number` has its digits). `ensure_json`
checks that a value can be stored as JSON.

Most readers of JSON have float64 only. So an integer is exactly a float64, and a decimal is one
that a float64 is written as: exactly, in the fewest digits, or in 17.
"""

import json
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

from holdfast.schemas.base import MAX_JSON_DEPTH, canonical_json, is_deeper

MAX_INTEGER_DIGITS = 1_000
MAX_DECIMAL_DIGITS = 17
# A text without a match holds no number that float64 may not hold.
_UNUSUAL_NUMBER = re.compile(rb"[0-9][0-9.]{15}|[0-9.][eE]")
_SHOWN_DIGITS = 40

# A code fence, perhaps with the word of a language.
_FENCED = re.compile(r"```(?:[A-Za-z0-9_+-]*+[^\S\n]*+\n|json|)(.*)```", re.DOTALL)
# A string, or a trailing comma. The string may be unterminated, or the search would restart at each
# of its quotes.
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\(?:.|\Z))*+(?:"|\Z)|,(?=\s*+[}\]])', re.DOTALL)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class InexactNumber(ValueError):
    """A number that float64 does not hold; the message is the reason, with the fix."""

    def __init__(self, digits: str) -> None:
        cut = f"{digits[:_SHOWN_DIGITS]}…" if len(digits) > _SHOWN_DIGITS else digits
        super().__init__(f"the number {cut} would be changed by float64; write it as a text")


class Number(float):
    """A number, with the digits that it was written with."""

    def __init__(self, digits: str) -> None:
        self.digits = digits


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs, an `object_pairs_hook`.

    Raises:
        ValueError: a key is there twice, with different values.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        for key, value in pairs:
            other = found[key]
            is_same = other is value or canonical_json(other) == canonical_json(value)
            if not is_same:
                raise ValueError(f"the key {json.dumps(key)} is there twice, with different values")
    return found


def exact_json(text: str | bytes) -> Any:
    """Parse JSON of a person or a program.

    Raises:
        ValueError: it is no JSON, or parsing would change it (`InexactNumber` for a number).
    """
    return json.loads(
        text,
        parse_int=exact_number,
        parse_float=exact_number,
        parse_constant=_finite,
        object_pairs_hook=unique_keys,
    )


def exact_number(digits: str) -> int | float:
    """Return the number of a JSON text.

    Raises:
        InexactNumber: float64 does not hold it.
    """
    number, is_integer = float(digits), digits.lstrip("-").isdigit()
    try:
        written = Decimal(digits)
        is_held = number == written
        if not (is_integer or is_held):
            is_held = written in (
                Decimal(repr(number)),
                Decimal(f"{number:.{MAX_DECIMAL_DIGITS - 1}e}"),
            )
    except InvalidOperation:  # an absurd exponent
        is_held = False
    if not is_held:
        raise InexactNumber(digits)
    return int(digits) if is_integer else number


def inexact_number(data: bytes) -> InexactNumber | None:
    """Return the problem of the first number in a JSON text that float64 does not hold."""
    if _UNUSUAL_NUMBER.search(data):
        try:
            json.loads(data, parse_int=exact_number, parse_float=exact_number)
        except InexactNumber as error:
            return error
        except (ValueError, RecursionError):
            return None  # it is no JSON, which its reader reports
    return None


def plain_numbers(value: Any) -> Any:
    """Return the value without the digits of its numbers.

    Raises:
        InexactNumber: float64 does not hold one of them.
    """
    match value:
        case dict():
            return {key: plain_numbers(item) for key, item in value.items()}
        case list():
            return [plain_numbers(item) for item in value]
        case Number():
            return exact_number(value.digits)
        case int() if not isinstance(value, bool):
            return exact_number(str(value))
    return value


def read_json(text: str) -> Any:
    """Parse JSON as models write it.

    Raises:
        ValueError: the text is still not JSON, or is JSON that cannot be stored.
    """
    fenced = _FENCED.fullmatch(text.strip())
    written = text if fenced is None else fenced[1]
    try:
        value = _strict(written)
    except ValueError as first_error:
        fixed = _STRING_OR_COMMA.sub(lambda m: m.group(0) if m.group(0) != "," else "", written)
        try:
            value = _strict(fixed)
        except ValueError:
            raise first_error from None
    if _HALF.search(text):
        plain = json.dumps(value, ensure_ascii=False)
        whole = plain.encode("utf-8", "replace")
        if whole != plain.encode("utf-8", "surrogatepass"):
            raise ValueError("it holds half of a surrogate pair; write whole characters")
    return value


def ensure_json(value: Any) -> Any:
    """Return the value itself, after checking that it can be stored and shown.

    Raises:
        ValueError: the value is too deep, or has parts that JSON does not have.
    """
    if is_deeper(value, MAX_JSON_DEPTH):
        raise ValueError(f"nested deeper than {MAX_JSON_DEPTH} levels")
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise ValueError("it holds NaN or an infinity, which JSON does not have") from None
    return value


def _strict(text: str) -> Any:
    too_deep = ValueError(f"nested deeper than {MAX_JSON_DEPTH} levels")
    try:
        value = json.loads(
            text,
            parse_constant=_finite,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=unique_keys,
        )
    except RecursionError:
        raise too_deep from None
    # To look at each value takes as long as to parse it.
    may_be_deep = text.count("[") + text.count("{") > MAX_JSON_DEPTH
    if may_be_deep and is_deeper(value, MAX_JSON_DEPTH):
        raise too_deep
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no JSON number")
    return number if repr(number) == text else Number(text)


def _integer(text: str) -> int:
    if len(text) > MAX_INTEGER_DIGITS:
        raise ValueError(f"a number has {len(text)} digits; at most {MAX_INTEGER_DIGITS}")
    return int(text)

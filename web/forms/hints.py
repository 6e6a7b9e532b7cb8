"""What a schema says to people of a value: what it is, and within what bounds."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.runtime.text_safety import as_json, clean, one_line
from holdfast.schemas.reference import MARK
from holdfast.web.forms.schema_shape import Shape

_HINT_CHARS: Final = 2_000
_SAID_CHARS: Final = 200
_FORMATS: Final = {
    "date": "a date, such as 2026-03-01",
    "date-time": "a date and time with its zone, such as 2026-03-01T14:00:00Z",
    "time": "a time of day, such as 14:00:00Z",
    "duration": "a duration, such as P3D or PT4H",
    "email": "an e-mail address",
    "uri": "an address, such as https://example.com/",
    "uuid": "a UUID",
}
_BOUNDS: Final = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("multipleOf", "a multiple of {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} of them"),
    ("maxItems", "at most {} of them"),
    ("pattern", "in the form {}"),
    ("default", "{} if it is left out"),
)


def doubt(shape: Shape, value: Any) -> str:
    """What a person should look at again: a run takes any text for a `format` that it does not
    check, as draft 2020-12 has it, and so does a form."""
    name = str(shape.rules.get("format"))
    if not isinstance(value, str) or MARK in value or name not in _LOOKS_LIKE:
        return ""
    return "" if _LOOKS_LIKE[name](value) else f"this does not look like {_FORMATS[name]}."


def format_hint(format_: str) -> str:
    """What a format is, in words; empty where there are none for it."""
    return _FORMATS.get(format_, "")


def asked_for(format_: str) -> str:
    """What to write where a value is not of a format that a run checks."""
    return f"Give {_FORMATS.get(format_, f'what fits the format {format_}')}."


def _is_email(text: str) -> bool:
    return re.fullmatch(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+", text) is not None


def _is_moment(text: str) -> bool:
    try:
        return "T" in text.upper() and datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) and bool(parts.netloc or parts.path) and not re.search(r"\s", text)


_LOOKS_LIKE: Final[dict[str, Callable[[str], bool]]] = {
    "email": _is_email,
    "date-time": _is_moment,
    "uri": _is_address,
}


def hint(shape: Shape) -> str:
    """What the schema's author says that it is."""
    said = shape.rules.get("description")
    return clean(said)[:_HINT_CHARS] if isinstance(said, str) else ""


def limits(shape: Shape) -> list[str]:
    """What a value has to be, a few words each."""
    rules = shape.rules
    said = [_FORMATS[rules["format"]]] if rules.get("format") in _FORMATS else []
    if shape.kinds == ("integer",):
        said.append("a whole number")
    for key, words in _BOUNDS:
        if key in rules and rules[key] is not None:
            said.append(words.format(_said(rules[key])))
    if rules.get("uniqueItems") is True:
        said.append("no two alike")
    examples = rules.get("examples")
    if isinstance(examples, list) and examples:
        said.append(f"for example {_said(examples[0])}")
    return said


def _said(value: Any) -> str:
    return one_line(value if isinstance(value, str) and value else as_json(value), _SAID_CHARS)

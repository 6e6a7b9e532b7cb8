"""A schema of arguments, as an approval rule has it, in words: `amount is over €1,000.00`.

A schema has all of its conditions in words, or no words: a part of them would look complete.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from holdfast.runtime.narration.arguments import Shape, ShapeReader, format_value, readable_name
from holdfast.runtime.text_safety import format_argument, one_line

MAX_CONDITION_CHARS: Final = 300
_PART_CHARS: Final = 80
_WORDS: Final = {
    "exclusiveMinimum": "over {}",
    "minimum": "at least {}",
    "exclusiveMaximum": "under {}",
    "maximum": "at most {}",
    "const": "{}",
    "enum": "{}",
}
_WORDLESS: Final = frozenset(("type", "title", "description", "$comment"))
_OF_OBJECTS: Final = _WORDLESS | {"properties", "required", "$schema"}


class _Unspeakable(ValueError):
    """A condition that has no words."""


def condition_text(when: Any, schema: Any) -> str:
    """Return which arguments of this schema fit `when`; empty if not all of that has words."""
    try:
        text = ", ".join(_conditions(when, ShapeReader(schema)))
    except _Unspeakable:
        return ""
    return text if len(text) <= MAX_CONDITION_CHARS else ""


def _conditions(when: Any, reader: ShapeReader) -> Iterator[str]:
    parts = when.get("properties", {}) if isinstance(when, Mapping) else None
    if not isinstance(parts, Mapping) or not _OF_OBJECTS.issuperset(when):
        raise _Unspeakable
    whole = reader.read(reader.root)
    written = {name: part for name, part in parts.items() if isinstance(part, Mapping)}
    constants = {name: part["const"] for name, part in written.items() if "const" in part}
    for name in [*parts, *(each for each in when.get("required", []) if each not in parts)]:
        shape = reader.read(whole.property_schema(name))
        label = one_line(shape.title or readable_name(name), _PART_CHARS)
        if not label[1:2].isupper():
            label = f"{label[:1].lower()}{label[1:]}"
        part = parts.get(name, {})
        words = [*_values(part, shape, constants)]
        yield f"{label} is {' and '.join(words) or 'given'}"


def _values(part: Any, shape: Shape, constants: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(part, Mapping) or not _WORDLESS.issuperset(set(part) - set(_WORDS)):
        raise _Unspeakable
    for keyword, words in _WORDS.items():
        if keyword in part:
            values = part[keyword] if keyword == "enum" else [part[keyword]]
            shown = [_value_text(value, shape, constants) for value in values]
            yield words.format(" or ".join(shown))


def _value_text(value: Any, shape: Shape, constants: Mapping[str, Any]) -> str:
    text = format_value(value, shape, constants)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and text == format_argument(value):
        text = f"{Decimal(repr(value)):,}"  # a bound is a quantity
    return one_line(text, _PART_CHARS)

"""The schemas that OpenAI holds an answer to strictly.

In strict mode an answer always fits its schema, but only a part of JSON Schema is taken, and a
request with anything beyond it is refused ("Structured model outputs", "Supported schemas"). Other
schemas are sent all the same, and the model keeps to them as well as it can.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.providers.schema_cache import cached_by_value

MAX_PROPERTIES = 5_000
MAX_LEVELS = 10
MAX_CHARACTERS = 120_000
MAX_ENUM_VALUES = 1_000
# Of one enum with more than so many texts, all together.
MANY_ENUM_VALUES = 250
MAX_ENUM_CHARACTERS = 15_000

_NOTES = ("title", "description")
# Bounds and patterns are taken as well, but not by every model.
_KEYWORDS = {
    "object": ("type", "properties", "required", "additionalProperties"),
    "array": ("type", "items", "minItems", "maxItems"),
}
_PLAIN = ("string", "number", "integer", "boolean", "null")

Schema = dict[str, Any]


@cached_by_value
def fits_strict_mode(schema: Any) -> bool:
    """Whether an answer can be held to the schema strictly."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return False
    parts = list(_parts(schema, 1))
    if not all(_is_taken(part) and level <= MAX_LEVELS for part, level in parts):
        return False
    names = [name for part, _ in parts for name in part.get("properties", ())]
    values = [value for part, _ in parts for value in _values(part)]
    characters = sum(map(len, names)) + sum(len(str(value)) for value in values)
    is_small = len(names) <= MAX_PROPERTIES and characters <= MAX_CHARACTERS
    return is_small and len(values) <= MAX_ENUM_VALUES


def _parts(schema: Any, level: int) -> Iterator[tuple[Any, int]]:
    """The schema and all that stands in it, with how deep objects and lists stand in each other."""
    yield schema, level
    if not isinstance(schema, dict) or level > MAX_LEVELS:
        return
    properties = schema.get("properties")
    for each in properties.values() if isinstance(properties, dict) else ():
        yield from _parts(each, level + _is_nested(each))
    if "items" in schema:
        yield from _parts(schema["items"], level + _is_nested(schema["items"]))
    branches = schema.get("anyOf")
    for each in branches if isinstance(branches, list) else ():
        yield from _parts(each, level + _is_nested(each))


def _is_nested(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") in ("object", "array")


def _is_taken(schema: Any) -> bool:
    """Whether a part, apart from what stands in it, is said in words that are taken."""
    if not isinstance(schema, dict):
        return False
    words = {key: value for key, value in schema.items() if key not in _NOTES}
    match words:
        case {"anyOf": [_, *_], **others}:
            return not others
        case {"type": "object", "properties": dict(properties), "required": list(required)}:
            is_closed = words.get("additionalProperties") is False
            is_whole = list(properties) == required
            return is_closed and is_whole and _has_only(words, "object")
        case {"type": "array", "items": dict()}:
            return _has_only(words, "array")
        case {"type": kind, **others}:
            return _is_plain(kind) and _is_choice(others)
    return False


def _has_only(words: Schema, kind: str) -> bool:
    return all(word in _KEYWORDS[kind] for word in words)


def _is_plain(kind: Any) -> bool:
    kinds = kind if isinstance(kind, list) else [kind]
    return bool(kinds) and all(each in _PLAIN for each in kinds)


def _is_choice(words: Schema) -> bool:
    values = words.get("enum", [])
    if any(word not in ("enum", "const") for word in words) or not isinstance(values, list):
        return False
    is_long = len(values) > MANY_ENUM_VALUES
    return not is_long or sum(len(str(value)) for value in values) <= MAX_ENUM_CHARACTERS


def _values(schema: Schema) -> list[Any]:
    return [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]

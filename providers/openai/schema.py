"""The schemas that OpenAI enforces strictly.

In strict mode an answer always fits its schema, but only a subset of JSON Schema is accepted, and a
request with anything else is rejected ("Structured model outputs", "Supported schemas"). Other
schemas are sent without strict mode, and the model follows them as well as it can.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.providers.tool_schemas import cached_by_value

MAX_PROPERTIES = 5_000
MAX_LEVELS = 10
MAX_CHARACTERS = 120_000
MAX_ENUM_VALUES = 1_000
# The total of one enum with more than so many texts.
MANY_ENUM_VALUES = 250
MAX_ENUM_CHARACTERS = 15_000

_NOTES = ("title", "description")
# Bounds and patterns are accepted as well, but not by every model.
_OBJECT_KEYWORDS = {"type", "properties", "required", "additionalProperties"}
_ARRAY_KEYWORDS = {"type", "items", "minItems", "maxItems"}
_PLAIN_TYPES = ("string", "number", "integer", "boolean", "null")

Schema = dict[str, Any]


@cached_by_value
def fits_strict_mode(schema: Any) -> bool:
    """Report whether OpenAI enforces the schema strictly."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return False
    parts = list(_parts(schema, 1))
    if not all(_is_supported(part) and level <= MAX_LEVELS for part, level in parts):
        return False
    names = [name for part, _ in parts for name in part.get("properties", ())]
    values = [value for part, _ in parts for value in part.get("enum", ())]
    values += [part["const"] for part, _ in parts if "const" in part]
    characters = sum(map(len, names)) + sum(len(str(value)) for value in values)
    is_small = len(names) <= MAX_PROPERTIES and characters <= MAX_CHARACTERS
    return is_small and len(values) <= MAX_ENUM_VALUES


def _parts(schema: Any, level: int) -> Iterator[tuple[Any, int]]:
    """Yield the schema and all schemas in it, with the depth of objects and lists."""
    yield schema, level
    if not isinstance(schema, dict) or level > MAX_LEVELS:
        return
    properties, branches = schema.get("properties"), schema.get("anyOf")
    inner = list(properties.values()) if isinstance(properties, dict) else []
    inner += [schema["items"]] if "items" in schema else []
    inner += branches if isinstance(branches, list) else []
    for each in inner:
        is_nested = isinstance(each, dict) and each.get("type") in ("object", "array")
        yield from _parts(each, level + is_nested)


def _is_supported(schema: Any) -> bool:
    """Report whether a part, apart from the schemas in it, has only supported keywords."""
    if not isinstance(schema, dict):
        return False
    keywords = {key: value for key, value in schema.items() if key not in _NOTES}
    match keywords:
        case {"anyOf": [_, *_], **others}:
            return not others
        case {"type": "object", "properties": dict(properties), "required": list(required)}:
            is_closed = keywords.get("additionalProperties") is False
            has_only = keywords.keys() <= _OBJECT_KEYWORDS
            return is_closed and list(properties) == required and has_only
        case {"type": "array", "items": dict()}:
            return keywords.keys() <= _ARRAY_KEYWORDS
        case {"type": kind, **others}:
            kinds = kind if isinstance(kind, list) else [kind]
            values = others.get("enum", [])
            if not (kinds and all(each in _PLAIN_TYPES for each in kinds)):
                return False
            if not others.keys() <= {"enum", "const"} or not isinstance(values, list):
                return False
            characters = sum(len(str(value)) for value in values)
            return len(values) <= MANY_ENUM_VALUES or characters <= MAX_ENUM_CHARACTERS
    return False

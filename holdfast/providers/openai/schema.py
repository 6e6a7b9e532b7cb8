"""The schemas that OpenAI enforces strictly.

In strict mode an answer always fits its schema, but only a subset of JSON Schema is accepted, and a
request with anything else is rejected ("Structured model outputs", "Supported schemas"). Other
schemas are sent without strict mode, and the model follows them as well as it can.
"""

from collections.abc import Iterable
from typing import Any

from holdfast.providers.tool_schemas import cached_by_value
from holdfast.validation.schema_keywords import subschemas

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
    places = dict(subschemas(schema))
    nested = {where for where, part in places.items() if part.get("type") in ("object", "array")}
    for where, part in places.items():
        around = sum(where[:length] in nested for length in range(len(where) + 1))
        if not _is_supported(part) or around > MAX_LEVELS:
            return False
    parts = places.values()
    names = [name for part in parts for name in part.get("properties", ())]
    values = [value for part in parts for value in part.get("enum", ())]
    values += [part["const"] for part in parts if "const" in part]
    characters = sum(map(len, names)) + sum(len(str(value)) for value in values)
    is_small = len(names) <= MAX_PROPERTIES and characters <= MAX_CHARACTERS
    return is_small and len(values) <= MAX_ENUM_VALUES


def _is_supported(schema: Schema) -> bool:
    """Report whether a part, apart from the schemas in it, has only supported keywords."""
    keywords = {key: value for key, value in schema.items() if key not in _NOTES}
    match keywords:
        case {"anyOf": [_, *_] as branches, **others}:
            return not others and _are_objects(branches)
        case {"type": "object", "properties": dict(properties), "required": list(required)}:
            is_closed = keywords.get("additionalProperties") is False
            has_only = keywords.keys() <= _OBJECT_KEYWORDS
            is_whole = list(properties) == required and _are_objects(properties.values())
            return is_closed and is_whole and has_only
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


def _are_objects(schemas: Iterable[Any]) -> bool:
    return all(isinstance(each, dict) for each in schemas)

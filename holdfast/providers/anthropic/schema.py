"""The schemas that Anthropic accepts of an answer.

An answer is held to a subset of JSON Schema, and a request with anything else is rejected with 400
("Structured outputs", "JSON Schema limitations"). So other keywords are left out, which allows more
than the whole schema does: the instructions contain that one, and the run checks the answer by it.
Where leaving out would forbid valid answers, there is no schema. The guide limits the properties
that may be missing, and the choices of types or branches ("Explicit limits").
"""

from graphlib import CycleError, TopologicalSorter
from typing import Any

from holdfast.validation.content_cache import cached_by_content
from holdfast.validation.schema_keywords import subschemas

MAX_OPTIONAL = 24
MAX_UNIONS = 16

_PLAIN_TYPES = ("string", "integer", "number", "boolean", "null")
_STRING_FORMATS = (
    *("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6"),
    "uuid",
)
_NOTES = ("title", "description")
_DEFINITIONS = ("$defs", "definitions")
_MAX_DEPTH = 32
_NULL = {"type": "null"}

Schema = dict[str, Any]


class _UnsupportedSchema(Exception):
    """A schema without a counterpart."""


@cached_by_content
def answer_schema(schema: Schema, *, null_is_absent: bool = False) -> Schema | None:
    """Return the nearest schema that an answer can be held to, if there is one.

    With `null_is_absent`, a property may be missing where it may be null.
    """
    try:
        converted = _converted(schema)
        for name in _DEFINITIONS:
            if name in schema:
                converted[name] = {key: _converted(each) for key, each in schema[name].items()}
    except (_UnsupportedSchema, AttributeError, TypeError):
        return None
    if null_is_absent:
        _replace_unions(converted, _unions(converted) - MAX_UNIONS)
    optional = sum(
        name not in part["required"]
        for _, part in subschemas(converted)
        for name in part.get("properties", ())
    )
    is_small = optional <= MAX_OPTIONAL and _unions(converted) <= MAX_UNIONS
    return converted if is_small and _is_resolvable(converted) else None


def _converted(schema: Any, depth: int = 0) -> Schema:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        raise _UnsupportedSchema
    notes = {name: schema[name] for name in _NOTES if isinstance(schema.get(name), str)}
    match schema:
        case {"$ref": reference}:
            if not isinstance(reference, str) or not reference.startswith("#/"):
                raise _UnsupportedSchema
            return {"$ref": reference} | notes
        case {"const": value}:
            return {"const": _primitive(value)} | notes
        case {"enum": values}:
            return {"enum": [_primitive(value) for value in values]} | notes
        case {"allOf": _}:
            # Each of them, once closed, would forbid the properties of the others.
            raise _UnsupportedSchema
        case {"anyOf": branches} | {"oneOf": branches}:
            return {"anyOf": [_converted(each, depth + 1) for each in branches]} | notes
    return _of_type(schema, schema.get("type"), depth) | notes


def _of_type(schema: Schema, kind: Any, depth: int) -> Schema:
    if isinstance(kind, list):
        return {"anyOf": [_of_type(schema, each, depth) for each in kind]}
    if kind == "object":
        properties = schema.get("properties")
        others = schema.get("additionalProperties")
        if not properties or isinstance(others, dict) or "patternProperties" in schema:
            raise _UnsupportedSchema
        # It is closed, as Anthropic requires: one of unknown names would be empty.
        return {
            "type": "object",
            "properties": {name: _converted(each, depth + 1) for name, each in properties.items()},
            "required": [name for name in schema.get("required", ()) if name in properties],
            "additionalProperties": False,
        }
    if kind == "array":
        if "prefixItems" in schema:
            raise _UnsupportedSchema
        array: Schema = {"type": "array", "items": _converted(schema.get("items"), depth + 1)}
        return array | {"minItems": 1} if schema.get("minItems", 0) >= 1 else array
    if kind == "string" and schema.get("format") in _STRING_FORMATS:
        return {"type": kind, "format": schema["format"]}
    if kind in _PLAIN_TYPES:
        return {"type": kind}
    raise _UnsupportedSchema


def _primitive(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise _UnsupportedSchema
    return value


def _replace_unions(schema: Schema, excess: int) -> None:
    """Make up to `excess` unions with null alone properties that may be missing instead."""
    for _, part in reversed([*subschemas(schema)]):
        for name, each in part.get("properties", {}).items():
            # The one schema that a value has unless it is null, if it is one.
            branches = each.get("anyOf", [])
            others = [branch for branch in branches if branch != _NULL]
            is_optional = len(branches) == 2 and len(others) == 1
            if excess > 0 and name in part["required"] and is_optional:
                excess -= 1
                notes = {key: each[key] for key in each if key != "anyOf"}
                part["properties"][name] = others[0] | notes
                part["required"].remove(name)


def _unions(schema: Schema) -> int:
    return sum("anyOf" in part for _, part in subschemas(schema))


def _is_resolvable(schema: Schema) -> bool:
    """Report whether each reference leads to a definition, and none back to its own."""
    plain = {name: value for name, value in schema.items() if name not in _DEFINITIONS}
    graph = {"": _references(plain)} | {
        f"#/{group}/{name}": _references(each)
        for group in _DEFINITIONS
        for name, each in schema.get(group, {}).items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return False
    return all(reference in graph for references in graph.values() for reference in references)


def _references(schema: Any) -> list[str]:
    return [part["$ref"] for _, part in subschemas(schema) if "$ref" in part]

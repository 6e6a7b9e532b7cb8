"""The schemas that Anthropic takes: of an answer's form, and of a tool's arguments.

An answer is held to a part of JSON Schema alone, and a request with anything beyond it is refused
with 400 ("Structured outputs", "JSON Schema limitations"; its limits are in `limits`). So what
cannot be said there is left out, which lets the model answer more than the whole schema would; the
instructions hold that one, and the run checks the answer by it. Where leaving out would forbid good
answers, nothing is said.
"""

import json
from graphlib import CycleError, TopologicalSorter
from typing import Any

from holdfast.providers.anthropic.limits import is_within_limits, with_fewer_unions
from holdfast.providers.schema_cache import cached_by_value

_PLAIN_TYPES = ("string", "integer", "number", "boolean", "null")
_STRING_FORMATS = (
    *("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6"),
    "uuid",
)
_NOTES = ("title", "description")
_DEFINITIONS = ("$defs", "definitions")
_BRANCHES = ("anyOf", "oneOf", "allOf")
_MAX_DEPTH = 32

Schema = dict[str, Any]


class _Unsayable(Exception):
    """A schema that has no counterpart."""


@cached_by_value
def answer_schema(schema: Schema, *, null_is_absent: bool = False) -> Schema | None:
    """The nearest schema that an answer can be held to; None where there is none.

    With `null_is_absent`, a property may be missing where it may be null.
    """
    try:
        said = _said(schema)
        for name in _DEFINITIONS:
            if name in schema:
                said[name] = {key: _said(each) for key, each in schema[name].items()}
    except (_Unsayable, AttributeError, TypeError):
        return None
    if null_is_absent:
        said = with_fewer_unions(said)
    return said if _is_sound(said) and is_within_limits(said) else None


def arguments_schema(schema: Schema, description: str) -> tuple[Schema, str]:
    """A tool's schema and description. Branches are refused at the top of a tool's schema, so
    they are told in its description."""
    branches = {name: schema[name] for name in _BRANCHES if name in schema}
    if not branches:
        return schema, description
    plain = {name: value for name, value in schema.items() if name not in branches}
    note = "The arguments must also fit this JSON Schema: "
    note += json.dumps(branches, ensure_ascii=False)
    return plain, "\n\n".join(text for text in (description, note) if text)


def _said(schema: Any, depth: int = 0) -> Schema:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        raise _Unsayable
    notes = {name: schema[name] for name in _NOTES if isinstance(schema.get(name), str)}
    return _form(schema, depth) | notes


def _form(schema: Schema, depth: int) -> Schema:
    if "$ref" in schema:
        return {"$ref": _local(schema["$ref"])}
    if "const" in schema:
        return {"const": _primitive(schema["const"])}
    if "enum" in schema:
        return {"enum": [_primitive(value) for value in schema["enum"]]}
    if "allOf" in schema:
        # Each of them would forbid what the others ask for, once it is closed.
        raise _Unsayable
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return {"anyOf": [_said(each, depth + 1) for each in schema[name]]}
    return _of_type(schema, schema.get("type"), depth)


def _of_type(schema: Schema, kind: Any, depth: int) -> Schema:
    if isinstance(kind, list):
        return {"anyOf": [_of_type(schema, each, depth) for each in kind]}
    if kind == "object":
        return _object(schema, depth)
    if kind == "array":
        return _array(schema, depth)
    if kind == "string" and schema.get("format") in _STRING_FORMATS:
        return {"type": kind, "format": schema["format"]}
    if kind in _PLAIN_TYPES:
        return {"type": kind}
    raise _Unsayable


def _object(schema: Schema, depth: int) -> Schema:
    """Every object must be closed, which would leave nothing of one whose names are not known."""
    properties = schema.get("properties")
    others = schema.get("additionalProperties")
    if not properties or isinstance(others, dict) or "patternProperties" in schema:
        raise _Unsayable
    return {
        "type": "object",
        "properties": {name: _said(each, depth + 1) for name, each in properties.items()},
        "required": [name for name in schema.get("required", ()) if name in properties],
        "additionalProperties": False,
    }


def _array(schema: Schema, depth: int) -> Schema:
    if "prefixItems" in schema:
        raise _Unsayable
    said: Schema = {"type": "array", "items": _said(schema.get("items"), depth + 1)}
    least = schema.get("minItems", 0)
    return said | {"minItems": 1} if least >= 1 else said


def _primitive(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise _Unsayable
    return value


def _local(reference: Any) -> str:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise _Unsayable
    return reference


def _is_sound(schema: Schema) -> bool:
    """Whether each reference leads to a definition, and none back to its own."""
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


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [reference for each in value for reference in _references(each)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [reference for each in value.values() for reference in _references(each)]

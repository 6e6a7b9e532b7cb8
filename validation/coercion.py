"""Coerce a value toward its schema if the intended value is unambiguous."""

import json
import math
import re
from typing import Any

from holdfast.schemas.base import MAX_JSON_DEPTH
from holdfast.schemas.tool import Schema
from holdfast.validation.lenient_json import read_json
from holdfast.validation.validator import validator
from holdfast.validation.work_budget import CannotCheck, bounded, spend

# The number of items, types or characters of a reference that count as one step.
_LOOKED_AT_A_CHECK = 8
# Parsing a text of this length as JSON takes the time of one step.
_READ_A_CHECK = 1_000
_NUMBER = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?\Z")


def coerce(value: Any, schema: Schema | bool) -> Any:
    """Return the value, coerced toward the schema if the intended value is unambiguous."""
    with bounded():
        try:
            return _Coercion(schema).apply(value, schema, 0)
        except CannotCheck:
            return value


class _Coercion:
    """One pass over a value and its schema; `root` is the schema that `$ref` points into."""

    def __init__(self, root: Schema | bool) -> None:
        self._root = root
        self._validator = validator(root)

    def apply(self, value: Any, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict) or depth > MAX_JSON_DEPTH or value is None:
            return value
        spend(1)
        if isinstance(reference := schema.get("$ref"), str):
            value = self.apply(value, self._target(reference), depth + 1)
        for part in _list_of(schema, "allOf"):
            value = self.apply(value, part, depth + 1)
        for name in ("anyOf", "oneOf"):
            value = self._branch(value, _list_of(schema, name), depth + 1)
        value = _to_type(value, schema.get("type"))
        return self._inside(value, schema, depth + 1)

    def _branch(self, value: Any, branches: list[Any], depth: int) -> Any:
        """Return the value as the first of several schemas coerces it to fit that schema."""
        if any(self._fits(value, branch) for branch in branches):
            return value
        for branch in branches:
            coerced = self.apply(value, branch, depth)
            if self._fits(coerced, branch):
                return coerced
        return value

    def _fits(self, value: Any, branch: Any) -> bool:
        try:
            return next(iter(self._validator.descend(value, branch)), None) is None
        except CannotCheck:
            raise
        except Exception:  # as in `_errors`, which reports it
            return False

    def _inside(self, value: Any, schema: Schema, depth: int) -> Any:
        if isinstance(value, dict | list):
            spend(len(value) // _LOOKED_AT_A_CHECK)
        match value:
            case dict():
                return {
                    key: self.apply(item, _of_key(schema, key), depth)
                    for key, item in value.items()
                }
            case list():
                return [
                    self.apply(item, _of_index(schema, i), depth) for i, item in enumerate(value)
                ]
            case _:
                return value

    def _target(self, reference: str) -> Any:
        """Return the schema that a local `$ref` points to; other references coerce nothing."""
        if not reference.startswith("#/"):
            return self._root if reference == "#" else True
        spend(len(reference) // _LOOKED_AT_A_CHECK)
        found: Any = self._root
        for step in reference[2:].split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            found = found.get(key, True) if isinstance(found, dict) else True
        return found


def _list_of(schema: Schema, key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


def _of_key(schema: Schema, key: str) -> Any:
    properties = schema.get("properties")
    if isinstance(properties, dict) and key in properties:
        return properties[key]
    # Validation decides which pattern a key matches.
    return True if "patternProperties" in schema else schema.get("additionalProperties", True)


def _of_index(schema: Schema, index: int) -> Any:
    prefix = _list_of(schema, "prefixItems")
    return prefix[index] if index < len(prefix) else schema.get("items", True)


def _to_type(value: Any, types: Any) -> Any:
    """Return the value as the first type that it has, or else that it can be converted to."""
    wanted = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    spend(len(wanted) // _LOOKED_AT_A_CHECK)
    if not wanted or any(_is(value, name) for name in wanted):
        return value
    for name in wanted:
        turned = _turned(value, name)
        if _is(turned, name):
            return turned
    return value


def _is(value: Any, name: Any) -> bool:
    match name:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "null":
            return value is None
        case _:
            return False


def _turned(value: Any, name: Any) -> Any:
    match name, value:
        case "integer", float() if value.is_integer():
            return int(value)
        case (("number" | "integer"), str()) if _NUMBER.match(value.strip()):
            return _number(value.strip(), name)
        case "boolean", "true" | "false":
            return value == "true"
        case "boolean", 0 | 1:
            return value == 1
        case "string", bool():
            return "true" if value else "false"
        case "string", int() | float():
            return json.dumps(value)
        case "object", str():
            return _parsed(value, dict)
        case "array", str():
            parsed = _parsed(value, list)
            return parsed if isinstance(parsed, list) else [value]
        case "array", bool() | int() | float():
            return [value]
        case _:
            return value


def _number(text: str, name: str) -> Any:
    number = float(text) if any(mark in text for mark in ".eE") else int(text)
    if isinstance(number, float) and name == "integer" and number.is_integer():
        return int(number)
    return number if math.isfinite(number) else text


def _parsed(text: str, kind: type[dict[str, Any]] | type[list[Any]]) -> Any:
    if not text.lstrip().startswith("{" if kind is dict else "["):
        return text
    spend(len(text) // _READ_A_CHECK)
    try:
        return read_json(text)
    except ValueError:
        return text

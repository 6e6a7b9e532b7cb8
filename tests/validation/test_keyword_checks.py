"""Each keyword agrees with Python's `jsonschema`, in its verdict, its words and its order."""

import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError

from holdfast.validation.validator import errors

TEXT, INTEGER = {"type": "string"}, {"type": "integer"}
REFERRED = {"$defs": {"a": {"type": "string", "maxLength": 1}, "b": {"$anchor": "b", **INTEGER}}}
SCHEMAS: list[Any] = [
    *({"type": kind} for kind in ("string", "integer", "number", "boolean", "null")),
    {"type": ["object", "array"]},
    *({f"{least}{kind}": 1} for least in ("min", "max") for kind in ("Length", "Items")),
    *({f"{least}Properties": 2} for least in ("min", "max")),
    {"maxItems": 0, "maxLength": 0, "maxProperties": 0},
    {"minimum": 1, "maximum": 2},
    {"exclusiveMinimum": 1, "exclusiveMaximum": 2.5},
    {"multipleOf": 2},
    {"multipleOf": 0.5},
    {"pattern": "^a"},
    {"format": "ipv4"},
    {"enum": [1, "a", [1], {"a": False}, None]},
    {"const": {"a": [1.0]}},
    {"const": False},
    {"items": INTEGER},
    {"prefixItems": [TEXT, INTEGER], "items": False},
    {"prefixItems": [{"const": 1}], "items": {"type": "string"}},
    {"contains": INTEGER, "minContains": 2, "maxContains": 2},
    {"contains": TEXT, "maxContains": 1.0},
    {"properties": {"a": INTEGER, "b": {"not": {}}}, "additionalProperties": TEXT},
    {"properties": {"a": {}}, "additionalProperties": False},
    {"patternProperties": {"^a": INTEGER, "b$": TEXT}, "additionalProperties": False},
    {"propertyNames": {"maxLength": 1}},
    {"required": ["a", "z"]},
    {"dependentRequired": {"a": ["y", "b"]}},
    {"dependentSchemas": {"a": {"required": ["z"]}}},
    {"allOf": [INTEGER, {"minimum": 2}, {"required": ["z"]}]},
    {"anyOf": [{"type": "number", "minimum": 2}, TEXT, {"required": ["z"]}]},
    {"oneOf": [{"type": "number"}, INTEGER, {"minItems": 1}]},
    {"not": {"type": ["string", "object"]}},
    {"if": TEXT, "then": {"minLength": 2}, "else": {"maximum": 1, "required": ["z"]}},
    {**REFERRED, "items": {"$ref": "#/$defs/a"}, "additionalProperties": {"$ref": "#b"}},
    {"properties": {"a": {"properties": {"a": {"$ref": "#"}}, "required": ["c"]}}},
    {"anyOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
    {"allOf": [{"prefixItems": [{}]}], "unevaluatedItems": False},
    False,
]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, 2, -3, 1.0, 2.5, 10**30, "", "a", "ab", "127.0.0.1"),
    *([], [1], ["a"], [1, 2], ["a", 1, None], [1.0, 1, 2], [[1], "xy", 3, 4]),
    *({}, {"a": 1}, {"a": "x", "b": 2}, {"a": [1]}, {"ab": 1, "a": None}),
    *({"a": {"a": {"a": {}}}}, {"a": False}, {"x{y}": "{z}"}, {"b": "{}"}),
]


JSON_WORDS = {"None": "null", "True": "true", "False": "false"}


def line(error: ValidationError) -> str:
    """The error as a line, with values as JSON in place of Python's `repr`."""
    place = ".".join(map(str, error.absolute_path))
    words = re.sub(r"\b(None|True|False(?! schema))\b", lambda w: JSON_WORDS[w[0]], error.message)
    message = words.replace("'", '"')
    return f"{place}: {message}" if place else message


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_keyword_agrees_with_jsonschema(schema: Any) -> None:
    checker = Draft202012Validator(schema, format_checker=FormatChecker(["ipv4"]))
    for value in VALUES:
        assert errors(value, schema) == list(map(line, checker.iter_errors(value))), value

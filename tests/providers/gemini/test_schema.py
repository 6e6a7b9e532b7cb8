"""Schemas reach Gemini as they are, but for the few forms that it does not take."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.providers.gemini.schema import gemini_schema
from tests.engine.generated import JSON, SCHEMAS

TREE = {
    "type": "object",
    "properties": {"leaf": {"type": "string"}, "inner": {"$ref": "#"}},
    "additionalProperties": False,
}
REFUND = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "pattern": "^o", "title": "Order"},
        "amount": {"type": ["number", "null"], "exclusiveMinimum": 0, "default": None},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}, "minItems": 1},
        "const": {"type": "string", "enum": ["a", "b"]},
    },
    "required": ["order_id"],
    "$defs": {"Line": {"type": "object", "properties": {"definitions": {"type": "integer"}}}},
}


@pytest.mark.parametrize("schema", [REFUND, TREE, {"type": "object"}, {}, True])
def test_json_schema_is_sent_as_it_is(schema: Any) -> None:
    assert gemini_schema(schema) == schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"$ref": "#/$defs/A", "description": "An A.", "default": None},
            {"anyOf": [{"$ref": "#/$defs/A"}], "description": "An A.", "default": None},
        ),
        ({"$ref": "#/definitions/A"}, {"$ref": "#/$defs/A"}),
        (
            {"definitions": {"A": {"const": "a"}}},
            {"$defs": {"A": {"type": "string", "enum": ["a"]}}},
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"type": "integer", "const": 3}, {"type": "integer", "enum": [3]}),
        ({"const": True}, {"const": True}),
        (
            {"allOf": [{"$ref": "#/$defs/A"}], "title": "A"},
            {"anyOf": [{"$ref": "#/$defs/A"}], "title": "A"},
        ),
        (
            {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
            {"type": "object"},
        ),
    ],
)
def test_what_gemini_does_not_take_is_written_otherwise(schema: Any, expected: Any) -> None:
    assert gemini_schema(schema) == expected
    assert gemini_schema({"type": "array", "items": schema}) == {"type": "array", "items": expected}
    properties = {"properties": {"const": schema, "$ref": schema}}
    assert gemini_schema(properties) == {"properties": {"const": expected, "$ref": expected}}
    assert gemini_schema({"anyOf": [schema]}) == {"anyOf": [expected]}
    assert gemini_schema({"additionalProperties": schema}) == {"additionalProperties": expected}


@given(inner=SCHEMAS, const=JSON, values=st.dictionaries(st.sampled_from("abc"), JSON))
def test_what_is_written_otherwise_allows_the_same(inner: Any, const: Any, values: Any) -> None:
    schema = {
        "definitions": {"A": inner},
        "properties": {
            "a": {"$ref": "#/definitions/A", "title": "A"},
            "b": {"allOf": [inner]},
            "c": {"const": const},
        },
    }
    whole, sent = (
        jsonschema.Draft202012Validator(each) for each in (schema, gemini_schema(schema))
    )
    for value in (values, {"c": const}):
        assert sent.is_valid(value) is whole.is_valid(value)

"""Schemas in the part of JSON Schema that Anthropic takes: never narrower than they need be.

What Anthropic's own package makes of a schema is taken too where it is as strict.
"""

from typing import Any

import pytest
from anthropic import transform_schema
from jsonschema import Draft202012Validator

from holdfast.providers.anthropic.schema import answer_schema

ADDRESS = {
    "type": "object",
    "properties": {
        "street": {"type": "string", "minLength": 1, "pattern": "^[A-Z]"},
        "number": {"type": ["integer", "null"], "minimum": 1},
        "since": {"type": "string", "format": "date"},
        "kind": {"enum": ["home", "work", None]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 3, "uniqueItems": True},
    },
    "required": ["street"],
}
GOOD = {"street": "Abc", "number": 3, "since": "2026-01-01", "kind": "home", "tags": list("abc")}


def test_unsupported_keywords_are_left_out_and_every_object_is_closed() -> None:
    assert answer_schema(ADDRESS) == {
        "type": "object",
        "properties": {
            "street": {"type": "string"},
            "number": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "since": {"type": "string", "format": "date"},
            "kind": {"enum": ["home", "work", None]},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        },
        "required": ["street"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("schema", "good"),
    [
        (ADDRESS, GOOD),
        ({"type": "array", "items": ADDRESS}, [GOOD]),
        ({"oneOf": [ADDRESS, {"type": "string"}]}, "none"),
        ({"const": "yes", "description": "always"}, "yes"),
        (
            {
                "type": "object",
                "properties": {"at": {"$ref": "#/$defs/Address"}},
                "$defs": {"Address": ADDRESS},
            },
            {"at": GOOD},
        ),
    ],
)
def test_a_good_answer_stays_possible(schema: dict[str, Any], good: Any) -> None:
    said = answer_schema(schema)
    assert said is not None
    assert Draft202012Validator(schema).is_valid(good)
    assert Draft202012Validator(said).is_valid(good)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        {"type": "array", "items": {"type": "string", "format": "email"}, "minItems": 1},
        {
            "type": "object",
            "properties": {"at": {"$ref": "#/$defs/A"}},
            "required": [],
            "$defs": {"A": {"type": "object", "properties": {"b": {"enum": [1]}}, "required": []}},
        },
    ],
)
def test_it_matches_anthropic_s_own_package(schema: dict[str, Any]) -> None:
    assert answer_schema(schema) == transform_schema(schema)


TREE = {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {"type": "null"}}, "patternProperties": {"^x": {}}},
        {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": {}},
        {"type": "array"},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "null"}},
        {"type": "strange"},
        {"allOf": [ADDRESS, {"required": ["kind"]}]},
        {"enum": [["a", "list"]]},
        {"const": {"an": "object"}},
        {"anyOf": [{"type": "string"}, {"minLength": 1}]},
        {"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}},
        {"$ref": "#/$defs/Gone"},
        {"$ref": "https://example.org/schema"},
        {"type": "object", "properties": "none"},
        {"type": "array", "items": {"type": "null"}, "minItems": "one"},
    ],
    ids=str,
)
def test_a_schema_that_would_lose_an_answer_is_not_sent(schema: dict[str, Any]) -> None:
    assert answer_schema(schema) is None


def test_an_extremely_deep_schema_is_not_sent() -> None:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    assert answer_schema(schema) is None

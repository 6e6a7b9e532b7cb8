"""Tools' parameters as the providers accept them: what they refuse, and what they do not show."""

import json
from typing import Any

import pytest

from holdfast.providers.base import ToolNames
from holdfast.providers.tool_schemas import arguments_schema, schema_notes, with_items
from holdfast.schemas.internal.model_request import ToolOffer

PLAIN: dict[str, Any] = {
    "properties": {"id": {"type": "string", "pattern": "^A"}, "n": {"anyOf": [{"type": "null"}]}},
    "type": "object",
    "additionalProperties": False,
}
BRANCHES = {"anyOf": [{"required": ["id"]}, {"required": ["näme"]}]}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_branches_at_the_top_of_a_tool_are_in_its_description(provider: str) -> None:
    schema, description = arguments_schema(provider, PLAIN | BRANCHES, "Find.")
    assert schema == PLAIN
    assert description.startswith("Find.\n\n")
    assert '{"anyOf": [{"required": ["id"]}, {"required": ["näme"]}]}' in description


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_what_is_accepted_is_sent_to_the_byte(provider: str) -> None:
    items = {"items": {"type": "string"}, "type": "array", "description": "x"}
    fine = PLAIN | {"properties": {**PLAIN["properties"], "tags": items}, "$defs": {"A": items}}
    schema, description = arguments_schema(provider, fine, "Find.")
    assert (json.dumps(schema), description) == (json.dumps(fine), "Find.")


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf", "enum", "const", "not"])
def test_openai_gets_no_such_keyword_at_the_top(keyword: str) -> None:
    value: Any = [{"required": ["id"]}] if keyword.endswith("Of") else {"required": ["x"]}
    schema, description = arguments_schema("openai", PLAIN | {keyword: value}, "")
    assert schema == PLAIN
    assert json.dumps({keyword: value}) in description


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("top", [{}, {"type": ["object", "null"]}])
def test_the_parameters_are_an_object(provider: str, top: Any) -> None:
    assert arguments_schema(provider, top, "")[0]["type"] == "object"


def test_openai_gets_no_longer_description_than_it_accepts() -> None:
    branches = {"anyOf": [{"required": [f"name_{n}"]} for n in range(100)]}
    schema, description = arguments_schema("openai", PLAIN | branches, "Find.")
    assert description == "Find."
    assert json.dumps(branches) in schema["description"]


def test_no_provider_reads_how_screens_show_an_amount() -> None:
    amount = {"type": "number", "format": "money", "currency": "EUR", "minorUnits": True}
    other = {"type": "string", "format": "email", "currency": "of ours"}
    written = {"properties": {"amount": amount, "to": other, "currency": {}}}
    offered = ToolOffer(name="pay", description="", parameters=written)
    [sent] = ToolNames([offered]).declare([offered], "schema", lambda schema, text: (schema, text))
    shown = {"amount": {"type": "number"}, "to": other, "currency": {}}
    assert sent["schema"] == {"properties": shown}
    assert amount["currency"] == "EUR"


def test_every_list_has_items_for_openai() -> None:
    bare = {"type": "array"}
    assert with_items(
        {
            "properties": {"a": bare, "b": {"type": ["array", "null"], "minItems": 1}},
            "$defs": {"c": {"items": bare}},
            "anyOf": [bare, {"not": bare}],
            "additionalProperties": True,
            "default": bare,
        }
    ) == {
        "properties": {
            "a": {"items": {}, "type": "array"},
            "b": {"items": {}, "type": ["array", "null"], "minItems": 1},
        },
        "$defs": {"c": {"items": {"items": {}, "type": "array"}}},
        "anyOf": [{"items": {}, "type": "array"}, {"not": {"items": {}, "type": "array"}}],
        "additionalProperties": True,
        "default": bare,
    }


@pytest.mark.parametrize(
    ("provider", "schema", "notes"),
    [
        (
            "openai",
            PLAIN | BRANCHES | {"properties": {"tags": {"type": "array"}}},
            [
                "`anyOf` at the top is refused, and is in the description instead",
                "the list at `properties.tags` has no `items`, and is sent with `items: {}`",
            ],
        ),
        (
            "anthropic",
            PLAIN | {"not": {}, "properties": {"ä b": {}}},
            [
                "a name of the properties at the top is refused: write letters, digits, `_`, `.`"
                " and `-`, at most 64",
            ],
        ),
        (
            "bedrock",
            PLAIN | BRANCHES,
            ["`anyOf` at the top is refused, and is in the description instead"],
        ),
        (
            "gemini",
            PLAIN
            | {"properties": {"id": {"pattern": "^A", "enum": ["A", None]}, "n": {"minimum": 1}}},
            [
                "`pattern` at `properties.id` is not shown to the model",
                "the `enum` at `properties.id` may be refused: write texts and numbers alone",
            ],
        ),
        (
            "ollama",
            {"properties": {"n": {"minimum": 1}, "tags": {"items": {"pattern": "^A"}}}},
            ["`minimum` at `properties.n` is not shown to the model"],
        ),
    ],
)
def test_what_a_provider_refuses_is_noted(provider: str, schema: Any, notes: list[str]) -> None:
    assert list(schema_notes(provider, schema)) == notes


def test_a_description_that_openai_refuses_is_reported() -> None:
    [note] = schema_notes("openai", {}, "x" * 1_025)
    assert note.startswith("a description of 1025 characters may be refused")

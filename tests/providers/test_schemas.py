"""Schemas as the providers accept them: what each becomes is in `schemas/`, case by case."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ollama import Tool

from holdfast.providers.anthropic.schema import answer_schema
from holdfast.providers.gemini import gemini_schema
from holdfast.providers.ollama import MAX_SCHEMAS, ollama_schema
from holdfast.providers.tool_schemas import (
    arguments_schema,
    declared_tools,
    schema_notes,
    with_items,
)
from tests.engine.generated import JSON, SCHEMAS

Case = dict[str, Any]
TRANSLATIONS: dict[str, Callable[[Any], Any]] = {
    "anthropic": answer_schema,
    "gemini": gemini_schema,
    "ollama": ollama_schema,
}
CASES: dict[str, list[Case]] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in (Path(__file__).parent / "schemas").glob("*.yaml")
}
VALID = [case for case in CASES["anthropic"] if "valid" in case]


def named(case: Any) -> str:
    return str(case["what"] if isinstance(case, dict) else case)


@pytest.mark.parametrize(
    ("kind", "case"), [(kind, case) for kind in TRANSLATIONS for case in CASES[kind]], ids=named
)
def test_a_schema_becomes_what_the_provider_accepts(kind: str, case: Case) -> None:
    assert TRANSLATIONS[kind](case["schema"]) == case["becomes"]


@pytest.mark.parametrize("case", CASES["tools"], ids=named)
def test_a_tool_becomes_what_the_provider_accepts(case: Case) -> None:
    provider, schema = case["provider"], case["schema"]
    if "becomes" in case:
        becomes, description = arguments_schema(provider, schema, "Find.")
        assert becomes == case["becomes"]
        assert description.startswith("Find.")
        assert case["description"] in description
    notes = list(schema_notes(provider, schema))
    assert len(notes) == len(case.get("notes", []))
    assert all(map(str.__contains__, notes, case.get("notes", [])))


# Of tools.


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_what_is_accepted_is_sent_to_the_byte(provider: str) -> None:
    items = {"items": {"type": "string"}, "type": "array", "description": "x"}
    fine = {"properties": {"tags": items}, "type": "object", "$defs": {"A": items}}
    schema, description = arguments_schema(provider, fine, "Find.")
    assert (json.dumps(schema), description) == (json.dumps(fine), "Find.")


def test_openai_gets_no_longer_description_than_it_accepts() -> None:
    branches = {"anyOf": [{"required": [f"name_{n}"]} for n in range(100)]}
    schema, description = arguments_schema("openai", {"type": "object", **branches}, "Find.")
    assert description == "Find."
    assert json.dumps(branches) in schema["description"]
    [note] = schema_notes("openai", {}, "x" * 1_025)
    assert note.startswith("a description of 1025 characters may be refused")


def test_no_provider_reads_how_screens_show_an_amount() -> None:
    amount = {"type": "number", "format": "money", "currency": "EUR", "minorUnits": True}
    other = {"type": "string", "format": "email", "currency": "of ours"}
    written = {"properties": {"amount": amount, "to": other, "currency": {}}}
    [sent] = declared_tools([("pay", written, "")], "schema", lambda schema, text: (schema, text))
    shown = {"amount": {"type": "number"}, "to": other, "currency": {}}
    assert sent["schema"] == {"properties": shown}
    assert amount["currency"] == "EUR"


def test_every_list_has_items_for_openai_and_no_value_is_changed() -> None:
    bare, full = {"type": "array"}, {"items": {}, "type": "array"}
    schema = {"$defs": {"c": {"items": bare}}, "anyOf": [bare, {"not": bare}], "default": bare}
    expected = {"$defs": {"c": {"items": full}}, "anyOf": [full, {"not": full}], "default": bare}
    assert with_items({**schema, "additionalProperties": True}) == {
        **expected,
        "additionalProperties": True,
    }


# Of Anthropic.


@pytest.mark.parametrize("case", VALID, ids=named)
def test_a_valid_answer_stays_possible(case: Case) -> None:
    translated = answer_schema(case["schema"])
    assert translated is not None
    for schema in (case["schema"], translated):
        assert jsonschema.Draft202012Validator(schema).is_valid(case["valid"])


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
def test_it_is_what_anthropic_s_own_package_makes_of_it(schema: Case) -> None:
    from anthropic import transform_schema  # its import takes a second

    assert answer_schema(schema) == transform_schema(schema)


def test_a_schema_as_deep_as_none_should_be_is_left_out() -> None:
    schema: Case = {"type": "null"}
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    assert answer_schema(schema) is None


# Of Gemini.


@pytest.mark.parametrize("case", CASES["gemini"], ids=named)
def test_a_schema_within_another_becomes_the_same_and_a_name_is_no_keyword(case: Case) -> None:
    inner, becomes = case["schema"], case["becomes"]
    for outer in ("items", "additionalProperties"):
        assert gemini_schema({outer: inner}) == {outer: becomes}
    assert gemini_schema({"anyOf": [inner]}) == {"anyOf": [becomes]}
    assert gemini_schema({"properties": {"const": inner, "$ref": inner}}) == {
        "properties": {"const": becomes, "$ref": becomes}
    }


@given(inner=SCHEMAS, const=JSON, values=st.dictionaries(st.sampled_from("abc"), JSON))
def test_what_gemini_is_sent_allows_the_same(inner: Any, const: Any, values: Any) -> None:
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


# Of Ollama.


@pytest.mark.parametrize("case", CASES["ollama"][-1:], ids=named)
def test_ollama_s_server_keeps_what_it_is_sent(case: Case) -> None:
    """As the types of its package do; a reference is not kept."""

    def kept(parameters: Any) -> Any:
        tool = Tool.model_validate({"function": {"name": "t", "parameters": parameters}})
        assert tool.function is not None
        assert tool.function.parameters is not None
        return tool.function.parameters.model_dump(exclude_none=True)["properties"]

    sent = kept(ollama_schema(case["schema"]))
    assert sent["to"] == {"type": "object", "description": "Where to."}
    assert sent["kind"] == {"type": "string", "enum": ["order"]}
    assert kept(case["schema"])["to"] == {}


@pytest.mark.timeout(10)
def test_definitions_that_double_each_other_are_written_out_up_to_a_bound() -> None:
    definitions = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(60)
    }
    shape = ollama_schema({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
    assert str(shape).count("anyOf") <= MAX_SCHEMAS
    deep: Case = {}
    for _ in range(100):
        deep = {"items": deep}
    assert str(ollama_schema({"properties": {"a": deep}})).count("items") < 30

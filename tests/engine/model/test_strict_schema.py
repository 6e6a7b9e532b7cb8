"""Composed calling (§4): any schema has a form, and what is written in it is read back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.tool import ResolvedTool
from holdfast.validation.validator import fits
from holdfast.workflows.engine.model.composed import composed_schema, read_answer
from holdfast.workflows.engine.model.strict_schema import (
    MAX_LEVELS,
    StrictForms,
    or_reference,
    takes_any_text,
)
from tests.engine.driver import MODEL
from tests.engine.from_schema import valid, written
from tests.engine.generated import NOISE, OBJECTS
from tests.engine.model.others_tools import others_tools
from tests.support.costs import some_of

TEXT = {"type": "string"}
ADDRESS = {
    "type": "object",
    "properties": {"street": TEXT, "number": {"type": "integer"}},
    "required": ["street"],
}


def asked(schema: Any) -> Any:
    """The schema that a value is asked for by."""
    return StrictForms(schema).form(schema).schema


def read(schema: Any, value: Any) -> Any:
    """What a value that is written in its form is taken for."""
    return StrictForms(schema).form(schema).read(value)


def described(description: str, kind: Any = "string") -> dict[str, Any]:
    return {"type": kind, "description": description}


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        (TEXT, TEXT),
        ({"type": "boolean", "description": "on?"}, described("on?", "boolean")),
        (
            {"type": "integer", "minimum": 1, "default": 5, "description": "how many"},
            described("how many (minimum: 1; default: 5)", "integer"),
        ),
        ({"type": "string", "format": "date"}, described('format: "date"')),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        (
            {"type": ["integer", "string"]},
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        ),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"const": 3}, {"type": "number", "enum": [3]}),
        ({"const": True}, described("always true", "boolean")),
        (
            {"enum": ["a", 1, None]},
            {
                "anyOf": [
                    {"type": "string", "enum": ["a"]},
                    {"type": "number", "enum": [1]},
                    {"type": "null"},
                ]
            },
        ),
        (
            {"type": "array", "items": TEXT, "minItems": 2},
            {"type": "array", "items": TEXT, "minItems": 1, "description": "minItems: 2"},
        ),
        ({"oneOf": [TEXT, {"type": "null"}]}, {"type": ["string", "null"]}),
        ({"allOf": [{"$ref": "#/$defs/t"}], "$defs": {"t": TEXT}}, TEXT),
        ({"properties": {"a": True}}, None),
    ],
    ids=str,
)
def test_a_schema_has_a_form_that_every_provider_takes(schema: Any, form: Any) -> None:
    if form is None:
        form = {
            "a": {"type": ["string", "null"], "description": "Written as a text that holds JSON"}
        }
        assert asked(schema)["properties"] == form
    else:
        assert asked(schema) == form


def test_an_object_is_closed_and_what_may_be_left_out_is_null() -> None:
    assert asked(ADDRESS) == {
        "type": "object",
        "properties": {"street": TEXT, "number": {"type": ["integer", "null"]}},
        "required": ["street", "number"],
        "additionalProperties": False,
    }
    assert read(ADDRESS, {"street": "A", "number": None}) == {"street": "A"}
    assert read(ADDRESS, {"street": None, "number": 5}) == {"number": 5}
    assert read(ADDRESS, {"street": "A", "more": None}) == {"street": "A", "more": None}


def test_a_null_in_place_of_json_is_left_out_and_null_in_a_text_is_a_value() -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": True}, "required": ["b"]}
    assert read(schema, {"a": None, "b": None}) == {"b": None}
    assert read(schema, {"a": "null", "b": "1"}) == {"a": None, "b": 1}


def test_a_null_that_is_a_value_stays_one() -> None:
    nullable = {"type": ["string", "null"]}
    schema = {"type": "object", "properties": {"a": nullable, "b": nullable}, "required": ["a"]}
    assert read(schema, {"a": None, "b": None}) == {"a": None, "b": None}
    assert read(schema, {}) == {"a": None}, "as on a provider that leaves nulls out"


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object"},
        {"type": "array"},
        {"type": "object", "properties": {"a": TEXT}, "additionalProperties": True},
        {"type": "object", "properties": {"a": TEXT}, "patternProperties": {"^x": TEXT}},
        {"type": "array", "prefixItems": [TEXT], "items": TEXT},
        {"allOf": [ADDRESS, {"required": ["number"]}]},
        {"enum": [[1], {"a": 2}]},
        {"anyOf": [TEXT, {"type": "object"}]},
        {"$ref": "#/$defs/gone"},
        {"$ref": "https://example.org/schema"},
        {"not": TEXT},
        {"type": "strange"},
    ],
    ids=str,
)
def test_a_schema_without_a_strict_form_is_json_in_a_text(schema: Any) -> None:
    form = asked(schema)
    assert form["type"] == "string"
    assert form["description"].startswith("Written as a text that holds JSON")


def test_the_schema_of_json_in_a_text_is_in_the_description() -> None:
    schema = {
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/n"},
        "description": "By id",
    }
    described = asked({**schema, "$defs": {"n": {"type": "integer"}}})["description"]
    assert described.startswith("By id (Written as a text that holds JSON, which fits")
    assert '"$defs": {"n": {"type": "integer"}}' in described


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"type": "object"}, "```json\n{'a': 1}\n```", "```json\n{'a': 1}\n```"),
        ({"type": "object"}, {"a": 1}, {"a": 1}),
        ({"type": "object"}, "†state.order", "†state.order"),
        (True, '"five"', "five"),
        (True, "5", 5),
        (True, "five", "five"),
        ({"anyOf": [TEXT, {"type": "object"}]}, '{"a": 1}', {"a": 1}),
        ({"anyOf": [TEXT, {"type": "object"}]}, "5", "5"),
        ({"anyOf": [TEXT, {"type": "object"}]}, '"{}"', "{}"),
        ({"anyOf": [{"type": "array", "items": {"type": "integer"}}, TEXT]}, "[1]", "[1]"),
        ({"anyOf": [ADDRESS, {"type": "null"}]}, {"street": "A", "number": None}, {"street": "A"}),
        ({"type": "array", "items": ADDRESS}, '[{"street": "A"}]', [{"street": "A"}]),
        (ADDRESS, "no JSON", "no JSON"),
    ],
    ids=str,
)
def test_what_is_written_is_taken_for_what_was_meant(schema: Any, text: Any, value: Any) -> None:
    assert read(schema, text) == value


def test_what_has_no_end_or_is_deep_is_json_in_a_text_at_some_point() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}
    within = asked({"$ref": "#/$defs/Tree", "$defs": {"Tree": tree}})
    assert within["properties"]["left"]["type"] == ["string", "null"]
    deep: Any = TEXT
    for _ in range(20):
        deep = {"type": "array", "items": deep}
    form, levels = asked(deep), 0
    while form["type"] == "array":
        form, levels = form["items"], levels + 1
    assert levels == MAX_LEVELS


def test_definitions_that_use_each_other_many_times_have_a_bound() -> None:
    names = [f"d{number}" for number in range(30)]
    pairs = zip(names, [*names[1:], "end"], strict=True)
    within = {
        name: {"type": "object", "properties": {k: {"$ref": f"#/$defs/{other}"} for k in "ab"}}
        for name, other in pairs
    }
    schema = {"$ref": "#/$defs/d0", "$defs": {**within, "end": TEXT}}
    assert len(json.dumps(asked(schema))) < 1_000_000


def test_a_long_choice_is_described_and_not_forced() -> None:
    form = asked({"enum": [f"v{number}" for number in range(500)], "description": "Which"})
    assert form["type"] == "string"
    assert "enum" not in form
    assert form["description"].startswith('Which (one of ["v0", "v1"')


@given(NOISE, OBJECTS)
def test_nothing_that_only_looks_like_a_schema_does_harm(schema: Any, value: Any) -> None:
    form = StrictForms(schema).form(schema)
    Draft202012Validator.check_schema(form.schema)
    form.read(value)
    or_reference(schema)


# Twenty tools of others.


def desk(*tools: ResolvedTool, **more: Any) -> ResolvedAgent:
    return ResolvedAgent(name="desk", model=MODEL, calling="composed", tools=list(tools), **more)


TOOLS = {tool.name: tool for tool in others_tools()}


@pytest.mark.parametrize("name", some_of(TOOLS, ["create_pull_request_review"]))
@given(data=st.data())
def test_arguments_are_read_back_as_they_were(name: str, data: st.DataObject) -> None:
    tool = TOOLS[name]
    arguments = data.draw(valid(tool.parameters))
    assert fits(arguments, tool.parameters)
    kept = tool.model_copy(update={"output_path": data.draw(st.none() | st.just("†state.a"))})
    schema = composed_schema(desk(kept), [kept])
    call = schema["properties"]["calls"]["items"]
    said = {"_tool": tool.name, "_reasoningForCall": "because", **arguments}
    answer = {"calls": [written(said, call)], "output": None}
    assert list(Draft202012Validator(schema).iter_errors(answer)) == []
    [found] = read_answer(json.dumps(answer), desk(kept), [kept]).calls
    assert isinstance(found.arguments, dict)
    assert found.arguments.pop("_reasoningForCall") == "because"
    assert _without_nulls(found.arguments, arguments) == arguments


def _without_nulls(read: Any, meant: Any) -> Any:
    """What was read without the nulls of what was left out, where a null is a value as well."""
    match read, meant:
        case dict(), dict():
            return {
                key: _without_nulls(each, meant.get(key))
                for key, each in read.items()
                if each is not None or key in meant
            }
        case list(), list():
            return [_without_nulls(*pair) for pair in zip(read, meant, strict=True)]
    return read


# References.


@pytest.mark.parametrize(
    ("schema", "takes"),
    [
        (True, True),
        ({}, True),
        (TEXT, True),
        ({"type": ["string", "null"], "description": "x"}, True),
        ({"anyOf": [{"type": "integer"}, TEXT]}, True),
        (False, False),
        ({"type": "integer"}, False),
        ({"type": "string", "enum": ["a"]}, False),
        ({"type": "string", "format": "date"}, False),
        ({"$ref": "#/$defs/a"}, False),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, False),
    ],
    ids=str,
)
def test_a_reference_is_offered_where_not_every_text_fits(schema: Any, takes: bool) -> None:
    assert takes_any_text(schema) is takes
    offered = or_reference(schema)
    assert (offered == schema) is (takes or schema is False)
    if isinstance(schema, dict):
        validator = Draft202012Validator({**offered, "$defs": {"a": {"type": "integer"}}})
        assert validator.is_valid("†state.path")


def test_the_description_of_a_value_is_that_of_its_reference_too() -> None:
    offered = or_reference({"type": "integer", "minimum": 1, "description": "how many"})
    assert offered["description"] == "how many"
    assert offered["anyOf"][0] == {"type": "integer", "minimum": 1}

"""The second opinion on schemas: what `jsonschema` refuses loads, with a warning."""

import socket
from typing import Any

import pytest

from holdfast.catalog import advice
from holdfast.catalog.advice import MAX_SUBSCHEMAS, schema_advice, server_advice
from holdfast.catalog.loader import load_catalog, reload_catalog
from holdfast.catalog.mcp_tools import ListedTool
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.schemas.settings.servers import Server
from holdfast.validation.problems import format_place
from holdfast.validation.schema_check import MAX_SCHEMA_DEPTH
from tests.catalog.catalog_folder import Folder

UNFIT = {"$id": "#order"}
DRAFTS = [
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]
REASON = (
    "the schema does not fit its meta-schema: '#order' does not match '^[^#]*#?$'; correct it,"
    " since other programs may refuse the schema"
)


def places(written: dict[str, Any], *, is_tool: bool = True) -> list[str]:
    """The places of the advice on a definition."""
    return [format_place(each.where) or "." for each in schema_advice(written, is_tool=is_tool)]


def test_a_schema_that_its_meta_schema_refuses_loads_with_a_warning_that_is_logged(
    shop: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    shop.write(
        "tools/pay.yaml",
        """
        _activity: charge
        properties:
          to:
            $id: '#order'
        """,
    )
    shop.write("agents/desk.yaml", "model: {endpoint: m}\ntools: [pay]\noutput: {$id: '#order'}\n")
    shop.module(
        "more.py",
        """
        from holdfast import Agent

        clerk = Agent("clerk", model="m:x", input={"properties": {"a": {"$id": "#order"}}})
        """,
    )
    expected = [
        f"tools/pay.yaml:4: `properties.to.$id`: {REASON}",
        f"more.py:3: `input.properties.a.$id`: {REASON}",
        f"agents/desk.yaml:3: `output.$id`: {REASON}",
    ]
    catalog = shop.load()
    assert {*catalog.definitions.tools, *catalog.agents} == {"look_up", "pay", "desk", "clerk"}
    assert [str(each).replace(f"{shop.path}/", "") for each in catalog.advice] == expected
    reload_catalog(catalog, shop.path)
    logged = [each for each in caplog.records if each.name == "holdfast"]
    texts = [each.getMessage().replace(f"{shop.path}/", "") for each in logged]
    assert (texts, {each.levelname for each in logged}) == (2 * expected, {"WARNING"})


def test_every_schema_of_a_definition_is_checked() -> None:
    tool = {
        "$schema": "../tool.schema.json",
        "properties": {"_callId": UNFIT, "to": {"type": "string"}},
        "_output": UNFIT,
        "_approval": {"when": UNFIT},
    }
    of_tool = ["properties._callId.$id", "_output.$id", "_approval.when.$id"]
    assert sorted(places(tool)) == sorted(of_tool)
    assert places({"_parameters": {"properties": {"to": UNFIT}}}) == [
        "_parameters.properties.to.$id"
    ]
    skill = {"name": "one", "when": UNFIT, "tools": [UNFIT]}
    agent = {
        **dict.fromkeys(("input", "output", "state"), UNFIT),
        "approval": {"when": UNFIT},
        "tools": ["find", tool],
        "skills": [skill],
    }
    assert sorted(places(agent, is_tool=False)) == sorted(
        [
            *("input.$id", "output.$id", "state.$id", "approval.when.$id"),
            *(f"tools[1].{each}" for each in of_tool),
            *("skills[0].when.$id", "skills[0].tools[0].$id"),
        ]
    )


@pytest.mark.parametrize(
    ("schema", "is_refused"),
    [
        ({"$schema": DRAFTS[1], "definitions": {"a": {"$id": "#a"}}}, False),
        ({"definitions": {"a": {"$id": "#a"}}}, True),
        ({"$schema": DRAFTS[1], "$ref": "#/$defs/a", "minLength": "2", "$defs": {"a": {}}}, True),
        ({"$schema": DRAFTS[2], "$anchor": "a b"}, True),
        # Our own diagnosis alone reads patterns, and refuses these.
        ({"format": "regex", "pattern": "("}, False),
        ({"$schema": "https://example.com/dialect", "$id": 7}, False),
        ({"type": "str", "$id": 7}, False),
        # Parts of another draft.
        ({"properties": {"a": {"$schema": DRAFTS[1], "items": [True]}}, "$id": 7}, False),
    ],
)
def test_a_schema_is_checked_by_its_own_draft_after_our_own_diagnosis(
    schema: dict[str, Any], is_refused: bool
) -> None:
    assert bool(places({"_output": schema})) is is_refused


@pytest.mark.parametrize("draft", DRAFTS)
def test_nothing_is_fetched(draft: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection is opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    # Our own diagnosis would refuse these references first.
    monkeypatch.setattr(advice, "schema_problems", lambda schema: [])
    remote = dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef"), "http://127.0.0.1:9/a#b")
    schema = {"$schema": draft, "$id": "http://127.0.0.1:9/", "properties": {"a": remote}}
    assert places({"_output": schema}) == []
    assert places({"_output": {**schema, "$id": 7}}) == ["_output.$id"]


@pytest.mark.parametrize("draft", DRAFTS)
def test_a_schema_of_any_depth_is_no_error(draft: str) -> None:
    deepest: dict[str, Any] = {"items": {"$id": 7}}
    for _ in range(MAX_SCHEMA_DEPTH - 1):
        deepest = {"items": deepest}
    place = f"_output{'.items' * MAX_SCHEMA_DEPTH}.$id"
    assert places({"_output": {"$schema": draft, **deepest}}) == [place]
    for _ in range(400):
        deepest = {"items": deepest}
    assert places({"_output": {"$schema": draft, **deepest}}) == []


def test_a_definition_with_too_many_schemas_is_checked_in_part() -> None:
    many: dict[str, Any] = {"properties": {str(n): {} for n in range(MAX_SUBSCHEMAS - 2)}}
    assert places({"_output": many, "_parameters": UNFIT}) == []
    del many["properties"]["0"]
    assert places({"_output": many, "_parameters": UNFIT}) == ["_parameters.$id"]


def test_a_default_that_does_not_fit_is_not_filled_in() -> None:
    order = {
        "properties": {
            "n": {"type": "integer", "default": "many"},
            "m": {"type": "integer", "default": 3},
            "to": {"$ref": "#/$defs/to", "default": 7},
            "in": {"items": {"enum": ["a"], "default": "b"}},
        },
        "$defs": {"to": {"type": "string"}},
        "default": {"n": 1},
    }
    assert places(order) == [
        *("properties.n.default", "properties.to.default", "properties.in.items.default"),
    ]
    [first, *_] = schema_advice({"input": order}, is_tool=False)
    assert str(first) == (
        "`input.properties.n.default`: `many` does not fit, and is not filled in; write one that"
        " fits the schema"
    )


def test_tools_of_a_server_are_named_without_their_defaults() -> None:
    optional = {"properties": {"key": {"type": "string", "default": None}}}
    fits = ListedTool("find", input_schema=optional, output_schema={"type": "object"})
    unfit = ListedTool("pay", input_schema={"properties": {"to": UNFIT}}, output_schema=UNFIT)
    server = "MCP server `shop`, tool `pay`: "
    servers = {"shop": Server(url="https://shop.example/mcp")}
    world = load_catalog(servers=servers, read_definition=activity_definition).definitions
    assert [str(each) for each in server_advice("shop", [fits, unfit], world)] == [
        f"{server}`_parameters.properties.to.$id`: {REASON}",
        f"{server}`_output.$id`: {REASON}",
    ]

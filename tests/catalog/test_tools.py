"""Tools of a catalog: what a run keeps of them, and what a worker refuses at start."""

import errno
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from holdfast.schemas.reference import parse_output_path
from holdfast.schemas.tool import ResolvedTool
from tests.catalog.catalog_folder import Folder

MODEL = "model: {endpoint: m}\n"
REFUND = """
    {
      "_tool": "refund",
      "description": "Refund an order, in full or in part.",
      "type": "object",
      "properties": {
        "order_id": {"type": "string"},
        "amount": {"$ref": "#/$defs/money"},
        "_output": {"type": "object", "required": ["refund_id"]},
        "_outputPath": {"const": "†state.refund"}
      },
      "required": ["order_id", "amount", "_outputPath"],
      "additionalProperties": false,
      "$defs": {"money": {"type": "number", "exclusiveMinimum": 0}},
      "_activity": {"type": "RefundOrder", "taskQueue": "payments", "startToCloseTimeout": "30s"},
      "_sideEffects": true,
      "_idempotent": true,
      "_approval": {
        "when": {"properties": {"amount": {"exclusiveMinimum": 100}}}, "timeout": "24h"
      },
      "_requires": ["orders:refund"]
    }
"""


def tool(folder: Folder, text: str, name: str = "tools/t.yaml") -> ResolvedTool:
    """The only tool of the file."""
    before = set(folder.load().definitions.tools)
    folder.write(name, text)
    tools = folder.load().definitions.tools
    [new] = set(tools) - before
    return tools[new]


def test_the_contracts_example_is_kept_whole(folder: Folder) -> None:
    assert tool(folder, REFUND, "tools/a.json").to_json() == {
        "name": "refund",
        "description": "Refund an order, in full or in part.",
        "parameters": {
            "type": "object",
            "properties": {"order_id": {"type": "string"}, "amount": {"$ref": "#/$defs/money"}},
            "required": ["order_id", "amount"],
            "additionalProperties": False,
            "$defs": {"money": {"type": "number", "exclusiveMinimum": 0}},
        },
        "output": {"type": "object", "required": ["refund_id"]},
        "outputPath": "†state.refund",
        "activity": {
            "type": "RefundOrder",
            "taskQueue": "payments",
            "startToCloseTimeout": "30s",
        },
        "sideEffects": True,
        "approval": {
            "when": {"properties": {"amount": {"exclusiveMinimum": 100}}},
            "timeout": "1d",
        },
        "requires": ["orders:refund"],
    }


def test_a_meta_property_means_the_same_at_the_top_and_fixed_under_properties(shop: Folder) -> None:
    shop.write("tools/a.yaml", "_tool: a\n_activity: charge\n_sideEffects: true\n_show: none\n")
    shop.write(
        "tools/b.yaml",
        """
        properties:
          _tool: {const: b}
          _activity: {const: charge}
          _sideEffects: {const: true}
          _show: {const: none}
        """,
    )
    tools = shop.load().definitions.tools
    assert {**tools["a"].to_json(), "name": "b"} == tools["b"].to_json()


def test_some_meta_properties_may_be_left_to_the_model(shop: Folder) -> None:
    chosen = {
        "_outputPath": {"enum": ["†state.a", "†state.b"]},
        "_outputMethod": {"enum": ["set", "push"]},
        "_scopes": {"type": "array"},
        "_instance": {"enum": ["berlin", "tokyo"]},
    }
    text = json.dumps({"properties": {"x": {}, **chosen}, "_activity": "charge"})
    kept = tool(shop, text)
    assert kept.chosen == chosen
    assert kept.parameters["properties"] == {"x": {}}
    assert kept.output_path is None


def test_names_may_begin_with_an_underscore(shop: Folder) -> None:
    """As published MCP tools have them; their schemas are of draft-07, mostly."""
    kept = tool(
        shop,
        """
        _tool: _search
        description: Search.
        _activity: look_up
        _parameters:
          $schema: http://json-schema.org/draft-07/schema#
          properties: {_meta: {$ref: "#/definitions/meta"}, q: {type: string}}
          required: [_meta]
          definitions: {meta: {items: [{type: string}], additionalItems: false}}
        _output: {$schema: "http://json-schema.org/draft-07/schema#", dependencies: {a: [b]}}
        _approval: {when: {$id: "http://x.test/", required: [q]}}
        """,
    )
    assert kept.name == "_search"
    assert kept.parameters == {
        "type": "object",
        "properties": {"_meta": {"$ref": "#/definitions/meta"}, "q": {"type": "string"}},
        "required": ["_meta"],
        "definitions": {"meta": {"prefixItems": [{"type": "string"}], "items": False}},
    }
    assert kept.output == {"dependentRequired": {"a": ["b"]}}
    assert kept.approval.when == {"required": ["q"]}


def test_a_tool_is_named_by_itself_or_by_its_file(shop: Folder) -> None:
    many = "[{_tool: one, _activity: charge}, {_tool: two, _activity: charge}]"
    shop.write("tools/deep/rag.query.yaml", "_activity: charge")
    shop.write("tools/many.yaml", many)
    assert {"rag.query", "one", "two"} <= set(shop.load().definitions.tools)


@pytest.mark.parametrize(
    ("written", "idempotent"),
    [
        ({}, True),
        ({"_sideEffects": True}, False),
        ({"_sideEffects": True, "_idempotent": True}, True),
        ({"_idempotent": False}, False),
    ],
)
def test_a_tool_may_be_repeated_unless_it_has_side_effects(
    shop: Folder, written: dict[str, Any], idempotent: bool
) -> None:
    assert tool(shop, json.dumps({"_activity": "charge", **written})).idempotent is idempotent


def test_what_is_not_a_tools_file_is_left_alone(shop: Folder) -> None:
    shop.write("tools/README.md", "Our tools.")
    shop.write("tools/.draft.yaml", "{{{")
    shop.write("agents/.clerk.mdd", "{{{")
    for name in (".git/a.yml.txt", "a.yaml~", "#a.yaml#", "a.yaml.bak", "a.jsonl", "a.txt", "a.py"):
        shop.write(f"tools/{name}", "{{{")
    assert set(shop.load().definitions.tools) == {"look_up"}


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels // 2):
        schema = {"properties": {"a": schema}}
    return schema


def _row(length: int) -> dict[str, Any]:
    """Schemas of which each is nothing but the next."""
    row = {f"s{n}": {"$ref": f"#/$defs/s{n + 1}"} for n in range(length)}
    return {"_activity": "charge", "$defs": {**row, f"s{length}": {}}}


OPEN = """
properties:
  one: {anyOf: [{type: object, properties: {a: {}}, additionalProperties: false}, {type: string}]}
  two: {type: object, patternProperties: {"^x": {}}, additionalProperties: false}
  three: {type: object, properties: {a: {}}, additionalProperties: {type: object}}
  four: {type: object}
  five: {}
  six: {prefixItems: [{type: string}], items: {type: object}}
_activity: {type: charge, input: {p: 'PLACE'}}
"""


@pytest.mark.parametrize(
    "place", ["one.b", "two.xa", "three.b.c", "four.a.b", "five[0].a", "six[1].a"]
)
def test_a_place_that_a_schema_may_have_is_no_problem(shop: Folder, place: str) -> None:
    shop.write("tools/t.yaml", OPEN.replace("PLACE", place))
    bound = shop.load().definitions.tools["t"].activity
    assert bound is not None
    assert bound.input == {"p": place}


REFUSED = [
    (
        OPEN.replace("PLACE", "three.a[0]").replace("{a: {}}, addi", "{a: {type: string}}, addi"),
        "8: `_activity.input.p`: `three.a[0]` names no parameter; there are none",
    ),
    (
        "_activity: charge\nproperties: {amount: {}}\n_approval:\n  effect: pay {amuont}",
        "4: `_approval.effect`: `{amuont}` names no argument; did you mean `amount`?",
    ),
    (
        "_activity: charge\n_approval:\n  when: {type: strin}",
        "3: `_approval.when.type`: `strin` is no type; did you mean `string`?",
    ),
    (
        "_activity: charge\n_approval:\n- when: {required: true}",
        "3: `_approval[0].when.required`: `true` does not fit; write the list",
    ),
    (
        "_activity: charge\n_approval:\n  require: never\n  onTimeout: fail",
        "4: `onTimeout` does not apply to an unknown outcome, the only question here; leave it out,"
        " or leave out `require: never`",
    ),
    (
        "_activity: charge\nproperties:\n  _outputPath:\n    const: †",
        "4: `properties._outputPath.const`: `†` names no place to write to",
    ),
    (
        "_activity: charge\nproperties:\n  _outputPath: 5",
        "3: `properties._outputPath`: this is no schema",
    ),
    (
        "_activity: charge\nproperties:\n  _scopes: {type: strin}",
        "3: `properties._scopes.type`: `strin` is no type",
    ),
    (
        json.dumps(_row(100)),
        "1: `$defs.s0`: checking with this schema would never end, or too late",
    ),
    (
        json.dumps({"_activity": "charge", "$defs": _nested(70)}),
        "1: `$defs.properties.a.properties.a.properties.a.",
    ),
    (json.dumps({"_activity": "charge", "enum": ["x" * 260_000]}), "1: the schema has 2600"),
    (
        "[{_tool: c, _activity: charge}, {_tool: c, _activity: charge}]",
        "1: `[1]`: the tool name `c` is used by tools/t.yaml:1; ",
    ),
    (
        "properties:\n  _delegate:\n    const: anonymus",
        "3: `properties._delegate.const`: there is no agent `anonymus`; did you mean `anonymous`?",
    ),
    (
        "_activity: charge\n_repair: {type: charge, local: true}",
        "2: `_repair.local`: this option is not for hooks; leave it out",
    ),
    (
        "_activity: charge\nproperties:\n  _before: {type: string}",
        "3: `_before` is not for the model to choose; ",
    ),
    ("[{_activity: charge}]", '1: `[0]`: the tool has no name; give it one: "_tool": "…"'),
]


@pytest.mark.parametrize(("text", "problem"), REFUSED)
def test_a_tool_that_does_not_load_is_reported_with_its_line(
    shop: Folder, text: str, problem: str
) -> None:
    shop.write("tools/t.yaml", text)
    said = shop.problem()
    assert said.startswith(f"tools/t.yaml:{problem}")
    assert "; " in said, "a problem says what to do"


def test_a_catalog_that_may_not_be_read_is_reported(
    shop: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbid(_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", forbid)  # root may read everything
    [said] = shop.problems()
    assert said.endswith(": it cannot be read: Permission denied; make it a readable folder")


def test_a_condition_of_a_rule_may_refer_to_itself(shop: Folder) -> None:
    both = {name: {"$ref": "#/$defs/p"} for name in "ab"}
    required = ["a"]
    part = {"properties": both, "required": required, "type": "object"}
    tree = {"$defs": {"p": part}, **part}
    rules = {"_approval": [{"when": tree, "require": "never"}, {}]}
    shop.write("tools/t.yaml", json.dumps({"_activity": "charge", **tree, **rules}))
    assert len(shop.problems()) == 5, "of the whole, and of each reference"
    required.append("b")
    shop.write("tools/t.yaml", json.dumps({"_activity": "charge", **tree, **rules}))
    assert len(shop.load().definitions.tools["t"].approval_rules) == 2


class Card(BaseModel):
    kind: Literal["card"]
    number: str


class Bank(BaseModel):
    kind: Literal["bank"]
    amount: float
    lines: tuple[float, str] = (0, "")


class Transferred(BaseModel):
    target: Annotated[Card | Bank, Field(discriminator="kind")]
    other: Card | Bank | str | None = None


@pytest.mark.parametrize(
    ("name", "condition", "problem"),
    [
        ("target", {"properties": {"kind": {"const": "bank"}}, "required": ["kind"]}, ""),
        ("target", {"properties": {"kind": {"const": "bank"}}, "type": "object"}, ""),
        ("target", {"properties": {"amount": {"maximum": 5}}, "required": ["amount"]}, ""),
        ("target", {"properties": {"amount": {"maximum": 5}}}, "a call without `target.amount` "),
        ("target", {"properties": {"knid": {}}, "required": ["knid"]}, "`knid` is no property of "),
        ("other", {"properties": {"kind": {"const": "bank"}}, "type": "object"}, ""),
        ("other", {"required": ["knid"], "type": "object"}, "`knid` is no property of `other`; "),
        ("other", {"required": ["kind"]}, "what is no object fits every `required`, and `other` "),
        (
            "target",
            {"properties": {"lines": {"prefixItems": [{"minimum": 0}] * 2}}, "required": ["lines"]},
            "what is no number fits every `minimum`, and `target.lines[1]` may be none; ",
        ),
    ],
)
def test_a_condition_of_a_rule_may_be_on_a_union(
    shop: Folder, name: str, condition: dict[str, Any], problem: str
) -> None:
    when = {"properties": {name: condition}, "required": [name]}
    rules = {"_approval": [{"when": when, "require": "never"}, {}]}
    tool = {"_activity": "charge", **Transferred.model_json_schema(), **rules}
    shop.write("tools/t.yaml", json.dumps(tool))
    if problem:
        assert problem in shop.problem()
    else:
        assert len(shop.load().definitions.tools["t"].approval_rules) == 2


def test_all_problems_are_reported_at_once(shop: Folder) -> None:
    shop.write(
        "tools/a.yaml", "_foo: 1\n_show: everything\nproperties:\n  _label: {type: string}\n"
    )
    shop.write("tools/b.json", "{")
    shop.write("tools/c.yaml", "_activity: chrge\n_outputPath: x\n_output: {type: strin}\n")
    problems = [said.split(": ")[0] for said in shop.problems()]
    assert problems == [
        *("tools/a.yaml:1", "tools/a.yaml:2", "tools/a.yaml:4"),
        "tools/b.json:1",
        *("tools/c.yaml:1", "tools/c.yaml:2", "tools/c.yaml:3"),
    ]


@pytest.mark.parametrize(
    "schema",
    [
        # A schema may hold itself where a value comes to an end.
        {"properties": {"child": {"$ref": "#"}, "all": {"items": {"$ref": "#"}}}},
        # A property may be called like a keyword.
        {
            "properties": {"$ref": {"type": "string"}, "default": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {}},
        },
    ],
)
def test_a_schema_is_kept_as_it_is_written(shop: Folder, schema: dict[str, Any]) -> None:
    parameters = tool(shop, json.dumps({"_activity": "charge", **schema})).parameters
    assert parameters.items() >= schema.items()


def test_keywords_of_ones_own_are_left_alone(shop: Folder) -> None:
    own = {
        "x-requierd": 1,
        "examples": [{"requierd": True}],
        "default": {"tpye": 1},
        "nullable": True,
        "discriminator": {"propertyName": "kind"},
        "note": "no slip of `not`",
    }
    text = json.dumps({"_activity": "charge", "properties": {"a": own}, **own})
    assert tool(shop, text).parameters["properties"]["a"] == own


@pytest.mark.parametrize("file", ["../schemas/tool.schema.json", "urn:holdfast:tool"])
def test_a_tool_may_name_its_schema_for_an_editor(shop: Folder, file: str) -> None:
    kept = tool(shop, json.dumps({"$schema": file, "_activity": "charge"}))
    assert "$schema" not in kept.parameters


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(("tpye", "type"), ("itmes", "items"), ("Required", "required"), ("defs", "$defs")),
        *(("additionalProperty", "additionalProperties"), ("minLenght", "minLength")),
        *(("one_of", "oneOf"), ("ref", "$ref"), ("enums", "enum")),
    ],
)
def test_a_keyword_that_is_nearly_one_of_the_drafts_is_a_slip(
    shop: Folder, written: str, meant: str
) -> None:
    schema = {"_activity": "charge", "properties": {"a": {"anyOf": [{written: 1}]}}}
    shop.write("tools/t.json", json.dumps(schema))
    said = f"tools/t.json:1: unknown keyword `{written}`; did you mean `{meant}`?"
    assert shop.problem().startswith(said)


@pytest.mark.parametrize(
    "path", ["†state.refunds[0].id", "†state.a && †state.b", "†state.a || †note.b"]
)
def test_a_fixed_output_path_names_where_results_go(shop: Folder, path: str) -> None:
    kept = tool(shop, json.dumps({"_activity": "charge", "_outputPath": path}))
    assert kept.output_path == path
    assert parse_output_path(path).result


# What runs a tool, and its hooks.


def test_a_tool_without_an_activity_is_answered_by_the_model_itself(shop: Folder) -> None:
    kept = tool(shop, "description: How the customer feels.\n_output: {type: string}\n")
    assert kept.latent
    assert kept.output == {"type": "string"}


def test_an_agent_may_be_what_carries_a_tool_out(shop: Folder) -> None:
    shop.write("agents/translator.yaml", MODEL)
    kept = tool(shop, "_delegate: translator\n_scopes: [state]\n_sideEffects: true\n")
    assert (kept.delegate, kept.activity, kept.latent) == ("translator", None, False)
    assert (kept.scopes, kept.once) == (["state"], True)


def test_a_delegate_comes_before_the_activity_of_the_tools_own_name(shop: Folder) -> None:
    shop.write("tools/charge.yaml", "_delegate: anonymous")
    assert shop.load().definitions.tools["charge"].activity is None


def test_agents_may_delegate_to_each_other_in_a_cycle(shop: Folder) -> None:
    shop.write("agents/a.yaml", MODEL + "tools: [{_tool: ask_b, _delegate: b}]")
    shop.write("agents/sub/other.yaml", MODEL + "name: b\ntools: [{_tool: ask_a, _delegate: a}]")
    shop.write("agents/self.yaml", MODEL + "tools: [{_tool: again, _delegate: self}]")
    assert set(shop.load().agents) == {"a", "b", "self"}


def test_a_tools_hooks_are_kept_with_their_options(shop: Folder) -> None:
    text = """
        _activity: charge
        _prepare: charge
        _before: {type: generate, taskQueue: policies, retry: {maximumAttempts: 2}}
        properties: {_after: {const: charge}}
    """
    before = {"type": "generate", "taskQueue": "policies", "retry": {"maximumAttempts": 2}}
    assert tool(shop, text).hooks.to_json() == {
        "prepare": {"type": "charge"},
        "before": before,  # an activity of another worker may have any name
        "after": {"type": "charge"},
    }


def test_an_activity_that_a_hook_or_a_skill_names_is_bound(shop: Folder) -> None:
    bound = ("a_tool", "its_hook", "own", "in_skill", "hook_in_skill", "of_agent", "whole_skill")
    one = "@activity.defn\nasync def {name}(a: int) -> None: ..."
    activities = (one.format(name=name) for name in (*bound, "unused"))
    shop.module("more.py", "\n".join(["from temporalio import activity", *activities]))
    shop.write("tools/t.yaml", "_activity: a_tool\n_repair: its_hook")
    text = """
        model: {endpoint: m}
        _before: of_agent
        tools: [{_tool: z, _activity: own}]
        skills:
        - {name: one, tools: [{_tool: x, _activity: in_skill, _after: hook_in_skill}]}
        - {name: two, activity: whole_skill}
    """
    shop.write("agents/a.yaml", text)
    catalog = shop.load()
    named = {each.name for each in catalog.python.activities}
    assert named - catalog.bound_activities == {"charge", "unused"}

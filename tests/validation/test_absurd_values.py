"""Absurd values and schemas that are slow on purpose: checked in no time, or refused as too large.

Each of these takes jsonschema alone, or what was here before, from seconds to years: a test that
would take so long ends by its limit.
"""

import gc
import weakref
from typing import Any

import pytest

from holdfast.schemas.tool import Schema
from holdfast.validation.arguments import InvalidArguments, fit
from holdfast.validation.lenient_json import read_json
from holdfast.validation.schema_node import (
    MAX_STEPS,
    SharedWorkBudget,
    ValidationLimits,
)
from holdfast.validation.validator import errors
from tests.support.costs import some_of

INTEGER = {"type": "integer"}
TEXT = {"type": "string"}
LONG = "x" * 1_000_000
NUMBERS = [1] * 400_000
MANY = [1] * 600_000
TOO_MANY = f"too large to be checked: that takes more than {MAX_STEPS} steps"
ANCHORED = {"$anchor": "a", "type": "integer"}
OTHER_DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}
OWN_DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
SLOW = {"pattern": "^(a+)+$"}

TREE = {
    "$defs": {
        "node": {
            "anyOf": [
                {"properties": {"c": {"$ref": "#/$defs/node"}}, "required": ["a"]},
                {"properties": {"c": {"$ref": "#/$defs/node"}}, "required": ["b"]},
            ]
        }
    },
    "$ref": "#/$defs/node",
}


def branch(levels: int) -> Any:
    node: Any = {}
    for _ in range(levels):
        node = {"c": node}
    return node


ABSURD: dict[str, tuple[Any, Schema]] = {
    "many numbers": (NUMBERS, {"items": INTEGER}),
    "many texts": (["x"] * 250_000, {"items": INTEGER}),
    "many keys": ({str(n): n for n in range(100_000)}, {"additionalProperties": INTEGER}),
    "many different": ([{"k": n} for n in range(20_000)], {"uniqueItems": True}),
    "choices within choices": (branch(60), TREE),
    "a schema within itself": (
        branch(60),
        {"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"c": {"$ref": "#/$defs/x"}}}}},
    ),
    "one long text": ("x" * 1_000_000, {"type": "string", "minLength": 1}),
    "a long list as text": ("[" + "1," * 300_000 + "1]", {"type": "array", "items": INTEGER}),
    "a long list, quoted by many errors": (NUMBERS, {"anyOf": [TEXT] * 2_000}),
    "a long text, forbidden many times": (LONG, {"anyOf": [False] * 2_000}),
    "schemas of nothing": ([1] * 40_000, {"items": {"allOf": [{}] * 9_000}}),
    "schemas for each place": ([1] * 9_000, {"prefixItems": [{}] * 9_000}),
    "many names required": (
        [{}] * 20_000, {"items": {"required": [f"k{n}" for n in range(9_000)]}},
    ),
    "many values": (["x"] * 40_000, {"items": {"enum": [f"k{n}" for n in range(9_000)]}}),
    "many values, of which the last fits": (
        ["k8999"] * 40_000, {"items": {"enum": [f"k{n}" for n in range(9_000)]}},
    ),
    "many unevaluated": (
        [{}] * 20_000,
        {"items": {"properties": {f"k{n}": {} for n in range(9_000)},
                   "unevaluatedProperties": False}},
    ),
    "many types": ([1] * 20_000, {"items": {"type": ["string"] * 9_000}}),
    "a large constant, again and again": (
        [[0] * 60_000] * 4,
        {"$defs": {"c": {"const": [0] * 60_000}},
         "items": {"allOf": [{"$ref": "#/$defs/c"}] * 999}},
    ),
    "a large value among others, again and again": (
        [[0] * 60_000] * 4,
        {"$defs": {"e": {"enum": [[0] * 60_000]}},
         "items": {"allOf": [{"$ref": "#/$defs/e"}] * 999}},
    ),
    "numbers of one hash": ([n * (2**61 - 1) for n in range(40_000)], {"uniqueItems": True}),
    "large items, compared again and again": (
        [[0] * 100_000, [1] * 100_000],
        {"$defs": {"u": {"uniqueItems": True}}, "allOf": [{"$ref": "#/$defs/u"}] * 999},
    ),
    "unevaluated properties": (
        {f"k{n}": 1 for n in range(40_000)},
        {"allOf": [{"additionalProperties": True}], "unevaluatedProperties": False},
    ),
    "unevaluated properties that are known": (
        {f"k{n}": 1 for n in range(6_000)},
        {"allOf": [{"properties": {f"k{n}": {} for n in range(6_000)}}],
         "unevaluatedProperties": False},
    ),
    "unevaluated items": ([1] * 40_000, {"allOf": [{"contains": TEXT}], "unevaluatedItems": False}),
    "an anchor in a large schema": (
        [1] * 20_000,
        {"$defs": {"a": ANCHORED, "z": {"allOf": [{}] * 9_000}}, "items": {"$ref": "#a"}},
    ),
    "a schema with addresses": (
        [1] * 20_000,
        {"$id": "urn:a", "$defs": {"a": {"$id": "urn:b", **INTEGER}}, "items": {"$ref": "urn:b"}},
    ),
    "a long reference": (
        [1] * 20_000,
        {"$defs": {"a" * 30_000: INTEGER}, "items": {"$ref": "#/$defs/" + "%61" * 30_000}},
    ),
    "errors that come up from far below": (
        branch(50) | {"c": ["x"] * 20_000},
        {"$defs": {"n": {"properties": {"c": {"$ref": "#/$defs/n"}}, "items": INTEGER}},
         "anyOf": [{"$ref": "#/$defs/n"}]},
    ),
    "a slow pattern": ("a" * 40 + "b", SLOW),
    "a slow pattern in another draft": ("a" * 40 + "b", {"if": OTHER_DRAFT | SLOW, "then": True}),
    "a slow pattern in its own draft": ("a" * 40 + "b", {"allOf": [OWN_DRAFT | SLOW]}),
    "a slow pattern for names": ({"a" * 40 + "b": 1}, {"propertyNames": SLOW}),
    "a slow pattern for all others": (
        {"a" * 40 + "b": 1}, {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
    ),
    "a slow pattern for unevaluated ones": (
        {"a" * 40 + "b": 1}, {"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False},
    ),
    "many patterns": (
        ["a" * 100] * 2_000,
        {"items": {"allOf": [{"pattern": f"a{{1,{900 - n}}}[^b]{{1,900}}x"} for n in range(200)]}},
    ),
    "many patterns for many names": (
        {f"k{n}": 1 for n in range(20_000)},
        {"patternProperties": {f"^a{n}+$": INTEGER for n in range(2_000)}},
    ),
    "a pattern of many states": ("ab" * 500_000, {"pattern": "a[ab]{400}c"}),
    "large numbers": ([10**999] * 900, {"items": {"multipleOf": 7}}),
    "many that fit": ([1] * 20_000, {"items": {"oneOf": [{} for _ in range(3_000)]}}),
    "a text that is JSON, again and again": (
        "{" + ",".join(f'"k{n}":1' for n in range(50_000)) + "}",
        {"allOf": [{"anyOf": [{"type": "object", "required": ["z"]}]}] * 300},
    ),
}  # fmt: skip


# Those that cost more than a tenth of a second each, up to the bound on their steps or near it.
# "many types" represents them in `make test`.
COSTLY = {
    *("many numbers", "many texts", "many keys", "many different", "choices within choices"),
    *("a long list as text", "a long list, quoted by many errors", "schemas of nothing"),
    *("many unevaluated", "a large constant, again and again", "unevaluated properties"),
    *("a large value among others, again and again", "large items, compared again and again"),
    *("unevaluated items", "many patterns", "many patterns for many names", "many that fit"),
    *("a text that is JSON, again and again",),
}
TOO_LARGE_TO_FIT = {
    *("many numbers", "many texts", "choices within choices", "a long list as text"),
    *("a long list, quoted by many errors", "schemas of nothing", "many unevaluated"),
    *("many values, of which the last fits", "many types", "a large constant, again and again"),
    *("a large value among others, again and again", "large items, compared again and again"),
    *("a long reference", "many patterns", "many patterns for many names"),
    *("a pattern of many states", "a text that is JSON, again and again"),
}


@pytest.mark.parametrize("name", some_of(ABSURD, ABSURD.keys() - COSTLY))
def test_a_value_is_checked_in_no_time_or_refused(name: str) -> None:
    value, schema = ABSURD[name]
    errors(value, schema)
    refused = ""
    try:
        fit(value, schema)
    except InvalidArguments as error:
        refused = str(error)
    assert (refused == TOO_MANY) == (name in TOO_LARGE_TO_FIT)


def test_a_value_that_is_too_deep_for_its_schema_is_refused_and_nothing_falls_over() -> None:
    schema: Schema = {"$ref": "#/$defs/a"}
    row = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}]} for n in range(150)}
    schema["$defs"] = {"a": {"$ref": "#/$defs/a0"}, **row, "a150": INTEGER}
    assert errors(1, schema) == ["too deep to be checked"]


def test_a_pattern_that_is_not_searched_for_fits_nothing() -> None:
    """A run that began before such a pattern was refused still has it."""
    [said] = errors("ab", {"pattern": "a(?=b)"})
    assert said.startswith("the schema cannot be applied: a pattern looks ahead")


def test_errors_are_reported_in_the_order_of_the_value_in_each_process() -> None:
    value = dict.fromkeys("zyxwvu", "x")
    told = [line[0] for line in errors(value, {"additionalProperties": INTEGER})]
    assert "".join(told) == "zyxwvu"


@pytest.mark.parametrize(
    ("value", "schema", "says"),
    [
        ({"a": 1, "b": 2}, {"properties": {"a": {}}, "unevaluatedProperties": False},
         'Unevaluated properties are not allowed ("b" was unexpected)'),
        ({"a": 1, "b": 2}, {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": TEXT},
         'Unevaluated properties are not valid under the given schema ("b" was unevaluated and'
         " invalid)"),
        ({"a": 1}, {"if": {"required": ["b"]}, "else": {"patternProperties": {"^a": {}}},
                    "unevaluatedProperties": False}, None),
        ({"a": 1, "b": 1}, {"dependentSchemas": {"a": {"properties": {"b": {}}}},
                            "properties": {"a": {}}, "unevaluatedProperties": False}, None),
        ({"a": 1}, {"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": {}}}},
                    "unevaluatedProperties": False}, None),
        ([1, 2], {"prefixItems": [{}], "unevaluatedItems": False},
         "Unevaluated items are not allowed (2 was unexpected)"),
        ([1, "a"], {"prefixItems": [{}], "contains": TEXT, "unevaluatedItems": False}, None),
        ([1, 2], {"anyOf": [{"items": INTEGER}], "unevaluatedItems": False}, None),
        ({"b": 1}, {"patternProperties": {"^a": {}}, "additionalProperties": False},
         '"b" does not match any of the regexes: "^a"'),
        ([1, 1.0], {"uniqueItems": True}, "an item occurs in it twice"),
        (1, {"enum": [True, 1.0]}, None),
        (True, {"const": 1}, "1 was expected"),
        ({"a": [1]}, {"const": {"a": [1.0]}}, None),
        ({"a": [0]}, {"const": {"a": [False]}}, '{"a": [false]} was expected'),
        ({"c": {"c": 1}}, {"$dynamicAnchor": "n", "type": "object",
                           "properties": {"c": {"$dynamicRef": "#n"}}},
         'c.c: 1 is not of type "object"'),
    ],
)  # fmt: skip
def test_a_rewritten_schema_agrees_with_jsonschema(
    value: Any, schema: Schema, says: str | None
) -> None:
    assert errors(value, schema) == ([] if says is None else [says])


def test_what_comes_in_one_workflow_task_shares_one_budget() -> None:
    shared = SharedWorkBudget(MAX_STEPS)
    limits = ValidationLimits(lambda: shared)
    found = [errors(MANY, {"items": INTEGER}, limits.budget()) for _ in range(3)]
    assert found[0] == []
    assert found[-1] == ["too large to be checked beside all else that came with it"]
    shared.steps = MAX_STEPS
    assert errors(MANY, {"items": INTEGER}, limits.budget()) == []


def test_no_schema_is_kept_after_its_use() -> None:
    class Kept(dict[str, Any]):
        """A schema that can be watched."""

    schema = Kept(INTEGER)
    watched = weakref.ref(schema)
    assert errors(1, schema) == []
    del schema
    gc.collect()
    assert watched() is None


def test_what_is_checked_together_shares_one_budget() -> None:
    """A turn of many large calls takes no longer than one: Temporal waits two seconds."""
    limits = ValidationLimits()
    with limits.decision():
        found = [errors(MANY, {"items": INTEGER}, limits.budget()) for _ in range(2)]
        with limits.decision():
            found.append(errors(MANY, {"items": INTEGER}, limits.budget()))
    assert found[0] == []
    assert found[-1] == [TOO_MANY]
    assert errors(MANY, {"items": INTEGER}, limits.budget()) == []


ROW = {
    "type": "object",
    "properties": {
        "id": INTEGER,
        "name": {"type": "string", "minLength": 1},
        "note": {"anyOf": [TEXT, {"type": "null"}]},
    },
    "required": ["id"],
    "additionalProperties": False,
}


def rows(count: int) -> list[Any]:
    return [{"id": n, "name": f"n{n}", "note": None} for n in range(count)]


def test_large_data_is_checked_up_to_what_the_limits_promise() -> None:
    """2 MB of rows, or of nothing but numbers, as a result; 1 MB of rows as arguments."""
    assert errors(rows(48_000), {"items": ROW}) == []
    assert errors([1] * 1_000_000, {"type": "array", "items": INTEGER}) == []
    assert len(fit(rows(24_000), {"type": "array", "items": ROW})) == 24_000


@pytest.mark.parametrize(
    "text",
    [
        "```json\n" + " " * 500_000 + "x",
        "```" + "\n" * 500_000 + "x",
        "```" * 200_000,
        '{"a": "' + '\\"' * 300_000 + "\\",
        '{"a": ' + '"' * 500_001,
        "[" + ",   " * 200_000,
        "[" + "," * 500_000 + "]",
        "{" * 500_000,
        "[" * 500_000 + "]" * 500_000,
        "\\ud800" * 100_000,
        "1" * 500_000,
    ],
    ids=range(11),
)
def test_an_absurd_text_is_read_in_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(text)


@pytest.mark.parametrize(
    "schema", [{"items": {}}, {"contains": {}}, {"prefixItems": [{}], "items": {}}]
)
def test_going_through_a_value_counts_also_where_there_is_nothing_to_check(schema: Any) -> None:
    assert errors([1] * 2_500_000, schema) == [TOO_MANY]

"""Arguments that are absurd: they are read and checked in no time, or refused."""

import contextlib
import time
from typing import Any

import pytest

from holdfast.validation.arguments import InvalidArguments, fit
from holdfast.validation.lenient_json import read_json
from holdfast.validation.validator import errors
from holdfast.validation.work_budget import bounded

INTEGER = {"type": "integer"}
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


ABSURD: dict[str, tuple[Any, Any]] = {
    "many numbers": ([1] * 400_000, {"items": INTEGER}),
    "many texts": (["x"] * 250_000, {"items": INTEGER}),
    "many of anything": ([1] * 400_000, {"items": {}}),
    "many keys": ({str(n): n for n in range(100_000)}, {"additionalProperties": INTEGER}),
    "many different": ([{"k": n} for n in range(20_000)], {"uniqueItems": True}),
    "choices within choices": (branch(60), TREE),
    "a schema within itself": (
        branch(60),
        {"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"c": {"$ref": "#/$defs/x"}}}}},
    ),
    "one long text": ("x" * 1_000_000, {"type": "string", "minLength": 1}),
    "a long list as text": ("[" + "1," * 300_000 + "1]", {"type": "array", "items": INTEGER}),
}


@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_value_is_checked_in_no_time_or_refused(name: str) -> None:
    value, schema = ABSURD[name]
    begin = time.thread_time()
    with contextlib.suppress(InvalidArguments):
        fit(value, schema)
    assert time.thread_time() - begin < 0.9  # half a second where nothing else is at work


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
    begin = time.thread_time()
    with pytest.raises(ValueError, match=r"."):
        read_json(text)
    assert time.thread_time() - begin < 0.5


@pytest.mark.parametrize(
    "schema", [{"items": {}}, {"contains": {}}, {"prefixItems": [{}], "items": {}}]
)
def test_going_through_a_value_counts_also_where_there_is_nothing_to_check(schema: Any) -> None:
    assert errors([1] * 60_000, schema) == [
        "too large to be checked: that takes more than 50000 steps"
    ]


def test_what_is_checked_together_shares_one_allowance() -> None:
    """A turn of many large calls takes no longer than one: Temporal waits two seconds."""
    value, schema = [1] * 20_000, {"items": INTEGER}
    assert errors(value, schema) == []

    with bounded():
        found = [errors(value, schema) for _ in range(5)]
    assert found[0] == []
    assert found[-1] == ["too large to be checked: that takes more than 50000 steps"]
    assert errors(value, schema) == []

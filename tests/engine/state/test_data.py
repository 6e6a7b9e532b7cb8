"""State: five methods of writing, and values that never change once they were read."""

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.base import json_size
from holdfast.schemas.reference import Path, parse_output_path, parse_reference
from holdfast.schemas.tool import OutputMethod
from holdfast.workflows.engine.run_state import MAX_STATE_BYTES
from holdfast.workflows.engine.state.data import MAX_INDEX, MISSING, CannotWrite, Data
from tests.engine.driver import Play, call, reply, tool


def place(text: str) -> Path:
    reference = parse_reference("†" + text)
    assert reference is not None
    return reference.paths[0]


def data_of(state: Any) -> Data:
    data = Data()
    data.set("state", state)
    return data


@pytest.mark.parametrize(
    ("before", "path", "method", "value", "after"),
    [
        ({}, "state.a", "set", 1, {"a": 1}),
        ({"a": 1, "b": 2}, "state.a", "set", None, {"a": None, "b": 2}),
        ({}, "state.a.b.c", "set", 1, {"a": {"b": {"c": 1}}}),
        ({"a": None}, "state.a.b", "set", 1, {"a": {"b": 1}}),
        ({}, "state.a[0]", "set", 1, {"a": [1]}),
        ({"a": [1, 2]}, "state.a[1]", "set", 3, {"a": [1, 3]}),
        ({"a": [1]}, "state.a[1].b", "set", 3, {"a": [1, {"b": 3}]}),
        (
            {"a": {"x": {"y": 1}}},
            "state.a",
            "merge",
            {"x": {"z": 2}},
            {"a": {"x": {"y": 1, "z": 2}}},
        ),
        ({"a": {"x": [1]}}, "state.a", "merge", {"x": [2]}, {"a": {"x": [2]}}),
        ({"a": {"x": 1}}, "state.a", "merge", {"x": None}, {"a": {"x": None}}),
        ({}, "state.a", "merge", {"x": 1}, {"a": {"x": 1}}),
        ({"a": 5}, "state.a", "merge", {"x": 1}, {"a": {"x": 1}}),
        ({"a": {"x": {"y": 1}}}, "state.a", "assign", {"x": {"z": 2}}, {"a": {"x": {"z": 2}}}),
        ({"a": {"x": 1}}, "state.a", "assign", {"y": 2}, {"a": {"x": 1, "y": 2}}),
        ({}, "state.a", "push", 1, {"a": [1]}),
        ({"a": [1]}, "state.a", "push", [2], {"a": [1, [2]]}),
        ({"a": None}, "state.a", "push", 1, {"a": [1]}),
        ({"a": [1]}, "state.a", "concat", [2, 3], {"a": [1, 2, 3]}),
        ({"a": "x"}, "state.a", "concat", "y", {"a": "xy"}),
        ({}, "state.a", "concat", [1], {"a": [1]}),
    ],
)
def test_a_write_gives_the_whole_value_as_it_would_be(
    before: Any, path: str, method: OutputMethod, value: Any, after: Any
) -> None:
    data = data_of(before)
    kept = copy.deepcopy(before)

    assert data.value_after_write(place(path), method, value) == after
    assert data["state"] == kept, "a write that is only tried changes nothing"


@pytest.mark.parametrize(
    ("before", "path", "method", "value", "why"),
    [
        ({"a": {}}, "state.a", "push", 1, "†state.a is not a list: nothing can be pushed to it"),
        ({"a": 1}, "state.a", "concat", [1], "concat takes two lists or two texts"),
        ({"a": [1]}, "state.a", "concat", 2, "concat takes two lists or two texts"),
        ({"a": 1}, "state.a.b", "set", 2, "`b` is a key, and its place is not an object"),
        ({"a": [1]}, "state.a.b", "set", 2, "`b` is a key, and its place is not an object"),
        ({"a": {}}, "state.a[0]", "set", 2, "the list has no place [0]"),
        ({"a": [1]}, "state.a[2]", "set", 2, "the list has no place [2]"),
        ({}, f"state.a[{MAX_INDEX + 1}]", "set", 2, "the list has no place"),
        ({}, "state.a[999999999]", "set", 2, "the list has no place"),
    ],
)
def test_a_write_that_does_not_fit_the_stored_value_has_a_reason(
    before: Any, path: str, method: OutputMethod, value: Any, why: str
) -> None:
    with pytest.raises(CannotWrite) as refused:
        data_of(before).value_after_write(place(path), method, value)
    assert why in str(refused.value)


def test_what_was_read_never_changes_afterwards() -> None:
    data = data_of({"a": {"list": [1], "map": {"x": 1}}, "b": [0]})
    read = [data.read(place(path)) for path in ("state", "state.a", "state.a.list", "state.a.map")]
    before = copy.deepcopy(read)
    for path, method, value in (
        ("state.a.list", "push", 2),
        ("state.a.list[0]", "set", 9),
        ("state.a.map", "merge", {"x": 2}),
        ("state.a", "assign", {"new": 1}),
        ("state.b", "concat", [1]),
    ):
        data.set("state", data.value_after_write(place(path), method, value))  # type: ignore[arg-type]  # a table

    assert read == before


def test_a_state_is_never_too_large_for_the_result_of_its_run() -> None:
    play = Play(
        tool("look", output_path="†state.big"),
        model=[reply("", call("look")), reply("done")],
        outcomes={"look": "x" * MAX_STATE_BYTES},
    ).to_end()

    assert play.errors() == {"t1c1": "invalid_output"}
    assert f"at most {MAX_STATE_BYTES}" in play.results()["t1c1"]
    assert play.result["state"] == {}


WRITES = st.lists(
    st.tuples(
        st.sampled_from(["a", "a.b", "a.b.c", "d", "d[0]", "d[0].é"]),
        st.sampled_from(["set", "merge", "assign", "push", "concat"]),
        st.sampled_from([1, "x" * 50, [1, 2], {"b": {"c": [1]}}, {"b": None}, None]),
        st.sampled_from([None, None, "one", "two"]),
    ),
    max_size=8,
)


@given(WRITES)
def test_a_state_is_never_larger_than_it_is_taken_for(writes: Any) -> None:
    state = Play(tool(), state={"d": [{"é": "y" * 30}]}).run.state
    for path, method, value, instance in writes:
        place = parse_output_path(f"†state.{path}").within(instance).result
        with suppress(CannotWrite):
            state.write(place, value, method)

    own = [state.data.own_value("state", name) for name in (None, *state.data.instances)]
    size_bytes = sum(json_size(one) for one in own if one is not MISSING)
    _, bounds = state.trial_write(state.data, [], None, "set")
    assert size_bytes <= bounds["state"]


def test_what_shows_in_an_instance_is_counted_there_too() -> None:
    state = Play(tool()).run.state
    state.write([place("state.a.b").within("one")], 1)
    state.write([place("state.a.c")], "x" * 1_000)

    _, bounds = state.trial_write(state.data, [], None, "set")
    assert bounds["state"] > 2_000

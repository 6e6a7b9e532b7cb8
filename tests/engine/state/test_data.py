"""State: five methods of writing, and values that never change once they were read."""

import copy
import json
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


# In a run: results are written to `_outputPath`.

FOUND = {"id": 7}


def writes(play: Play) -> list[tuple[str, str, Any, str | None]]:
    return [
        (entry["path"], entry.get("method", "set"), entry.get("value"), entry.get("callId"))
        for entry in play.records("write")
    ]


def played(path: str | None, outcome: Any = FOUND, **more: Any) -> Play:
    definition = more.pop("definition", {})
    look = tool("look", output_path=path, **more)
    return Play(
        look,
        model=[reply("", call("look")), reply("done")],
        outcomes={"look": outcome},
        definition=definition,
    ).to_end()


def test_of_two_places_one_is_for_the_result_and_one_for_the_error() -> None:
    good = played("†state.a || †state.b")
    bad = played("†state.a || †state.b", "nothing", output={"type": "object"})

    assert good.result["state"] == {"a": FOUND}
    assert bad.result["state"]["b"]["code"] == "invalid_output"
    assert "a" not in bad.result["state"]


def test_a_result_is_written_to_both_of_two_places_or_to_neither() -> None:
    play = played("†state.a && †state.a.b", "text")

    assert play.errors() == {"t1c1": "invalid_output"}
    assert play.result["state"] == {}
    assert writes(play) == []


NEEDS_BOTH = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def test_the_model_reads_that_a_call_ran_whose_result_is_not_written() -> None:
    pay = tool("pay", side_effects=True, output_path="†state.a && †state.a.b")
    for hidden, shown in ((None, '; it is "paid"'), ("none", "")):
        tools = (pay.model_copy(update={"show": hidden}),)
        turns = [reply("", call("pay")), reply("done")]
        play = Play(*tools, model=turns, outcomes={"pay": "paid"}, decisions={"t1c1": ["approve"]})
        [error] = [end["error"] for end in play.to_end().records("tool_end")]
        why = "the call was run; its result cannot be written: "
        assert error["code"] == "invalid_output"
        assert error["message"].startswith(why)
        assert error["message"].partition("†state.a.b")[2].endswith(shown)
        assert error["message"] in json.loads(play.results()["t1c1"])["error"]["message"]


def test_a_persons_answer_that_is_not_written_is_no_call_that_ran() -> None:
    pay = tool("pay", side_effects=True, output_path="†state.a && †state.a.b")
    answer = {"decision": "respond", "result": "paid"}
    turns = [reply("", call("pay")), reply("done")]
    play = Play(pay, model=turns, decisions={"t1c1": [answer]}).to_end()
    assert play.errors() == {"t1c1": "invalid_output"}
    assert "was run" not in play.results()["t1c1"]


def test_a_state_that_its_schema_demands_whole_can_be_written_piece_by_piece() -> None:
    play = Play(
        tool("one", output_path="†state.a"),
        tool("two", output_path="†state.b"),
        tool("odd", output_path="†state.c"),
        model=[reply("", call("one"), call("two"), call("odd")), reply("done")],
        outcomes={"one": 1, "two": 2, "odd": 3},
        definition={"state": NEEDS_BOTH},
    ).to_end()

    assert play.errors() == {"t1c1": None, "t1c2": None, "t1c3": "invalid_output"}
    assert play.result["state"] == {"a": 1, "b": 2}


def test_a_state_is_never_too_large_for_the_result_of_its_run() -> None:
    play = played("†state.big", "x" * MAX_STATE_BYTES)

    assert play.errors() == {"t1c1": "invalid_output"}
    assert f"at most {MAX_STATE_BYTES}" in play.results()["t1c1"]
    assert play.result["state"] == {}


@pytest.mark.parametrize("path", ["†state", "state.a", "†input.a", "†state.a || †b || †c", "", 5])
def test_an_absurd_path_that_the_model_chose_is_an_error_of_the_call(path: Any) -> None:
    free = tool("look", chosen={"_outputPath": True})
    play = Play(
        free, model=[reply("", call("look", {"_outputPath": path})), reply("done")]
    ).to_end()

    assert play.errors() == {"t1c1": "invalid_arguments"}
    assert play.results()["t1c1"].startswith('{"error": {"code": "invalid_arguments"')


def test_a_path_that_is_fixed_is_not_for_the_model_to_choose() -> None:
    play = Play(
        tool("look", output_path="†state.mine"),
        model=[reply("", call("look", {"_outputPath": "†state.other"})), reply("done")],
    ).to_end()

    assert play.result["state"] == {"mine": "ok"}


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

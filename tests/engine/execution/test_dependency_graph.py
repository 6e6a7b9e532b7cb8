"""The graph of a turn: which call waits for which, what each reads, and what can never come."""

from typing import Any

import pytest

from holdfast.schemas.names import ErrorCode
from holdfast.workflows.engine.call.outcomes import Stopped, fail
from tests.engine.driver import Play, call, reply, tool

BROKEN = fail(ErrorCode.TOOL_ERROR, "no")

STATE = {"type": "string"}


def step(name: str, **more: Any) -> Any:
    """A tool that takes anything, and whose calls may name where they write."""
    return tool(name, chosen={"_outputPath": STATE}, **more)


def turn(*calls: Any, state: Any = None, outcomes: Any = None, **more: Any) -> Play:
    """A run whose one turn makes these calls: pairs of a name and arguments."""
    names = dict.fromkeys(name for name, _ in calls)
    play = Play(
        *[step(name, **more.pop(name, {})) for name in names],
        model=[reply("", *[call(name, given) for name, given in calls]), reply("done")],
        outcomes=outcomes or {name: lambda one: {"of": one.id, **one.arguments} for name in names},
        **({"state": state} if state else {}),
        **more,
    )
    return play.to_end()


def given(play: Play) -> dict[str, Any]:
    """The arguments of each call that was executed."""
    return {
        one["callId"]: one["arguments"]
        for one in (*play.records("tool_call"), *play.records("tool_start"))
        if "arguments" in one
    }


def started(play: Play) -> list[str]:
    return [one["callId"] for one in play.records("tool_start")]


def test_a_call_waits_for_the_call_whose_output_it_refers_to_and_reads_it() -> None:
    play = turn(
        ("fetch", {"user": 7, "_outputPath": "†state.profile"}),
        ("summarise", {"text": "†state.profile", "title": "Of †{state.profile.user}"}),
        outcomes={"fetch": {"name": "Ann", "user": 7}, "summarise": "short"},
    )

    assert given(play)["t1c2"] == {"text": {"name": "Ann", "user": 7}, "title": "Of 7"}
    assert play.result["state"] == {"profile": {"name": "Ann", "user": 7}}
    assert play.event_lines()[1:8] == [
        *("tool_call t1c1", "tool_call t1c2", "tool_start t1c1", "tool_start t1c2"),
        *("tool_end t1c1", "tool_end t1c2", "turn_end"),
    ]


def test_calls_that_each_change_one_place_read_what_the_one_before_made_of_it() -> None:
    play = turn(
        *[("add", {"to": "†state.n", "_outputPath": "†state.n"})] * 3,
        state={"n": 1},
        outcomes={"add": lambda one: one.arguments["to"] + 1},
        pick=lambda count: count - 1,
    )

    assert play.result["state"] == {"n": 4}


def test_memory_is_written_in_source_order_and_read_as_the_calls_before_left_it() -> None:
    reads, writes = {"memory_use": "read"}, {"memory_use": "write"}
    play = turn(
        *[(name, {}) for name in ["read", "recall", "write", "look", "write", "read", "recall"]],
        read=reads,
        recall=reads,
        write=writes,
        outcomes=dict.fromkeys(("read", "recall", "write", "look"), BROKEN),
        pick=lambda count: count - 1,
    )

    waits = {
        one["callId"]: one["waitsFor"] for one in play.records("tool_call") if "waitsFor" in one
    }
    assert waits == {
        "t1c3": ["t1c1", "t1c2"],
        "t1c5": ["t1c3"],
        "t1c6": ["t1c5"],
        "t1c7": ["t1c5"],
    }
    assert started(play)[:5] == ["t1c1", "t1c2", "t1c4", "t1c3", "t1c5"]


@pytest.mark.parametrize("last_first", [False, True])
def test_writers_of_one_place_go_one_after_the_other_in_source_order(*, last_first: bool) -> None:
    play = turn(
        ("a", {"_outputPath": "†state.x"}),
        ("b", {"_outputPath": "†state.x"}),
        ("c", {"_outputPath": "†state.x.deep"}),
        outcomes={"a": 1, "b": {"deep": 2}, "c": 3},
        pick=(lambda count: count - 1) if last_first else (lambda count: 0),
    )

    assert started(play) == ["t1c1", "t1c2", "t1c3"]
    assert play.result["state"] == {"x": {"deep": 3}}
    assert [write["value"] for write in play.records("write")] == [1, {"deep": 2}, 3]


# What never comes.


@pytest.mark.parametrize(
    ("calls", "errors"),
    [
        pytest.param(
            [("a", {"x": "†state.b", "_outputPath": "†state.a"}),
             ("b", {"x": "†state.a", "_outputPath": "†state.b"}), ("c", {})],
            {"t1c1": "t1c1 → t1c2 → t1c1", "t1c2": "t1c2 → t1c1 → t1c2", "t1c3": None},
            id="a circle of two, and one beside it",
        ),
        pytest.param(
            [("a", {"x": "†state.b", "_outputPath": "†state.a"}),
             ("b", {"x": "†state.a", "_outputPath": "†state.b"})],
            dict.fromkeys(("t1c1", "t1c2"), "circular"),
            id="a circle of two alone",
        ),
        pytest.param(
            [("a", {"x": "†state.c", "_outputPath": "†state.a"}),
             ("b", {"x": "†state.a", "_outputPath": "†state.b"}),
             ("c", {"x": "†state.b", "_outputPath": "†state.c"}),
             ("d", {"x": "†state.c"})],
            {**dict.fromkeys(("t1c1", "t1c2", "t1c3"), "circular"), "t1c4": "there is no value at"},
            id="a circle of three, and one that waits for it",
        ),
        pytest.param(
            [("a", {"x": "†state.c", "_outputPath": "†state.a"}),
             ("b", {"x": "†state.a", "_outputPath": "†state.c"}),
             ("c", {"_outputPath": "†state.c"})],
            {"t1c1": "t1c1 → t1c2 → t1c1", "t1c2": "t1c2 → t1c1 → t1c2", "t1c3": None},
            id="a circle, and one that writes where a call of it was to write",
        ),
        pytest.param(
            [("a", {"x": "†state.p", "_outputPath": "†state.t"}),
             ("b", {"x": "†state.t", "_outputPath": "†state.s"}),
             ("c", {"_outputPath": "†state.p && †state.s"}), ("d", {})],
            {"t1c1": "t1c1 → t1c3 → t1c2 → t1c1", "t1c2": "circular", "t1c3": "circular",
             "t1c4": None},
            id="one reads what another writes, which is to write after it",
        ),
        pytest.param(
            [("a", {"x": "†state.none", "_outputPath": "†state.a"}),
             ("b", {"x": "†state.a"}), ("c", {"y": "†{state.nowhere}"})],
            {"t1c1": "there is no value at †state.none",
             "t1c2": "there is no value at †state.a (t1c1 should have written it, and did not)",
             "t1c3": "there is no value at †state.nowhere"},
            id="what no one writes, and its dependents",
        ),
        pytest.param(
            [("a", {"_outputPath": "†state.a"}), ("b", {"x": "†state.a", "y": "†state.none"})],
            {"t1c1": None, "t1c2": "there is no value at †state.none"},
            id="one of two references",
        ),
        pytest.param(
            [("a", {"_outputPath": "†state.a"}), ("b", {"x": "†state.none && †state.a"})],
            {"t1c1": None, "t1c2": "there is no value at †state.none"},
            id="all, one of which never comes",
        ),
        pytest.param(
            [("a", {"x": "†state.a", "_outputPath": "†state.a"})],
            {"t1c1": "there is no value at †state.a"},
            id="its own output",
        ),
    ],
)  # fmt: skip
def test_what_can_never_come_is_refused_before_anything_of_it_starts(
    calls: list[Any], errors: dict[str, str | None]
) -> None:
    play = turn(*calls)

    for id, error in errors.items():
        if error is None:
            assert play.errors()[id] is None
        else:
            assert play.errors()[id] == "unresolved_reference"
            assert error in play.results()[id]
    assert started(play) == [id for id, error in errors.items() if error is None]


def test_of_alternatives_the_first_that_comes_is_taken() -> None:
    play = turn(
        ("a", {"_outputPath": "†state.a"}),
        ("b", {"_outputPath": "†state.b"}),
        ("c", {"x": "†state.a || †state.b", "y": "†state.never || †state.b"}),
        outcomes={"a": BROKEN, "b": 2},
    )

    assert given(play)["t1c3"] == {"x": 2, "y": 2}


def test_no_call_uses_an_old_value_where_the_new_one_failed() -> None:
    play = turn(
        ("look", {"_outputPath": "†state.order"}),
        ("refund", {"order": "†state.order.id"}),
        ("tell", {"all": "†state"}),
        state={"order": {"id": 1}},
        outcomes={"look": BROKEN},
    )

    assert play.errors()["t1c2"] == "unresolved_reference"
    assert (
        "there is no value at †state.order.id (t1c1 should have written it"
        in play.results()["t1c2"]
    )
    assert given(play)["t1c3"] == {"all": {"order": {"id": 1}}}, "what is around it still stands"


def test_a_result_that_cannot_be_written_is_an_error_for_those_that_wait_for_it() -> None:
    play = turn(
        ("a", {"_outputPath": "†state.n"}),
        ("b", {"x": "†state.n"}),
        outcomes={"a": "no number"},
        definition={"state": {"properties": {"n": {"type": "number"}}}},
    )

    assert play.errors() == {"t1c1": "invalid_output", "t1c2": "unresolved_reference"}


# With people, and with the end of a run.


def test_people_are_asked_about_what_a_call_reads_and_not_about_what_it_refers_to() -> None:
    seen: list[Any] = []

    def approve(question: Any) -> str:
        seen.append(question.arguments)
        return "approve"

    play = turn(
        ("look", {"_outputPath": "†state.amount"}),
        ("pay", {"amount": "†state.amount"}),
        pay={"side_effects": True},
        outcomes={"look": 12},
        decisions={"t1c2": [approve]},
    )

    assert seen == [{"amount": 12}]
    assert given(play)["t1c2"] == {"amount": "†state.amount"}
    assert play.event_lines()[3:6] == [
        "tool_start t1c1",
        "confirmation_required t1c2",
        "tool_start t1c2",
    ]


def test_people_are_asked_at_once_about_calls_that_write_one_place() -> None:
    waiting: list[list[str]] = []

    def approve(_: Any) -> str:
        waiting.append([question.call_id for question in play.desk.list_open()])
        return "approve"

    play = Play(
        step("pay", side_effects=True),
        model=[reply("", *[call("pay", {"_outputPath": "†state.paid"})] * 3), reply("done")],
        decisions={f"t1c{n}": [approve] for n in (1, 2, 3)},
        pick=lambda count: count - 1,
    )
    play.to_end()

    assert waiting[0] == ["t1c1", "t1c2", "t1c3"]
    assert started(play) == ["t1c1", "t1c2", "t1c3"], "one after the other all the same"


def test_a_call_that_is_queued_when_the_run_stops_is_not_started() -> None:
    play = turn(
        ("stop", {"_outputPath": "†state.x"}),
        ("pay", {"_outputPath": "†state.x"}),
        outcomes={"stop": Stopped("enough")},
        pick=lambda count: 0,
    )

    assert play.errors()["t1c2"] == "cancelled"
    assert started(play) == ["t1c1"]


def test_a_call_refers_to_a_bounded_number_of_places() -> None:
    play = turn(("a", {"x": [f"†state.k{n}" for n in range(501)]}))

    assert "refer to more than 500 places" in play.results()["t1c1"]

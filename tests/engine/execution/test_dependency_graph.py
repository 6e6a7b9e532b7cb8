"""The graph of a turn: which call waits for which, what each reads, and what can never come."""

from typing import Any

import pytest

from tests.engine.driver import Play, call, reply, tool


def turn(*calls: tuple[str, dict[str, Any]], **tools: dict[str, Any]) -> Play:
    """A run with these calls, each a tool's name and arguments; `tools` has more of each tool."""
    names = dict.fromkeys(name for name, _ in calls)
    return Play(
        *[
            tool(name, chosen={"_outputPath": {"type": "string"}}, **tools.get(name, {}))
            for name in names
        ],
        model=[reply("", *[call(name, given) for name, given in calls]), reply("done")],
        pick=lambda count: count - 1,
    ).to_end()


def started(play: Play) -> list[str]:
    return [one["callId"] for one in play.records("tool_start")]


def test_memory_is_written_in_source_order_and_read_as_the_calls_before_left_it() -> None:
    reads, writes = {"memory_use": "read"}, {"memory_use": "write"}
    names = ["read", "recall", "write", "look", "write", "read", "recall"]
    play = turn(*[(name, {}) for name in names], read=reads, recall=reads, write=writes)

    waits = {one["callId"]: one.get("waitsFor") for one in play.records("tool_call")}
    assert {id: others for id, others in waits.items() if others} == {
        "t1c3": ["t1c1", "t1c2"],
        "t1c5": ["t1c3"],
        "t1c6": ["t1c5"],
        "t1c7": ["t1c5"],
    }
    assert started(play)[:5] == ["t1c1", "t1c2", "t1c4", "t1c3", "t1c5"]


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


# With people, and with the end of a run.


def test_a_call_refers_to_a_bounded_number_of_places() -> None:
    play = turn(("a", {"x": [f"†state.k{n}" for n in range(501)]}))

    assert "refer to more than 500 places" in play.results()["t1c1"]

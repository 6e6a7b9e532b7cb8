"""The order of a turn is fixed, whichever call ends first."""

from typing import Any

import pytest

from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.call.tool_call import Stopped
from tests.engine.driver import Play, call, says, tool

TOOLS: dict[str, dict[str, Any]] = {
    "look": {},
    "pay": {"side_effects": True},
    "slow": {"sequential": True},
}


def events_of(*names: str, last_first: bool = False, **more: Any) -> list[str]:
    """The events of the one turn with calls of these tools."""
    play = Play(
        *[tool(name, **TOOLS[name]) for name in TOOLS],
        model=[says("", *[call(name) for name in names]), says("done")],
        pick=(lambda count: count - 1) if last_first else (lambda count: 0),
        **more,
    ).to_end()
    told = play.told()
    return told[1 : told.index("turn_end")]


ORDERS: list[tuple[tuple[str, ...], str]] = [
    (("look",), "call 1, start 1, end 1"),
    (
        ("look", "look", "look"),
        "call 1, call 2, call 3, start 1, start 2, start 3, end 1, end 2, end 3",
    ),
    (("nothing", "look"), "call 1, call 2, start 2, end 1, end 2"),
    (
        ("pay", "look"),
        "call 1, call 2, ask 1, start 2, start 1, end 1, end 2",
    ),
    (
        ("look", "pay", "nothing", "pay"),
        "call 1, call 2, call 3, call 4, ask 2, ask 4, start 1, start {first}, start {second},"
        " end 1, end 2, end 3, end 4",
    ),
    (("slow",), "call 1, start 1, end 1"),
    (
        ("look", "slow", "pay"),
        "call 1, start 1, end 1, call 2, start 2, end 2, call 3, ask 3, start 3, end 3",
    ),
    (("nothing", "slow", "nothing"), "call 1, end 1, call 2, start 2, end 2, call 3, end 3"),
]
SHORT = {
    "tool_call": "call",
    "tool_start": "start",
    "tool_end": "end",
    "confirmation_required": "ask",
}


def shortened(events: list[str]) -> str:
    return ", ".join(f"{SHORT[event.split()[0]]} {event.rpartition('c')[2]}" for event in events)


@pytest.mark.parametrize(("names", "order"), ORDERS)
@pytest.mark.parametrize("last_first", [False, True])
def test_events_come_in_source_order_whichever_call_ends_first(
    names: tuple[str, ...], order: str, last_first: bool
) -> None:
    """Save the start of what waited for a person: that comes when the person decides."""
    first, second = (4, 2) if last_first else (2, 4)

    assert shortened(events_of(*names, last_first=last_first)) == order.format(
        first=first, second=second
    )


def results_of(play: Play) -> list[str]:
    return [message["callId"] for message in play.messages() if message["role"] == "tool"]


@pytest.mark.parametrize("kind", ["look", "slow"])
def test_results_come_in_source_order(kind: str) -> None:
    for pick in (0, 1, 2):
        play = Play(
            tool(kind, **TOOLS[kind]),
            model=[says("", *[call(kind)] * 4), says("done")],
            pick=lambda count, pick=pick: min(pick, count - 1),  # type: ignore[misc]  # it is called with one argument
        ).to_end()

        assert results_of(play) == ["t1c1", "t1c2", "t1c3", "t1c4"]


def test_a_call_reads_what_an_earlier_one_of_its_turn_wrote() -> None:
    def second(**more: Any) -> Any:
        play = Play(
            tool("look", output_path="†state.found", **more),
            tool("use"),
            model=[says("", call("look"), call("use", {"a": "†state.found"})), says("done")],
        ).to_end()
        return play.errors()["t1c2"], play.records("tool_call")[1]["arguments"]

    assert second(sequential=True) == (None, {"a": "ok"})
    assert second() == (None, {"a": "†state.found"})


def test_all_that_waits_in_a_concurrent_turn_is_asked_about_at_once() -> None:
    desk = PendingApprovals()
    play = Play(
        tool("pay", side_effects=True),
        model=[says("", *[call("pay")] * 3), says("done")],
        outcomes={"pay": lambda one: len(desk.list_open())},
        desk=desk,
    ).to_end()

    assert list(play.results().values()) == ["2", "1", "0"]
    assert len(play.records("confirmation_required")) == 3


def test_the_rest_of_a_sequential_turn_is_not_carried_out_when_the_run_is_to_end() -> None:
    play = Play(
        tool("slow", sequential=True),
        tool("look"),
        model=[says("", call("look"), call("slow"), call("look"))],
        outcomes={"slow": Stopped("enough")},
    ).to_end()

    assert play.errors() == {"t1c1": None, "t1c2": None, "t1c3": "cancelled"}
    assert play.result["status"] == "stopped"

"""The order of a turn is fixed, whichever call ends first."""

from typing import Any

import pytest

from tests.engine.driver import Play, call, reply, tool

TOOLS: dict[str, dict[str, Any]] = {
    "look": {},
    "pay": {"side_effects": True},
    "slow": {"sequential": True},
}


def events_of(*names: str, last_first: bool = False, **more: Any) -> list[str]:
    """The events of the one turn with calls of these tools."""
    play = Play(
        *[tool(name, **TOOLS[name]) for name in TOOLS],
        model=[reply("", *[call(name) for name in names]), reply("done")],
        pick=(lambda count: count - 1) if last_first else (lambda count: 0),
        **more,
    ).to_end()
    told = play.event_lines()
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

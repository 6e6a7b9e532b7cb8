"""How a run ends: stopped by a tool, failed, cancelled in the middle of its calls."""

from typing import Any

import pytest

from holdfast.workflows.engine.call.outcomes import Unknown
from holdfast.workflows.engine.phases import RunCalls
from tests.engine.driver import Play, call, reply, tool

TERMINATE = {"_result": {"content": "bye", "terminate": True}}


def test_the_last_text_is_the_output_of_a_run_that_stopped() -> None:
    play = Play(
        tool("big"),
        tool("stop"),
        model=[
            reply("One moment.", call("big")),
            reply("", call("big")),
            reply("", call("stop")),
        ],
        outcomes={"big": "x" * 900_000, "stop": TERMINATE},
    ).to_end()

    assert play.result["output"] == "One moment."


# Cancelled.


def cancelled_in(stage: str, **more: Any) -> Play:
    """A run with three calls that is cancelled in the middle of them."""
    play = Play(
        tool("look"),
        tool("pay", side_effects=True),
        tool("once", side_effects=True, idempotent=False, **more),
        model=[reply("", call("look"), call("pay"), call("once"))],
        decisions={"t1c3": ["approve"]},
        outcomes={"once": Unknown("it was started")},
    )
    play.take(play.next())
    step = play.next()
    assert isinstance(step, RunCalls)
    if stage != "proposed":
        play.begin(step.turn)
    if stage in ("once running", "once unsure"):
        play.advance(play.calls[2])
    if stage == "once unsure":
        play.advance(play.calls[2])
    play.run.cancel()
    return play


@pytest.mark.parametrize(
    ("stage", "once"),
    [
        ("proposed", "cancelled"),
        ("open", "cancelled"),
        ("once running", "outcome_unknown"),
        ("once unsure", "outcome_unknown"),
    ],
)
def test_every_call_gets_exactly_one_result_also_when_the_run_is_cancelled(
    stage: str, once: str
) -> None:
    play = cancelled_in(stage)

    assert play.errors() == {"t1c1": "cancelled", "t1c2": "cancelled", "t1c3": once}
    assert len(play.results()) == 3
    assert play.event_lines()[-2:] == ["turn_end", "error"]
    assert (play.failure.code, play.run.status) == ("cancelled", "cancelled")
    assert play.desk.list_open() == []

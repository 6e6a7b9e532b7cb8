"""How a run ends: stopped by a tool, failed, cancelled in the middle of its calls."""

from typing import Any

import pytest

from holdfast.schemas.names import MODEL_ERROR, ErrorCode
from holdfast.workflows.engine.call.tool_call import Unknown, fail
from holdfast.workflows.engine.execution_base import AskModel, RunCalls
from tests.engine.driver import Play, call, says, tool

TERMINATE = {"_result": {"content": "bye", "terminate": True}}


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ((TERMINATE, TERMINATE), "stopped"),
        ((TERMINATE, "ok"), "completed"),
        ((TERMINATE, fail(ErrorCode.TOOL_ERROR, "no")), "completed"),
    ],
)
def test_a_run_stops_where_every_result_asks_for_it(ends: Any, status: str) -> None:
    play = Play(
        tool(),
        model=[says("Good bye.", call("look"), call("look")), says("Still here.")],
        outcomes={"t1c1": ends[0], "t1c2": ends[1]},
    ).to_end()

    assert play.result["status"] == status
    assert play.result["output"] == ("Good bye." if status == "stopped" else "Still here.")


def test_what_was_said_last_is_the_output_of_a_run_that_stopped() -> None:
    play = Play(
        tool("big"),
        tool("stop"),
        model=[
            says("One moment.", call("big")),
            says("", call("big")),
            says("", call("stop")),
        ],
        outcomes={"big": "x" * 900_000, "stop": TERMINATE},
    ).to_end()

    assert play.result["output"] == "One moment."


def test_a_model_that_cannot_be_asked_fails_the_run() -> None:
    play = Play(model=[])
    assert isinstance(play.run.next(), AskModel)
    play.run.fail(MODEL_ERROR, "401: no such key")

    assert (play.failure.code, play.failure.message) == ("model_error", "401: no such key")
    assert play.event_lines() == ["turn_start", "error"]
    assert play.run.status == "failed"


# Cancelled.


def cancelled_in(stage: str, **more: Any) -> Play:
    """A run with three calls that is cancelled in the middle of them."""
    play = Play(
        tool("look"),
        tool("pay", side_effects=True),
        tool("once", side_effects=True, idempotent=False, **more),
        model=[says("", call("look"), call("pay"), call("once"))],
        decisions={"t1c3": ["approve"]},
        outcomes={"once": Unknown("it was begun")},
    )
    play.take(play.run.next())
    step = play.run.next()
    assert isinstance(step, RunCalls)
    if stage != "proposed":
        play.decided(play.run.calls.check_and_start(step.turn, step.turn.calls))
    if stage in ("once running", "once unsure"):
        play.advance_call(step.turn, step.turn.calls[2])
    if stage == "once unsure":
        play.advance_call(step.turn, step.turn.calls[2])
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

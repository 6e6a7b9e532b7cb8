"""How a run ends: stopped by a tool, failed, cancelled in the middle of its calls."""

from typing import Any

import pytest

from holdfast.schemas.internal.solution import WrittenCall
from holdfast.schemas.names import MODEL_ERROR, ErrorCode
from holdfast.workflows.engine.call.tool_call import Stopped, Unknown, fail
from holdfast.workflows.engine.execution_base import AskModel, RunCalls
from tests.engine.driver import Play, call, says, tool

TERMINATE = {"_result": {"content": "bye", "terminate": True}}


def test_an_activity_that_raises_stop_run_ends_the_run() -> None:
    play = Play(
        tool("look"),
        tool("stop"),
        model=[says("", call("look"), call("stop"), call("look"))],
        outcomes={"stop": Stopped("the shop is closed")},
    ).to_end()

    assert (play.result["status"], play.result["output"]) == ("stopped", "the shop is closed")
    assert len(play.results()) == 3
    assert play.results()["t1c2"] == "The run was stopped: the shop is closed"


def test_an_activity_that_stops_a_run_leaves_nobody_waiting() -> None:
    play = Play(
        tool("stop"),
        tool("pay", side_effects=True),
        model=[says("", call("pay"), call("stop"))],
        outcomes={"stop": Stopped("closed")},
        pick=lambda count: count - 1,
    ).to_end()

    assert play.result["status"] == "stopped"
    assert play.errors() == {"t1c1": "cancelled", "t1c2": None}
    assert play.desk.list_open() == []


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


@pytest.mark.parametrize("other", [call("nothing"), call("pay")])
def test_one_call_refused_before_it_was_carried_out_keeps_the_run_going(other: WrittenCall) -> None:
    play = Play(
        tool("look"),
        tool("pay", side_effects=True),
        model=[says("", call("look"), other), says("Still here.")],
        outcomes={"look": TERMINATE},
        decisions={"t1c2": ["deny"]},
    ).to_end()

    assert play.result["status"] == "completed"


def test_a_result_that_cannot_be_written_does_not_end_the_run() -> None:
    play = Play(
        tool("look", output_path="†state.a[7]"),
        model=[says("", call("look")), says("Still here.")],
        outcomes={"look": TERMINATE},
    ).to_end()

    assert play.errors() == {"t1c1": "invalid_output"}
    assert play.result["status"] == "completed"


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
    assert play.told() == ["turn_start", "error"]
    assert play.run.status == "failed"


def test_the_last_event_is_the_end_and_there_is_one() -> None:
    for play in (Play(model=[says("x")]).to_end(), Play(tool(), model=[says("")] * 9).to_end()):
        ends = [event for event in play.events() if event["type"] in ("done", "error")]
        assert ends == play.events()[-1:]


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
        play.see_on(step.turn, step.turn.calls[2])
    if stage == "once unsure":
        play.see_on(step.turn, step.turn.calls[2])
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
    assert play.told()[-2:] == ["turn_end", "error"]
    assert (play.failure.code, play.run.status) == ("cancelled", "cancelled")
    assert play.desk.list_open() == []


def test_a_run_that_is_over_is_not_cancelled_any_more() -> None:
    play = Play(model=[says("x")]).to_end()
    length = len(play.log)
    play.run.cancel()

    assert play.run.status == "completed"
    assert len(play.log) == length


def test_a_run_can_be_cancelled_while_the_model_answers_and_while_it_asks_for_more() -> None:
    asking = Play(model=[])
    asking.run.next()
    asking.run.cancel()
    assert asking.told() == ["turn_start", "error"]

    more = Play(
        tool(),
        model=[says("", call("look"))],
        budget={"maxTurns": 1},
        definition={"on_limit": {"maxTurns": "ask"}},
    )
    while not more.desk.list_open():
        more.take(more.run.next())
        more.run.next()
    assert more.run.status == "awaiting_approval"
    more.run.cancel()
    assert (more.desk.list_open(), more.run.status) == ([], "cancelled")

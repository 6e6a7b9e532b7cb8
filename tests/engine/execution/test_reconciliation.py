"""Reconcile: a call that may run once and has an unknown outcome requires a decision."""

from typing import Any

import pytest

from holdfast.schemas.tool import ApprovalPolicy
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.call.tool_call import Unknown
from holdfast.workflows.engine.execution_base import RunCalls
from tests.engine.asking import (
    DIGEST,
    approve,
    asks,
    decides,
    early,
    edit,
    open_question,
    refusal,
)
from tests.engine.driver import Play, call, reply, tool

LOST = Unknown("the outcome of `pay` is unknown: it did not finish in time")
ONCE: dict[str, Any] = {"of": {"idempotent": False}}


def lost(*decisions: Any, ends: Any = (LOST, {"paid": 5}), **more: Any) -> Play:
    outcomes = {"pay": ends}
    return asks("approve", *decisions, outcomes=outcomes, **ONCE, **more)


def reconciling(play: Play) -> Any:
    """Take a run to where it asks what became of the call."""
    open_question(play)
    decides(play, approve())
    step = play.run.next()
    assert isinstance(step, RunCalls)
    for _ in ("approved", "lost"):
        play.advance_call(step.turn, step.turn.calls[0])
    return play.desk.list_open()[0]


def test_a_call_whose_end_is_unknown_is_asked_about() -> None:
    waiting = reconciling(lost()).to_pending_approval()

    assert (waiting.kind, waiting.call_id) == ("reconcile", "t1c1")
    assert "the outcome of `pay` is unknown" in waiting.question
    assert "`did_not_happen` runs it again" in waiting.question
    assert waiting.digest != DIGEST


@pytest.mark.parametrize(
    "decision", [{"decision": "happened", "result": 1}, {"decision": "respond", "result": 1}]
)
def test_a_call_that_happened_has_the_result_that_a_person_gives(decision: Any) -> None:
    play = lost(decision).to_end()

    assert play.results() == {"t1c1": "1"}
    assert play.event_lines().count("tool_start t1c1") == 1


def test_a_call_that_did_not_happen_is_executed_again() -> None:
    play = lost("did_not_happen").to_end()

    assert play.results() == {"t1c1": '{"paid": 5}'}
    assert play.event_lines().count("tool_start t1c1") == 2


@pytest.mark.parametrize("decision", ["give_up", "deny", "expire"])
def test_a_call_that_is_given_up_is_unknown_to_the_model(decision: str) -> None:
    play = lost(decision).to_end()

    assert play.errors() == {"t1c1": "outcome_unknown"}
    assert play.event_lines().count("tool_start t1c1") == 1


def reset(play: Play) -> Play:
    """The run continues from its beginning, though it had been further."""
    play.run.state.was_reset = True
    return play.to_end()


def test_in_a_reset_run_a_call_is_reconciled_before_it_is_executed() -> None:
    play = reset(asks("approve", {"decision": "happened", "result": 1}, **ONCE))
    assert play.results() == {"t1c1": "1"}

    play = reset(asks("approve", "did_not_happen", **ONCE))
    assert play.results() == {"t1c1": '{"paid": 5}'}


def test_a_delegate_may_have_acted_before_the_run_was_reset() -> None:
    helper = tool("helper", delegate="helper")
    given_up = {"t1c1": ["give_up"]}
    play = reset(Play(helper, model=[reply("", call("helper")), reply("ok")], decisions=given_up))
    assert play.errors() == {"t1c1": "outcome_unknown"}


def test_a_late_or_repeated_approval_never_repeats_a_call() -> None:
    play = lost()
    reconciling(play)

    assert "may have happened" in refusal(play, approve())[1]
    assert "read it again" in refusal(play, approve(digest=DIGEST))[1]
    assert "cannot be edited" in refusal(play, edit(3))[1]


def test_an_early_approval_of_a_call_that_was_never_asked_about_never_repeats_it() -> None:
    desk = PendingApprovals()
    early(desk, decision="approve")
    early(desk, decision="approve", digest=DIGEST)
    play = asks(
        "give_up", policy={"require": "never"}, outcomes={"pay": LOST}, desk=desk, **ONCE
    ).to_end()

    assert play.event_lines().count("tool_start t1c1") == 1
    assert play.errors() == {"t1c1": "outcome_unknown"}


def test_a_run_that_must_never_wait_does_not_ask_and_does_not_repeat() -> None:
    pay = tool("pay", side_effects=True, idempotent=False, approval=ApprovalPolicy(require="never"))
    play = Play(
        pay,
        model=[reply("", call("pay")), reply("done")],
        outcomes={"pay": LOST},
        approvals="deny",
    ).to_end()

    assert play.errors() == {"t1c1": "outcome_unknown"}


@pytest.mark.parametrize("verdict", ["happened", "did_not_happen", "give_up"])
def test_what_is_for_unknown_outcomes_is_refused_elsewhere(verdict: str) -> None:
    play = asks()
    open_question(play)

    assert refusal(play, {"decision": verdict, "result": 1})[1] == (
        f"`{verdict}` is for calls whose outcome is unknown"
    )

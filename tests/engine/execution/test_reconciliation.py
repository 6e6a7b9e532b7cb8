"""Reconcile: a call that may run once and has an unknown outcome requires a decision."""

from datetime import datetime
from typing import Any

import pytest

from holdfast.runtime.narration.question_view import QuestionView
from holdfast.schemas.tool import ApprovalPolicy
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.call.outcomes import Unknown
from holdfast.workflows.engine.phases import RunCalls
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
from tests.engine.driver import Play, call, reply, run_again, tool

LOST = Unknown("the outcome of `pay` is unknown: it did not finish in time")
ONCE: dict[str, Any] = {"of": {"idempotent": False}}


def lost(*decisions: Any, ends: Any = (LOST, {"paid": 5}), **more: Any) -> Play:
    outcomes = {"pay": ends}
    return asks("approve", *decisions, outcomes=outcomes, **ONCE, **more)


def reconciling(play: Play) -> Any:
    """Take a run to where it asks what became of the call."""
    open_question(play)
    decides(play, approve())
    step = play.next()
    assert isinstance(step, RunCalls)
    play.begin(step.turn)
    for _ in ("approved", "lost"):
        play.advance(play.calls[0])
    return play.desk.list_open()[0]


def test_a_call_whose_end_is_unknown_is_asked_about() -> None:
    waiting = reconciling(lost()).to_pending_approval()

    assert (waiting.kind, waiting.call_id) == ("reconcile", "t1c1")
    assert "the outcome of `pay` is unknown" in waiting.question
    assert "`did_not_happen` runs it again" in waiting.question
    assert waiting.digest != DIGEST


def test_a_reason_does_not_move_the_terminal_of_its_reader() -> None:
    posing = Unknown("the outcome of `pay` is unknown: it\x1b[2J\u202e failed")
    question = reconciling(lost(ends=(posing, {"paid": 5}))).to_pending_approval().question
    assert question.startswith("the outcome of `pay` is unknown: it failed. ")


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


def test_each_attempt_is_shown_with_its_time_and_asked_about_with_another_digest_and_nonce() -> (
    None
):
    shown: list[Any] = []

    def again(question: Any) -> Any:
        shown.append(question.to_pending_approval("execution"))
        return run_again(question) if len(shown) < 3 else "give_up"

    lost(again, again, again, ends=(LOST, LOST, LOST)).to_end()

    starts = [[datetime.fromisoformat(at) for at in one.attempts] for one in shown]
    assert [len(each) for each in starts] == [1, 2, 3]
    assert starts[1] == starts[2][:2]
    assert QuestionView.of(shown[2]).heading.startswith("Attempt 3, outcome unknown: Payment")
    assert len({(one.digest, one.nonce) for one in shown}) == 3


@pytest.mark.parametrize("bound", [{}, {"digest": DIGEST}, {"nonce": "n"}])
@pytest.mark.parametrize("verdict", ["approve", "did_not_happen"])
def test_without_digest_and_nonce_no_call_runs_again(verdict: str, bound: Any) -> None:
    play = lost()
    question = reconciling(play)
    bound = {name: question.digest if name == "digest" else text for name, text in bound.items()}

    code, why = refusal(play, {"decision": verdict, "reason": "it did not", **bound})
    assert code == "invalid_decision"
    for word in ("attempt 1", "`did_not_happen`", "`digest`", "`nonce`", "`happened`", "`give_up`"):
        assert word in why


def test_a_decision_with_a_nonce_never_comes_before_its_question() -> None:
    assert not early(PendingApprovals(), decision="did_not_happen", digest=DIGEST, nonce="n")


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

"""Decisions that come early, late or never, and those that are remembered."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.schemas.base import parse_duration
from holdfast.schemas.decision import Decision
from holdfast.schemas.tool import ApprovalPolicy
from holdfast.workflows.engine.approvals.pending import MAX_EARLY_DECISIONS, PendingApprovals
from holdfast.workflows.engine.approvals.question import (
    MAX_REMINDERS,
    Approved,
    Expired,
    Question,
)
from tests.engine.asking import (
    ANN,
    BOB,
    approve,
    asks,
    decides,
    deny,
    early,
    edit,
    open_question,
    refusal,
)
from tests.engine.driver import NOON, Play, call, reply, tool


def test_of_several_early_decisions_the_first_that_decides_counts() -> None:
    desk = PendingApprovals()
    for decision in ({"decision": "approve", "digest": "0"}, {"decision": "deny"}, approve()):
        early(desk, **decision)
    play = asks(desk=desk).to_end()

    assert play.errors() == {"t1c1": "denied"}
    assert ["ignored" in entry for entry in play.records("decision")] == [True, False, True]


def test_so_many_early_decisions_are_kept() -> None:
    desk = PendingApprovals()
    kept = [early(desk, callId=f"t9c{n}", decision="approve") for n in range(300)]

    assert kept == [True] * MAX_EARLY_DECISIONS + [False] * (300 - MAX_EARLY_DECISIONS)


def test_a_decision_on_a_pending_or_decided_call_is_not_kept() -> None:
    play = asks()
    open_question(play)
    assert not early(play.desk, decision="approve")

    decides(play, approve())
    assert not early(play.desk, decision="approve")


def test_a_remembered_approval_is_for_every_further_call_of_the_tool() -> None:
    play = asks(approve(remember=True), turns=3).to_end()

    assert len(play.records("confirmation_required")) == 1
    assert list(play.errors().values()) == [None] * 3


@pytest.mark.parametrize(
    "decision", [deny(remember=True), {"decision": "respond", "result": 1, "remember": True}]
)
def test_only_an_approval_is_remembered(decision: dict[str, Any]) -> None:
    play = asks(decision, turns=2).to_end()

    assert play.refusals == [
        "invalid_decision: `remember` goes with `approve` or `edit`, not with"
        f" `{decision['decision']}`"
    ]
    assert len(play.records("confirmation_required")) == 2


def test_a_tool_is_remembered_where_all_approvers_request_it() -> None:
    one = asks(
        approve(remember=True, **ANN), approve(**BOB), policy={"quorum": 2}, turns=1
    ).to_end()
    assert "pay" not in one.desk.remembered

    both = asks(
        approve(**ANN),
        edit(3, remember=True, **BOB),
        lambda now: approve(remember=True, digest=now.digest, **ANN),
        policy={"quorum": 2},
    ).to_end()
    assert "pay" in both.desk.remembered, "what ann thought of the first amount is not asked"


# In time.


@pytest.mark.parametrize(
    ("on_timeout", "code"),
    [(None, "approval_timeout"), ("deny", "approval_timeout"), ("approve", None)],
)
def test_without_a_decision_in_time_the_policy_decides(on_timeout: Any, code: str | None) -> None:
    play = asks("expire", policy={"onTimeout": on_timeout}).to_end()

    assert play.errors() == {"t1c1": code}
    assert play.records("decision")[0]["outcome"] == "expired"
    assert play.run.status == "completed"


@pytest.mark.parametrize("on_timeout", ["deny", "fail", "approve"])
def test_the_outcome_of_an_expiry_is_part_of_the_question_if_it_is_no_denial(
    on_timeout: Any,
) -> None:
    question = open_question(asks(policy={"onTimeout": on_timeout}))
    told = question.to_pending_approval().to_json()
    said = {name: value for name, value in told.items() if name == "onTimeout"}
    assert said == ({} if on_timeout == "deny" else {"onTimeout": on_timeout})


def test_a_policy_that_fails_ends_the_run_and_every_call_has_its_result() -> None:
    play = Play(
        tool("pay", side_effects=True, approval=ApprovalPolicy(on_timeout="fail")),
        tool("mail", side_effects=True),
        tool("look"),
        model=[reply("", call("pay"), call("mail"), call("look"))],
        decisions={"t1c1": ["expire"]},
    ).to_end()

    assert (play.failure.code, play.failure.message) == (
        "approval_timeout",
        "the approval of `pay` expired",
    )
    assert play.errors() == {"t1c1": "approval_timeout", "t1c2": "cancelled", "t1c3": None}


def test_people_are_reminded_until_the_first_decision_or_the_end_of_the_time() -> None:
    play = asks(policy={"remind": "4h", "timeout": "10h", "quorum": 2})
    question = open_question(play)

    assert alarms(play, question, until=5) == [4]
    decides(play, approve(**ANN))
    assert alarms(play, question) == [10], "a person has answered: only the end is waited for"
    assert question.ruling == Expired()

    asked = play.records("confirmation_required")
    assert [entry.get("reminder", 0) for entry in asked] == [0, 1]


def test_a_reminder_never_comes_after_the_end() -> None:
    play = asks(policy={"remind": "4h", "timeout": "6h"})
    assert alarms(play, open_question(play)) == [4, 6]


def test_the_reminders_that_no_worker_sent_in_time_are_one() -> None:
    play = asks(policy={"remind": "1h", "timeout": "10h"})
    question = open_question(play)
    play.run.questions.end_or_remind(question, NOON + timedelta(hours=5.5))

    assert [entry.get("reminder", 0) for entry in play.records("confirmation_required")] == [0, 1]
    assert alarms(play, question) == [6, 7, 8, 9, 10]


def test_people_are_reminded_only_so_often() -> None:
    question = open_question(asks(policy={"remind": "1s", "timeout": "7d"}))
    question.reminders = MAX_REMINDERS

    assert question.next_alarm(NOON) == parse_duration("7d")


def alarms(play: Play, question: Question, until: float = 100) -> list[float]:
    """Let the time pass to the end, or until so many hours; return the hours of the alarms."""
    hours, now = list[float](), NOON
    while question.ruling is None and (now := now + question.next_alarm(now)) < NOON + timedelta(
        hours=until
    ):
        hours.append((now - NOON) / timedelta(hours=1))
        play.run.questions.forward(question, now)
        play.run.questions.end_or_remind(question, now)
    return hours


FORWARD = [{"after": "3h", "to": ["legal", "ops"]}, {"after": "8h", "to": ["board"]}]
POLICY = {"approvers": ["ops"], "forward": FORWARD, "remind": "4h", "timeout": "9h", "quorum": 2}


def test_after_its_time_further_groups_may_decide_and_no_reminder_is_late() -> None:
    play = asks(policy=POLICY)
    question, digest = open_question(play), open_question(play).digest

    assert alarms(play, question) == [3, 4, 8, 9]
    rung = play.records("confirmation_required")[1:]
    assert [(each["reminder"], each.get("forwarded", [])) for each in rung] == [
        (1, ["legal"]),
        (2, []),
        (3, ["board"]),
        (4, []),
    ]
    assert rung[0]["approval"]["approvers"] == ["ops", "legal"]
    assert question.to_pending_approval().approvers == ["ops", "legal", "board"]
    assert question.digest == digest


def test_some_of_the_decisions_that_it_takes_hold_no_forward_up() -> None:
    play = asks(policy=POLICY)
    question = open_question(play)
    member = approve(**ANN, groups=["legal"])
    decides(play, approve(by="bob", groups=["ops"]))
    unfit = "only these groups decide on this call: ops"
    assert refusal(play, member) == ("invalid_decision", unfit)
    play.run.questions.forward(question, NOON + timedelta(hours=3))
    alone = "it was forwarded to you alone: leave `remember` out"
    assert refusal(play, {**member, "remember": True}) == ("invalid_decision", alone)
    decides(play, member)
    assert question.ruling is not None


def test_a_forward_does_not_restrict_an_unrestricted_call() -> None:
    question = open_question(asks(policy={"forward": FORWARD, "timeout": "9h"}))
    assert question.next_alarm(NOON) == timedelta(hours=9)


def test_what_is_due_is_applied_before_a_decision_and_a_check_changes_nothing() -> None:
    play = asks(policy={**POLICY, "quorum": 1})
    question, at = open_question(play), NOON + timedelta(hours=3)
    decision = Decision.model_validate({"callId": "t1c1", **approve(**ANN, groups=["legal"])})
    before = len(play.log)

    play.desk.check(decision, at, play.run.state.limits)
    assert (question.forwards, len(play.log)) == (0, before)
    play.run.questions.count(decision, at)
    assert question.ruling == Approved({"amount": 5})
    assert len(play.log) == before + 2


def test_an_early_decision_is_kept_until_the_forward_that_entitles_its_group() -> None:
    desk = PendingApprovals()
    early(desk, **approve(**ANN, groups=["board"]))
    early(desk, **approve(**BOB, groups=["press"]))
    play = asks(policy={**POLICY, "quorum": 1}, desk=desk)
    question = open_question(play)

    assert alarms(play, question) == [3, 4, 8]
    assert question.ruling == Approved({"amount": 5})
    assert [entry.get("ignored") for entry in play.records("decision")] == [
        "only these groups decide on this call: ops",
        None,
    ]


@pytest.mark.parametrize(("hours", "counts"), [(8.9, True), (9, False)])
def test_a_decision_counts_only_before_the_end(hours: float, counts: bool) -> None:
    play = asks(policy={"timeout": "9h"})
    open_question(play)
    decision = Decision.model_validate({"callId": "t1c1", **approve()})
    play.run.questions.count_or_log(decision, NOON + timedelta(hours=hours))

    [entry] = play.records("decision")
    assert ("ignored" not in entry) == counts
    assert bool(play.desk.list_open()) != counts


def test_a_remembered_approval_is_not_for_a_call_that_had_expired() -> None:
    play = Play(
        tool("pay", side_effects=True, approval=ApprovalPolicy(timeout=timedelta(hours=9))),
        model=[reply("", call("pay"), call("pay"))],
    )
    open_question(play)
    first, second = play.desk.list_open()
    second.requested_at -= timedelta(hours=1)
    decision = {"callId": first.call_id, **approve(remember=True)}
    play.run.questions.count(Decision.model_validate(decision), NOON + timedelta(hours=8))

    assert play.desk.list_open() == [second]

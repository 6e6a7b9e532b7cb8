"""Decisions that come early or late, and when people are reminded."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.schemas.base import parse_duration
from holdfast.schemas.decision import Decision
from holdfast.schemas.tool import ApprovalPolicy
from holdfast.workflows.engine.approvals.pending import MAX_EARLY_DECISIONS, PendingApprovals
from holdfast.workflows.engine.approvals.question import MAX_REMINDERS, Question
from holdfast.workflows.engine.approvals.rulings import Approved
from tests.engine.asking import ANN, DIGEST, approve, asks, decides, early, open_question
from tests.engine.driver import NOON, Play, call, reply, tool


def test_so_many_early_decisions_are_kept() -> None:
    desk = PendingApprovals()
    kept = [early(desk, callId=f"t9c{n}", decision="approve") for n in range(300)]

    assert kept == [True] * MAX_EARLY_DECISIONS + [False] * (300 - MAX_EARLY_DECISIONS)


def test_no_flood_of_early_decisions_drives_a_denial_out() -> None:
    desk = PendingApprovals()
    for call_id in ("t1c1", *(f"t{n}c1" for n in range(2, MAX_EARLY_DECISIONS + 10))):
        early(desk, callId=call_id, decision="deny" if call_id == "t1c1" else "approve")
    early(desk, decision="approve")

    assert asks(desk=desk).to_end().errors() == {"t1c1": "denied"}


def test_an_early_decision_is_not_counted_before_its_token_was_checked() -> None:
    desk = PendingApprovals()
    early(desk, decision="approve", token="…")
    early(desk, decision="approve", by="ann", digest=DIGEST)
    play = asks(policy={"signed": True}, desk=desk)
    question = open_question(play)

    [ignored] = play.records("decision")
    assert ignored["ignored"].startswith("this call accepts only signed decisions")
    [unchecked] = desk.take_early(question, have_tokens=True)
    assert unchecked.token == "…"
    assert desk.take_early(question, have_tokens=True) == []


def alarms(play: Play, question: Question) -> list[float]:
    """Let the time pass to the end; return the hours of the alarms."""
    hours, now = list[float](), NOON
    while question.ruling is None:
        now += question.next_alarm(now)
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


@pytest.mark.parametrize(
    ("policy", "hours"),
    [
        ({"remind": "4h", "timeout": "6h"}, [4, 6]),
        ({"remind": "4h", "timeout": "8h"}, [4, 8]),
        # A call without groups is not forwarded: that would restrict it.
        ({"forward": FORWARD, "timeout": "9h"}, [9]),
    ],
)
def test_no_alarm_comes_after_the_end(policy: dict[str, Any], hours: list[float]) -> None:
    play = asks(policy=policy)
    assert alarms(play, open_question(play)) == hours


def test_a_person_who_has_answered_is_not_reminded() -> None:
    play = asks(policy={"remind": "4h", "timeout": "10h", "quorum": 2})
    question = open_question(play)
    decides(play, approve(**ANN))
    assert alarms(play, question) == [10]


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

"""§7, §13: what people receive of a question, how often, and in which channels."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.schemas.base import json_size
from holdfast.schemas.decision import Decision
from holdfast.schemas.settings.notify import Listener, News, NewsKind
from holdfast.schemas.tool import ApprovalRule
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.approvals.notifications import (
    MAX_GROUPS_TOLD,
    MAX_ROWS,
    NewsEvent,
    NewsTracker,
    QuestionOrigin,
    build_news,
    is_for_listener,
    shown_rows,
)
from holdfast.workflows.engine.approvals.question import Question
from tests.engine.asking import ANN, BOB, approve, asks, decides, deny, edit, open_question
from tests.engine.driver import NOON, Play

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ORIGIN = QuestionOrigin("order/7", "first-history", "desk", "ada")
ALL: list[NewsKind] = ["asked", "reminder", "expired", "decided"]


def kinds(followed: NewsTracker, play: Play) -> list[NewsEvent | None]:
    """The news of now."""
    return [kind for _, kind in followed.take_news(play.desk.list_open())]


def listener(**more: Any) -> Listener:
    return Listener(name="desk", **{"on": ALL, **more})


def news_of(question: Question, kind: NewsKind = "asked", origin: QuestionOrigin = ORIGIN) -> News:
    return build_news(question, kind, origin, NOW)


def test_a_question_is_sent_once_and_again_with_each_reminder() -> None:
    play, followed = asks(policy={"remind": "1h"}), NewsTracker()
    question = open_question(play)
    assert kinds(followed, play) == ["asked"]
    assert kinds(followed, play) == []
    question.reminders += 1
    assert kinds(followed, play) == ["reminder"]
    assert kinds(followed, play) == []


def test_people_are_notified_of_a_decision() -> None:
    play, followed = asks(policy={"quorum": 2}), NewsTracker()
    question = open_question(play)
    kinds(followed, play)
    decides(play, approve(**ANN))
    assert kinds(followed, play) == []  # one of two: it still waits
    decides(play, deny(reason="too much", **BOB))
    assert kinds(followed, play) == ["decided"]
    assert kinds(followed, play) == []
    decided = news_of(question, "decided").decided
    assert decided is not None
    assert (decided.by, decided.decision, decided.reason) == ("bob", "deny", "too much")


def test_people_are_notified_that_a_call_expired_and_of_its_outcome() -> None:
    play, followed = asks(policy={"onTimeout": "fail"}), NewsTracker()
    question = open_question(play)
    kinds(followed, play)
    play.desk.expire(question)
    assert kinds(followed, play) == ["expired"]
    assert news_of(question, "expired").lapse == "fail"
    assert news_of(question, "expired").decided is None


def test_a_decision_before_the_first_notification_is_not_sent() -> None:
    play, followed = asks(), NewsTracker()
    open_question(play)
    decides(play, approve())
    assert kinds(followed, play) == []


def test_a_further_question_under_the_same_id_is_another() -> None:
    play, followed = asks(), NewsTracker()
    first = open_question(play)
    kinds(followed, play)
    play.desk.expire(first)
    others: list[dict[str, Any]] = [
        {"round": 2},
        {"kind": "reconcile"},
        {"requested_at": first.requested_at + timedelta(hours=1)},
    ]
    again = [Question(**{**vars(first), "ruling": None, **other}) for other in others]
    play.desk.add(again[0])
    assert kinds(followed, play) == ["expired", "asked"]
    assert len({news_of(question).about for question in [first, *again]}) == 4


@pytest.mark.parametrize(
    ("groups", "approvers", "is_sent"),
    [
        ([], [], True),
        ([], ["finance"], True),
        (["finance"], [], True),
        (["finance", "legal"], ["board", "legal"], True),
        (["finance"], ["legal"], False),
    ],
)
def test_a_channel_receives_what_its_groups_decide_on(
    groups: list[str], approvers: list[str], is_sent: bool
) -> None:
    question = open_question(asks(policy={"approvers": approvers}))
    assert is_for_listener(listener(groups=groups), "asked", question) is is_sent


@pytest.mark.parametrize(
    ("more", "is_sent"),
    [
        ({}, False),  # it had the question before
        ({"groups": ["legal"]}, True),
        ({"groups": ["legal"], "on": ["reminder"]}, False),
        ({"groups": ["legal", "finance"]}, False),
        ({"groups": ["board"], "to_groups": ["legal"]}, False),
        ({"to_groups": ["finance"]}, False),
        ({"to_groups": ["legal"]}, True),
    ],
)
def test_a_forward_is_sent_to_the_new_approvers(more: dict[str, Any], is_sent: bool) -> None:
    forward = [{"after": "1h", "to": ["legal"]}]
    play, followed = asks(policy={"approvers": ["finance"], "forward": forward}), NewsTracker()
    question = open_question(play)
    kinds(followed, play)
    play.run.questions.forward(question, NOON + timedelta(hours=1))
    assert kinds(followed, play) == ["forwarded"]
    assert is_for_listener(listener(**more), "forwarded", question) is is_sent
    news = build_news(question, "forwarded", ORIGIN, NOW)
    assert (news.kind, news.forwarded) == ("asked", ["legal"])
    assert news.id != news_of(question).id


def test_forwards_that_come_due_together_are_sent_to_the_groups_of_each() -> None:
    """As after an outage."""
    forward = [{"after": "4h", "to": ["legal"]}, {"after": "8h", "to": ["board"]}]
    play, followed = asks(policy={"approvers": ["finance"], "forward": forward}), NewsTracker()
    question = open_question(play)
    kinds(followed, play)
    play.run.questions.forward(question, NOON + timedelta(hours=9))
    assert kinds(followed, play) == ["forwarded"]
    assert build_news(question, "forwarded", ORIGIN, NOW).forwarded == ["legal", "board"]
    told = {
        group: is_for_listener(listener(groups=[group]), "forwarded", question)
        for group in ("finance", "legal", "board")
    }
    assert told == {"finance": False, "legal": True, "board": True}
    logged = [entry.get("forwarded", []) for entry in play.records("confirmation_required")]
    assert logged == [[], ["legal"], ["board"]]


def test_a_channel_receives_the_events_that_it_is_for() -> None:
    question = open_question(asks())
    only = listener(on=["reminder"])
    assert [kind for kind in ALL if is_for_listener(only, kind, question)] == ["reminder"]


def test_news_has_its_id_by_its_position() -> None:
    play = asks(policy={"remind": "1h"})
    question = open_question(play)
    asked = news_of(question)
    assert news_of(question) == asked
    question.reminders += 1
    first = news_of(question, "reminder")
    question.reminders += 1
    ids = [asked.id, first.id, news_of(question, "reminder").id, news_of(question, "expired").id]
    assert len(set(ids)) == 4
    assert not any("." in each or len(each) > 100 for each in ids)
    assert first.about == asked.about
    started_again = QuestionOrigin("order/7", "second-history", "desk", "ada")
    assert news_of(question, origin=started_again).id != asked.id


def test_news_names_its_run_and_the_pending_approval() -> None:
    news = news_of(open_question(asks()))
    assert (news.workflow_id, news.agent, news.principal) == ("order/7", "desk", "ada")
    assert (news.kind, news.at, news.lapse) == ("asked", "2026-01-02T03:04:05.000Z", "deny")
    assert news.waiting.arguments == {"amount": 5}
    assert News.read(news.to_json()) == news


def test_channels_of_the_whole_content_have_arguments_as_the_inbox_shows_them() -> None:
    question = open_question(asks())
    money = {"type": "integer", "format": "money", "currency": "EUR", "minorUnits": True}
    question.parameters = {"properties": {"amount": {"title": "Refund", **money}}}
    question.arguments = {"amount": 1250, "order_id": "7"}
    assert shown_rows(question) == [
        ("Refund", "€12.50"),
        ("order_id", '"7"'),
    ]
    question.arguments = {f"a{n}": "x" * 1_000 for n in range(100)}
    assert len(shown_rows(question)) == MAX_ROWS
    assert json_size(shown_rows(question)) < 20_000


def test_channels_of_the_whole_content_have_a_row_for_each_call_of_a_plan() -> None:
    question = open_question(asks())
    question.kind, question.parameters = "plan", None
    calls = [
        {"id": "t1c1", "tool": "find", "arguments": {"order_id": "7"}},
        {"id": "t1c2", "tool": "pay", "arguments": {"amount": 1250, "order_id": "†state.order"}},
    ]
    question.arguments = {"calls": calls}
    assert shown_rows(question) == [
        ("t1c1 find", 'Order "7"'),
        ("t1c2 pay", "Amount 1250 · Order †state.order"),
    ]
    question.arguments = {"calls": [{**calls[0], "id": f"t1c{n}"} for n in range(100)]}
    assert len(shown_rows(question)) == MAX_ROWS


def test_news_of_something_large_is_small() -> None:
    large = "x" * 100_000
    question = open_question(asks())
    question.arguments = {"text": large, "list": [large] * 10, "amount": 5}
    question.reasoning = question.text = question.label = large
    question.policy = question.policy.model_copy(update={"approvers": [large] * 100})
    for number in range(50):
        question.count(_deny(large, f"ann {number}"), NOW, ValidationLimits())
    news = news_of(question, "decided")
    assert json_size(news.to_json()) < 45_000
    assert len(news.waiting.approvers) == MAX_GROUPS_TOLD
    assert [one.by for one in news.waiting.decisions] == [f"ann {n}" for n in range(45, 50)]
    assert news.waiting.arguments["amount"] == 5
    question.arguments = {large: 1}
    assert news_of(question).waiting.arguments == {}


def test_news_has_every_group_that_decides_as_it_is_named() -> None:
    groups = [*(f"group {n}" for n in range(100)), "x" * 1_000]
    question = open_question(asks(policy={"approvers": groups}))
    assert news_of(question).waiting.approvers == groups


def _deny(reason: str, by: str) -> Any:
    return Decision.model_construct(
        call_id="t1c1", decision="deny", reason=reason, groups=[reason] * 100, by=by
    )


def test_a_budget_and_an_unknown_outcome_have_their_expiry_stated() -> None:
    question = open_question(asks())
    question.kind = "budget"
    assert news_of(question).lapse == "end"
    question.kind = "reconcile"
    assert news_of(question).lapse == "give_up"


def test_a_question_that_an_edit_moves_to_another_rule_is_news_of_its_own() -> None:
    small = {"properties": {"amount": {"maximum": 9}}}
    rules = [ApprovalRule(when=small), ApprovalRule(approvers=["finance"])]
    play, followed = asks(of={"approval_rules": rules}), NewsTracker()
    open_question(play)
    assert kinds(followed, play) == ["asked"]
    decides(play, edit(10, **ANN))
    assert kinds(followed, play) == [None]
    assert play.run.phases.turn is not None
    play.run.calls.apply_ruling(1, play.run.phases.turn.calls[0])
    assert kinds(followed, play) == ["asked"]
    assert play.desk.list_open()[0].policy.approvers == ["finance"]

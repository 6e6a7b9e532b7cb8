"""§7: `remember` holds for calls of one tool in one run, where all approvers requested it."""

from typing import Any

import pytest

from holdfast.schemas.agent import ResolvedSkill
from holdfast.schemas.decision import Decision
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.call.outcomes import Unknown
from tests.attacks.vault import AMOUNT, PAYS, Vault, pay
from tests.engine.approvals.test_signed_decision import decision, token
from tests.engine.driver import call, run_again, tool

REMEMBER = {"decision": "approve", "remember": True, "by": "ann"}
ALSO = {**REMEMBER, "by": "bob"}
LOST = Unknown("it was started, and its outcome is unknown")


@pytest.mark.parametrize("chained", [False, True], ids=["one run", "continued as new"])
def test_it_is_of_one_tool(chained: bool) -> None:
    mail = tool("mail", AMOUNT, side_effects=True)
    look = tool("pay.more", AMOUNT, side_effects=True)
    turns = [[call("mail", {"amount": 1})], [PAYS, call("pay.more", {"amount": 1})]]
    play = Vault(*turns, tools=[mail, look, pay()], decisions={"t1c1": [REMEMBER]})
    play.chained = chained
    play.to_end()

    assert [one["callId"] for one in play.shown] == ["t1c1", "t2c1", "t2c2"]
    assert play.paid == []


@pytest.mark.parametrize(
    "said",
    [
        [{**REMEMBER, "remember": False}, ALSO],
        [REMEMBER, {**ALSO, "remember": False}],
        [REMEMBER, {"decision": "deny", "remember": True, "by": "bob"}],
        [{"decision": "respond", "result": 1, "remember": True, "by": who} for who in "ab"],
        [
            {"decision": "edit", "arguments": {"amount": 1}, "remember": True, "by": "ann"},
            lambda now: {"decision": "approve", "by": "bob", "digest": now.digest},
        ],
    ],
)
def test_one_of_two_does_not_remember_for_both(said: Any) -> None:
    play = Vault([PAYS], [PAYS], tools=[pay({"quorum": 2})], decisions={"t1c1": said}).to_end()

    assert [one["callId"] for one in play.shown] == ["t1c1", "t2c1"]
    assert len(play.paid) <= 1


def test_a_token_for_one_call_is_not_sent_as_one_for_all() -> None:
    play = Vault(
        [PAYS],
        [PAYS],
        tools=[pay({"signed": True})],
        decisions={"t1c1": [decision("approve", remember=True), decision("approve")]},
    ).to_end()

    assert "sign `remember` as well" in play.refusals[0]
    assert play.paid == [{"amount": 5}]


def test_a_plan_is_not_remembered() -> None:
    play = Vault(
        [PAYS], [PAYS], definition={"plan": "lazy"}, decisions={"t1-plan": [REMEMBER, "approve"]}
    ).to_end()

    assert "`remember` is for a single call" in play.refusals[0]
    assert [one["callId"] for one in play.shown] == ["t1-plan", "t2-plan"]
    assert len(play.paid) == 1


def test_what_was_not_known_to_have_happened_is_not_remembered() -> None:
    paid: list[Any] = []

    def pays(one: Any) -> Any:
        paid.append(one.id)
        return LOST if len(paid) == 1 else "paid"

    remembers = {"decision": "did_not_happen", "remember": True}
    play = Vault(
        *([PAYS], [PAYS]),
        outcomes={"pay": pays},
        decisions={"t1c1": ["approve", remembers, run_again]},
    ).to_end()

    assert "`remember` is for a single call" in play.refusals[0]
    assert paid == ["t1c1", "t1c1"]
    assert play.errors()["t2c1"] == "approval_timeout"


def test_it_gives_no_scope_and_no_tool_to_another_skill() -> None:
    skills = [ResolvedSkill(name="desk", tools=[tool("mail", AMOUNT, side_effects=True)])]
    skills.append(ResolvedSkill(name="vault", tools=[pay()]))
    play = Vault(
        [call("mail", {"amount": 1})],
        [PAYS],
        tools=(),
        skill="desk",
        definition={"skills": skills},
        decisions={"t1c1": [REMEMBER]},
    ).to_end()

    assert play.errors()["t2c1"] == "tool_not_allowed"
    assert play.paid == []


BOTH = [PAYS, call("pay", {"amount": 6})]


def test_it_releases_the_other_pending_calls_of_the_tool_and_the_log_names_who() -> None:
    mail = tool("mail", AMOUNT, side_effects=True)
    decisions = {"t1c1": [REMEMBER]}
    play = Vault(
        [*BOTH, call("mail", {"amount": 1})], tools=[mail, pay()], decisions=decisions
    ).to_end()

    assert play.paid == [{"amount": 5}, {"amount": 6}]
    assert play.errors()["t1c3"] == "approval_timeout"
    said = {one["callId"]: one["decided"] for one in play.records("decision") if "decided" in one}
    assert (said["t1c2"]["by"], said["t1c2"]["reason"]) == ("ann", "remembered with t1c1")
    assert said["t1c2"]["digest"] == play.shown[1]["digest"]


@pytest.mark.parametrize(
    ("policy", "decisions"),
    [
        ({"signed": True}, {"t1c1": [decision("approve", token(remember=True), remember=True)]}),
        ({"quorum": 2}, {"t1c1": [REMEMBER]}),
        ({"quorum": 2}, {"t1c1": [REMEMBER, {**ALSO, "remember": False}]}),
    ],
)
def test_it_releases_no_call_without_all_who_have_to_decide(policy: Any, decisions: Any) -> None:
    play = Vault(BOTH, tools=[pay(policy)], decisions=decisions).to_end()

    assert play.errors()["t1c2"] == "approval_timeout"
    assert {"amount": 6} not in play.paid


def test_it_releases_no_call_whose_outcome_is_unknown() -> None:
    paid: list[Any] = []

    def pays(one: Any) -> Any:
        paid.append(one.id)
        return LOST if one.id == "t1c1" else "paid"

    def remembers(question: Question) -> Any:
        assert question.kind == "reconcile"
        play.decide(Decision.model_validate({"callId": "t1c2", **REMEMBER}), question)
        return "give_up"

    play = Vault(BOTH, outcomes={"pay": pays}, decisions={"t1c1": ["approve", remembers]})

    assert play.to_end().errors() == {"t1c1": "outcome_unknown", "t1c2": None}
    assert paid == ["t1c1", "t1c2"]


def test_it_releases_no_call_that_another_person_has_changed() -> None:
    def edits(question: Question) -> Any:
        other = {"callId": "t1c2", "decision": "edit", "arguments": {"amount": 900}, "by": "bob"}
        play.decide(Decision.model_validate(other), question)
        return REMEMBER

    play = Vault(BOTH, tools=[pay({"quorum": 2})], decisions={"t1c1": [edits, ALSO]})

    assert play.to_end().paid == [{"amount": 5}]

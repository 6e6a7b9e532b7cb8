"""§7: a decision that comes before its call is kept; what it is bound to is seen when the call is
asked about. Without a `digest` it is on whatever the call is then: who may send it may as well
approve of the call when it waits. Where that is too much trust, `signed` takes it away."""

from typing import Any

import pytest

from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision
from holdfast.workflows.engine.approvals.pending import MAX_EARLY_DECISIONS
from tests.attacks.vault import PAYS, Vault, pay
from tests.engine.approvals.test_signed_decision import decision, token
from tests.engine.driver import call, tool


def digest(amount: float, name: str = "pay") -> str:
    return sha256(canonical_json({"tool": name, "arguments": {"amount": amount}}))


def guess(call_id: str = "t1c1", **more: Any) -> Decision:
    return Decision.model_validate({"callId": call_id, "decision": "approve", **more})


def guessed(*early: Decision, policy: Any = None, **more: Any) -> Vault:
    play = Vault([PAYS], tools=[pay(policy)], **more)
    for each in early:
        assert play.desk.add_early(each)
    return play.to_end()


@pytest.mark.parametrize("other", [digest(6), digest(5, "look"), "0" * 64])
def test_one_for_other_arguments_is_none_of_the_call_that_comes(other: str) -> None:
    play = guessed(guess(digest=other), guess(digest=other, remember=True))

    assert len([each for each in play.records("decision") if "ignored" in each]) == 2
    assert play.paid == []


def test_what_a_guess_without_a_digest_does_is_written_down() -> None:
    play = guessed(guess(by="eve"))

    assert play.paid == [{"amount": 5}]
    [decided] = play.records("decision")
    assert (decided["decided"]["by"], decided["decided"]["digest"]) == ("eve", digest(5))


@pytest.mark.parametrize(
    "policy", [{"signed": True}, {"quorum": 2}, {"approvers": ["finance"]}, {"notBy": "principal"}]
)
def test_it_is_held_to_the_rules_of_the_call(policy: dict[str, Any]) -> None:
    guesses = [guess(), guess(by="ada"), guess(by="Ada", groups=["sales"]), guess(by="ADA ")]
    play = guessed(*guesses, policy=policy, principal={"id": "ada"})

    assert play.errors() == {"t1c1": "approval_timeout"}
    assert play.paid == []


def test_on_a_signed_call_it_waits_for_its_token_to_be_checked() -> None:
    forged = guess(token="one that is not checked", by="ann", digest=digest(5))
    play = Vault([PAYS], tools=[pay({"signed": True})])
    play.desk.add_early(forged)
    question = play.to_question()

    assert play.desk.take_early(question, have_tokens=True) == [forged]
    assert play.to_end().paid == []


@pytest.mark.parametrize(
    "claims", [{"digest": digest(6)}, {"callId": "t2c1"}, {"decision": "deny"}]
)
def test_signed_for_another_call_it_is_good_for_none_that_is_guessed(claims: Any) -> None:
    play = Vault([PAYS], tools=[pay({"signed": True})])
    play.desk.add_early(decision("approve", token(**claims)))
    question = play.to_question()
    for checked in play.desk.take_early(question, have_tokens=True):
        play.decide(checked, question)

    assert play.refusals[0].startswith("invalid_decision: the token is for another")
    assert play.to_end().paid == []


def test_a_kept_decision_releases_only_the_call_of_its_id() -> None:
    play = Vault([call("look")], [PAYS], tools=[tool("look"), pay()])
    for call_id in ("t1c1", "t1c2", "t2c2", "t2-plan", "T2c1", "t02c1", " t2c1"):
        play.desk.add_early(guess(call_id))
    play.to_end()

    assert [one["callId"] for one in play.shown] == ["t2c1"]
    assert play.paid == []


def test_in_a_run_that_may_not_wait_none_counts() -> None:
    play = guessed(guess(remember=True), approvals="deny")

    assert play.errors() == {"t1c1": "denied"}
    assert play.paid == []


def test_no_flood_of_them_drives_a_denial_out() -> None:
    play = Vault([PAYS])
    assert play.desk.add_early(guess(decision="deny"))
    for n in range(MAX_EARLY_DECISIONS + 10):
        play.desk.add_early(guess(f"t{n + 2}c1"))
    play.desk.add_early(guess())
    play.to_end()

    assert play.errors() == {"t1c1": "denied"}
    assert play.paid == []

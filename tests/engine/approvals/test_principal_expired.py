"""§11: a call that needs a principal does not start once their token has expired, and waits."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.schemas.names import INVALID_DECISION
from holdfast.schemas.run import Principal
from holdfast.schemas.tool import ApprovalPolicy
from holdfast.workflows.engine.run_state import TokenRejected
from tests.engine.asking import asks, open_question, refusal
from tests.engine.driver import Play, call, noon, reply, tool

EXPIRED = {"id": "ada", "scopes": ["pay", "look"], "expiresAt": noon().isoformat()}
FREE = {"require": "never"}


def late(*decisions: Any, **more: Any) -> Play:
    """A payment that needs no approval, when the token of its principal has just expired."""
    return asks(*decisions, policy=more.pop("policy", FREE), principal=EXPIRED, **more)


def renewed(**more: Any) -> Principal:
    said = {**EXPIRED, "expiresAt": (noon() + timedelta(minutes=1)).isoformat(), **more}
    return Principal.model_validate(said)


@pytest.mark.parametrize("verdict", ["approve", "edit", "respond"])
def test_no_decision_starts_it(verdict: str) -> None:
    fields: dict[str, Any] = {"edit": {"arguments": {"amount": 5}}, "respond": {"result": 1}}
    play = late()
    open_question(play)
    code, why = refusal(play, {"decision": verdict, **fields.get(verdict, {})})

    assert code == INVALID_DECISION
    assert "send the update `renew` with a new one (`holdfast renew`), or deny" in why


def test_a_new_token_starts_it_and_is_no_decision_of_another_person() -> None:
    play = late()
    question = open_question(play)
    assert (question.kind, play.records("tool_start")) == ("principal_expired", [])

    assert play.run.questions.renew(renewed()).scopes == ["pay", "look"]

    assert play.desk.list_open() == []
    [decision] = play.records("decision")
    decided = decision["decided"]
    assert (decided["decision"], decided["by"], decided["signed"]) == ("approve", "ada", True)
    turn = play.run.phases.turn
    assert turn is not None
    play.run.calls.apply_ruling(1, turn.calls[0])
    assert [each["callId"] for each in play.records("tool_start")] == ["t1c1"]


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ({"id": "eve"}, "for another principal"),
        ({"expiresAt": noon().isoformat()}, "expires no later"),
        ({"expiresAt": None}, "expires no later"),
    ],
)
def test_what_is_no_renewal_changes_nothing(token: dict[str, Any], why: str) -> None:
    play = late()
    open_question(play)
    with pytest.raises(TokenRejected, match=why):
        play.run.questions.renew(renewed(**token))
    assert len(play.desk.list_open()) == 1


def test_a_run_whose_principal_came_without_a_token_has_none_to_renew() -> None:
    with pytest.raises(TokenRejected, match="no principal whose token expires"):
        asks(principal={"id": "ada"}).run.questions.renew(renewed())


@pytest.mark.parametrize("on_timeout", ["deny", "approve", "fail"])
def test_when_its_time_is_up_it_does_not_start(on_timeout: str) -> None:
    play = late("expire", policy={**FREE, "onTimeout": on_timeout, "quorum": 2}).to_end()

    assert play.errors() == {"t1c1": "approval_timeout"}
    assert play.records("tool_start") == []


@pytest.mark.parametrize(
    ("of", "waits"), [({}, False), ({"requires": ["look"]}, True), ({"side_effects": True}, True)]
)
def test_what_has_no_effects_and_needs_no_scope_runs_on(of: dict[str, Any], waits: bool) -> None:
    model = [reply("", call("look", {})), reply("done")]
    own = ApprovalPolicy.model_validate(FREE)
    looks = tool("look", approval=own, **of)
    play = Play(looks, model=model, principal=EXPIRED, outcomes={"look": 1})
    play.decisions["t1c1"] = ["deny"]
    play.to_end()

    assert bool(play.records("confirmation_required")) is waits
    assert bool(play.records("tool_start")) is not waits

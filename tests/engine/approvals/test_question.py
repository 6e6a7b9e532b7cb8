"""Decisions: which count, how many it takes, and what they come to."""

from typing import Any

import pytest

from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision, Kind, Verdict
from holdfast.schemas.names import ALREADY_DECIDED, INVALID_DECISION, NO_SUCH_CALL
from holdfast.schemas.tool import APPROVAL_DEFAULTS
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.approvals.question import MAX_COUNTED_DECISIONS, Question
from holdfast.workflows.engine.approvals.signed_decision import DecisionRejected
from tests.engine.asking import (
    ANN,
    BOB,
    CAT,
    DIGEST,
    SCHEMA,
    approve,
    asks,
    decides,
    deny,
    edit,
    open_question,
    refusal,
)
from tests.engine.driver import NOON, Play, call, reply, tool

# What is asked.


def test_people_are_shown_all_that_they_decide_on() -> None:
    question = open_question(asks(policy={"approvers": ["finance"], "quorum": 2, "timeout": "1h"}))

    assert question.to_pending_approval().to_json() == {
        "callId": "t1c1",
        "kind": "call",
        "tool": "pay",
        "label": "Payment",
        "arguments": {"amount": 5},
        "reasoning": "owed",
        "digest": DIGEST,
        "requestedAt": "2026-03-01T12:00:00.000Z",
        "expiresAt": "2026-03-01T13:00:00.000Z",
        "approvers": ["finance"],
        "quorum": 2,
        "decisions": [],
        "question": "Approval needed: run `pay` with these arguments.",
    }


def test_people_are_shown_what_an_approval_does_and_the_log_does_not_have_it() -> None:
    question = open_question(asks(policy={"effect": "payment of {amount}"}))

    assert question.to_pending_approval("run").effect == "payment of 5"
    assert "effect" not in question.to_pending_approval().to_json()


def test_what_was_asked_decided_and_changed_is_kept() -> None:
    play = asks(edit(3, by="ann", groups=["finance"], reason="too much")).to_end()
    [asked] = play.records("confirmation_required")
    [decided] = play.records("decision")

    assert asked["approval"]["digest"] == DIGEST
    assert decided == {
        "n": decided["n"],
        "at": "2026-03-01T12:00:00.000Z",
        "type": "decision",
        "callId": "t1c1",
        "decided": {
            "decision": "edit",
            "by": "ann",
            "groups": ["finance"],
            "at": "2026-03-01T12:00:00.000Z",
            "reason": "too much",
            "digest": sha256(b'{"arguments":{"amount":3},"tool":"pay"}'),
        },
        "arguments": {"amount": 3},
        "outcome": "decided",
    }


# What a decision comes to.


def test_of_a_denied_call_the_model_reads_the_reason() -> None:
    play = asks(deny(reason="ask again in May")).to_end()

    assert play.results() == {
        "t1c1": '{"error": {"code": "denied", "message": "ask again in May"}}'
    }
    assert "tool_start t1c1" not in play.event_lines()


def test_an_edit_is_coerced_and_checked_like_a_models_arguments() -> None:
    play = asks()
    open_question(play)

    code, message = refusal(play, edit("much"))
    assert code == INVALID_DECISION
    assert message == 'the edited arguments do not fit: amount: "much" is not of type "number"'
    assert refusal(play, {"decision": "edit", "arguments": {}})[0] == INVALID_DECISION

    decides(play, edit("3"))
    assert play.to_end().results()["t1c1"].endswith('{"paid": 3}')


@pytest.mark.parametrize("result", [{"paid": 1}, "by hand", None, [1], 0, False])
def test_a_persons_answer_is_the_result_and_the_tool_does_not_run(result: Any) -> None:
    play = asks({"decision": "respond", "result": result}).to_end()

    assert play.results() == {
        "t1c1": result
        if isinstance(result, str)
        else canonical_json(result).decode().replace(":", ": ")
    }
    assert play.errors() == {"t1c1": None}
    assert "tool_start t1c1" not in play.event_lines()


@pytest.mark.parametrize(
    "decision",
    [
        {"decision": "edit"},
        {"decision": "respond"},
        {"decision": "happened"},
        {"decision": "perhaps"},
        {"decision": "approve", "token": ""},
        {"decision": "approve", "callId": ""},
        {"decision": "respond", "result": float("nan")},
        {},
    ],
)
def test_a_decision_that_is_none_is_refused_before_it_is_looked_at(decision: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        Decision.model_validate({"callId": "t1c1", **decision})


USED: dict[tuple[Kind, Verdict], tuple[str, ...]] = {
    ("call", "approve"): ("remember",),
    ("call", "deny"): (),
    ("call", "edit"): ("arguments", "remember"),
    ("call", "respond"): ("result",),
    ("input", "deny"): (),
    ("input", "respond"): ("result",),
    ("plan", "approve"): (),
    ("plan", "deny"): (),
    ("plan", "edit"): ("arguments",),
    ("budget", "approve"): (),
    ("budget", "deny"): (),
    ("budget", "edit"): ("arguments",),
    ("reconcile", "approve"): (),
    ("reconcile", "deny"): (),
    ("reconcile", "respond"): ("result",),
    ("reconcile", "happened"): ("result",),
    ("reconcile", "did_not_happen"): (),
    ("reconcile", "give_up"): (),
}
FIELDS: dict[str, Any] = {"arguments": {"amount": 1}, "result": False, "remember": True}


def of_kind(kind: Kind) -> Question:
    """A question on a payment."""
    return Question(
        *("t1c1", 1, kind, "pay", "Pay", {"amount": 20_000}, None, "?"),
        policy=APPROVAL_DEFAULTS,
        requested_at=NOON,
        check_arguments=lambda arguments, _: arguments,
    )


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(("kind", "verdict"), USED)
def test_a_field_that_its_decision_does_not_use_is_refused(
    kind: Kind, verdict: Verdict, name: str
) -> None:
    question, used = of_kind(kind), USED[kind, verdict]
    needed = [one for one in used if one != "remember"]
    given = {one: FIELDS[one] for one in {*needed, name}}
    decision = Decision.model_validate(
        {"callId": "t1c1", "decision": verdict, "digest": question.digest, "nonce": "n", **given}
    )
    if name in used:
        assert question.check(decision, ValidationLimits()).by is None
        return
    with pytest.raises(DecisionRejected, match=f"`{name}` (goes with|is for)"):
        question.check(decision, ValidationLimits())


# Who decides, and how often.


def test_a_decision_on_what_does_not_wait_is_refused() -> None:
    play = asks()
    open_question(play)

    assert refusal(play, approve(callId="t9c9")) == (
        NO_SUCH_CALL,
        "no call t9c9 waits for a decision; waiting: t1c1",
    )


def test_of_many_pending_approvals_the_first_are_named() -> None:
    twelve = [call("pay", {"amount": 5})] * 12
    play = Play(tool("pay", SCHEMA, side_effects=True), model=[reply("", *twelve)])
    open_question(play)

    _, message = refusal(play, approve(callId="t9c9"))
    assert message.endswith(
        "waiting: " + ", ".join(f"t1c{n}" for n in range(1, 11)) + " and 2 more"
    )


def test_a_second_decision_on_a_decided_call_changes_nothing() -> None:
    play = asks()
    open_question(play)
    decides(play, deny(by="ann"))

    assert refusal(play, approve(by="bob")) == (
        ALREADY_DECIDED,
        "call t1c1 is decided already: deny by ann (unverified)",
    )
    play.run.questions.count_or_log(Decision.model_validate({"callId": "t1c1", **approve()}))
    assert "is decided already" in play.records("decision")[1]["ignored"]
    assert play.to_end().errors() == {"t1c1": "denied"}


def test_with_a_quorum_it_takes_so_many_different_people() -> None:
    play = asks(policy={"quorum": 2})
    open_question(play)

    receipt = decides(play, approve(**ANN))
    assert (receipt.decided, receipt.missing) == (False, 1)
    assert refusal(play, approve(**ANN)) == (ALREADY_DECIDED, "ann has decided so already")
    assert refusal(play, approve())[1] == "this call requires a named approver: write `by`"
    receipt = decides(play, approve(**BOB))
    assert (receipt.decided, receipt.missing) == (True, 0)


def test_a_name_cannot_pose_as_words_of_a_refusal() -> None:
    play, posing = asks(policy={"quorum": 2}), {**ANN, "by": "bob: denied"}
    open_question(play)
    decides(play, approve(**posing))
    assert refusal(play, approve(**posing))[1] == '"bob: denied" has decided so already'


def test_who_approved_may_deny_as_long_as_it_is_not_decided() -> None:
    play = asks(policy={"quorum": 2})
    open_question(play)
    decides(play, approve(**ANN))

    assert decides(play, deny(**ANN)).decided


def test_an_edit_starts_the_count_again() -> None:
    play = asks(policy={"quorum": 2})
    question = open_question(play)
    decides(play, approve(**ANN))
    assert decides(play, edit(3, **BOB)).missing == 1
    assert question.digest != DIGEST
    assert refusal(play, approve(digest=DIGEST, **CAT))[0] == INVALID_DECISION
    assert refusal(play, approve(**BOB))[1] == "bob has decided so already"

    assert "changed the arguments" in refusal(play, approve(**ANN))[1], "has she seen them?"
    seen = approve(digest=question.digest, **ANN)
    assert decides(play, seen).decided, "ann approved of something else before"
    assert play.to_end().results()["t1c1"].endswith('{"paid": 3}')


def test_who_edits_is_one_person_in_any_spelling() -> None:
    play = asks(policy={"quorum": 2})
    question = open_question(play)
    for by, amount in (("Ann", 3), ("ann", 4), ("ann", 3)):
        decides(play, edit(amount, by=by))
    assert refusal(play, approve(by="ANN"))[0] == ALREADY_DECIDED

    assert decides(play, approve(digest=question.digest, **BOB)).decided
    assert [decided.by for decided in question.agreeing_decisions()] == ["ann", "bob"]


def test_answers_that_differ_do_not_add_up() -> None:
    play = asks(policy={"quorum": 2})
    open_question(play)
    for result, who in ((1, ANN), (2, BOB)):
        receipt = decides(play, {"decision": "respond", "result": result, **who})
    assert (receipt.decided, receipt.missing) == (False, 1)

    assert decides(play, {"decision": "respond", "result": 2, **CAT}).decided


def test_the_runs_own_principal_cannot_decide_where_not_by_excludes_it() -> None:
    play = asks(policy={"notBy": "principal"}, principal={"id": "ann"})
    open_question(play)

    assert "the principal of the run" in refusal(play, approve(**ANN))[1]
    assert "write `by`" in refusal(play, approve())[1]
    assert decides(play, approve(**BOB)).decided


def test_only_the_groups_that_are_named_decide() -> None:
    play = asks(policy={"approvers": ["finance", "board"]})
    open_question(play)

    assert refusal(play, approve(groups=["sales"]))[1] == (
        "only these groups decide on this call: finance, board"
    )
    assert refusal(play, deny())[0] == INVALID_DECISION
    assert decides(play, approve(groups=["sales", "board"])).decided


def test_a_mind_can_be_changed_so_often() -> None:
    play = asks(policy={"quorum": 2})
    open_question(play)
    for count in range(MAX_COUNTED_DECISIONS):
        decides(play, edit(count, **ANN))

    assert "too many decisions" in refusal(play, edit(-1, **ANN))[1]

"""What people are shown of a question, and which fields a decision may have."""

from typing import Any

import pytest

from holdfast.schemas.decision import Decision, Kind, Verdict
from holdfast.schemas.tool import APPROVAL_DEFAULTS
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.approvals.question import MAX_COUNTED_DECISIONS, Question
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected
from tests.engine.asking import (
    ANN,
    BOB,
    DIGEST,
    approve,
    asks,
    decides,
    edit,
    open_question,
    refusal,
)
from tests.engine.driver import NOON


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


def test_a_receipt_has_the_number_of_decisions_that_are_missing() -> None:
    play = asks(policy={"quorum": 2})
    open_question(play)
    receipts = [decides(play, approve(**person)) for person in (ANN, BOB)]

    assert [(each.decided, each.missing) for each in receipts] == [(False, 1), (True, 0)]


def test_a_mind_can_be_changed_so_often() -> None:
    play = asks(policy={"quorum": 2})
    open_question(play)
    for count in range(MAX_COUNTED_DECISIONS):
        decides(play, edit(count, **ANN))

    assert "too many decisions" in refusal(play, edit(-1, **ANN))[1]

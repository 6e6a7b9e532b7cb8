"""A run that asks a person about one payment, and the person's decisions."""

from typing import Any

import pytest

from holdfast.schemas.base import sha256
from holdfast.schemas.decision import Decision
from holdfast.schemas.tool import ApprovalPolicy
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected
from holdfast.workflows.engine.phases import RunCalls
from tests.engine.driver import Play, call, reply, tool

SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "number"}},
    "required": ["amount"],
    "additionalProperties": False,
}
ANN, BOB, CAT = {"by": "ann"}, {"by": "bob"}, {"by": "cat"}
DIGEST = sha256(b'{"arguments":{"amount":5},"tool":"pay"}')


def approve(**more: Any) -> dict[str, Any]:
    return {"decision": "approve", **more}


def deny(**more: Any) -> dict[str, Any]:
    return {"decision": "deny", **more}


def edit(amount: Any, **more: Any) -> dict[str, Any]:
    return {"decision": "edit", "arguments": {"amount": amount}, **more}


def asks(
    *decisions: Any, policy: dict[str, Any] | None = None, turns: int = 1, **more: Any
) -> Play:
    """A run that asks about one payment of 5 in each turn; it returns what it was given."""
    own = ApprovalPolicy.model_validate(policy or {})
    pay = tool(
        "pay", SCHEMA, side_effects=True, approval=own, label="Payment", **more.pop("of", {})
    )
    model = [
        reply("", call("pay", {"amount": 5, "_reasoningForCall": "owed"})) for _ in range(turns)
    ]
    more.setdefault("outcomes", {"pay": lambda one: {"paid": one.arguments["amount"]}})
    return Play(pay, model=[*model, reply("done")], decisions={"t1c1": list(decisions)}, **more)


def open_question(play: Play) -> Any:
    """Take a run's steps until it waits; the question."""
    while not play.desk.list_open():
        step = play.next()
        if isinstance(step, RunCalls):
            play.decided(play.run.calls.check_and_start(step.turn, step.turn.calls))
        else:
            play.take(step)
    return play.desk.list_open()[0]


def decides(play: Play, decision: Any) -> Any:
    return play.run.questions.count(Decision.model_validate({"callId": "t1c1", **decision}))


def refusal(play: Play, decision: Any) -> tuple[str, str]:
    before = len(play.log)
    with pytest.raises(DecisionRejected) as refused:
        decides(play, decision)
    assert len(play.log) == before, "a decision that is refused leaves no trace"
    return refused.value.code, str(refused.value)


def early(desk: PendingApprovals, **decision: Any) -> bool:
    return desk.add_early(Decision.model_validate({"callId": "t1c1", **decision}))

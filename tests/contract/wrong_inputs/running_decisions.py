"""Decisions that a running run refuses, by the update `decide`."""

from typing import Any

from tests.contract.wrong_inputs.running import Update, raw

# Pending approvals: `t1c1` for anyone, `t1c2` for two of finance who are not anna, `t1c3` was
# denied by ben.


def decision(call: str, decision: Any, **more: Any) -> dict[str, Any]:
    """A decision as people send it."""
    return {"callId": call, "decision": decision, **more}


def decide(name: str, *given: Any, code: str = "invalid_decision", says: str) -> Update:
    """A decision that is refused."""
    return Update("waiting", name, "decide", given, code, says)


DECISIONS = [
    decide(
        "nothing",
        says='there is no value; write one JSON object: {"callId": …, "decision": "approve"}',
    ),
    decide(
        "no JSON",
        raw(b"{{{"),
        says=(
            "it cannot be read: Invalid JSON: key must be a string at line 1 column 2; "
            "send one JSON value"
        ),
    ),
    decide("no call", {"decision": "approve"}, says="`callId` is missing; add it"),
    decide(
        "call_id",
        {"call_id": "t1c1", "verdict": "approve"},
        says=(
            "`decision` is missing; add it. `verdict`: unknown field `verdict`; known: "
            "`arguments`, `by`, `callId`, `decision`, `digest`, `groups`, `nonce`, `onBehalfOf`, "
            "`reason`, `remember` and 2 more"
        ),
    ),
    decide(
        "a call that does not wait",
        decision("t9c9", "approve"),
        code="no_such_call",
        says="no call t9c9 waits for a decision; waiting: t1c1, t1c2",
    ),
    decide(
        "aprove",
        decision("t1c1", "aprove"),
        says="`decision`: `aprove` does not fit; did you mean `approve`?",
    ),
    decide(
        "edit without arguments",
        decision("t1c1", "edit"),
        says="`edit` needs `arguments`, the whole of them",
    ),
    decide(
        "approve with arguments",
        decision("t1c1", "approve", arguments={"amount": 1}),
        says="`arguments` goes with `edit`, not with `approve`",
    ),
    decide(
        "deny with a result",
        decision("t1c1", "deny", result=1),
        says="`result` goes with `respond` or `happened`, not with `deny`",
    ),
    decide(
        "edit with wrong arguments",
        decision("t1c1", "edit", arguments={"amount": "much"}),
        says='the edited arguments do not fit: amount: "much" is not of type "number"',
    ),
    decide(
        "a wrong digest",
        decision("t1c1", "approve", digest="0" * 64),
        says=("`digest` is not that of the pending call: read it again, then decide"),
    ),
    decide(
        "not among the approvers",
        decision("t1c2", "approve", by="eve", groups=["sales"]),
        says="only these groups decide on this call: finance",
    ),
    decide(
        "by the principal",
        decision("t1c2", "approve", by="anna", groups=["finance"]),
        says="the principal of the run cannot decide on this call",
    ),
    decide(
        "by no one",
        decision("t1c2", "approve", groups=["finance"]),
        says="this call requires a named approver: write `by`",
    ),
    decide(
        "again by the same",
        decision("t1c2", "approve", by="dora", groups=["finance"]),
        code="already_decided",
        says="dora has decided so already",
    ),
    decide(
        "already decided",
        decision("t1c3", "approve"),
        code="already_decided",
        says="call t1c3 is decided already: deny by ben (unverified)",
    ),
    decide(
        "a token that is none",
        decision("t1c1", "approve", token="ey"),
        says=(
            "`token` is no signed decision: it is to be a JWT with `sub`, `groups`, `digest`,"
            " `nonce`, `workflowId` and `exp`"
        ),
    ),
]
ON_OTHERS = [
    Update(
        "asking",
        "edit of no budget",
        "decide",
        [decision("t1-maxTurns", "edit", arguments={"maxTurn": 5})],
        "invalid_decision",
        "the edited arguments do not fit: `maxTurn`: unknown field `maxTurn`; "
        "did you mean `maxTurns`?",
    ),
    Update(
        "planning",
        "a plan edited as a call is",
        "decide",
        [decision("t1-plan", "edit", arguments={"amount": 5}, by="dora", groups=["finance"])],
        "invalid_decision",
        "the edited plan is not valid: `calls` is missing; add it. `amount`: unknown field "
        "`amount`; known: `calls`",
    ),
]

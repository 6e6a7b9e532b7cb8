"""§7: a decision that takes more work than its workflow task has left is rejected."""

from typing import Any

import pytest

from holdfast.schemas.decision import Decision
from holdfast.validation.schema_node import SharedWorkBudget, ValidationLimits
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected
from tests.attacks.inputs.attempt import Attempt

TOOLS: list[dict[str, Any]] = [
    {"_tool": "quote", "_outputPath": "†state.price"},
    {"_tool": "pay", "_sideEffects": True, "properties": {"amount": {"type": "number"}}},
]
BOUND = {"properties": {"amount": {"maximum": 500}}}


@pytest.mark.parametrize("change", [{"bound": BOUND}, {"arguments": {"amount": 5}}])
def test_an_edit_of_a_plan_that_cannot_be_checked_is_rejected(change: dict[str, Any]) -> None:
    play = Attempt({"agent": {"plan": "lazy", "tools": TOOLS}})
    play.input("model", [{"quote": {}}, {"pay": {"amount": "†state.price"}}])
    calls = {"calls": [{"id": "t1c1"}, {"id": "t1c2", **change}]}
    sent = {"callId": "t1-plan", "decision": "edit", "arguments": calls}
    spent = SharedWorkBudget(0)

    with pytest.raises(DecisionRejected, match="too large to be checked beside all else"):
        play.run.questions.count(
            Decision.model_validate(sent), limits=ValidationLimits(lambda: spent)
        )

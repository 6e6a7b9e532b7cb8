"""§7: a decision that comes before its call is kept; what it is bound to is seen when the call is
asked about. Without a `digest` it is on whatever the call is then: who may send it may as well
approve of the call when it waits. Where that is too much trust, `signed` takes it away."""

from typing import Any

from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision
from holdfast.workflows.engine.approvals.pending import MAX_EARLY_DECISIONS
from tests.attacks.vault import PAYS, Vault


def digest(amount: float, name: str = "pay") -> str:
    return sha256(canonical_json({"tool": name, "arguments": {"amount": amount}}))


def guess(call_id: str = "t1c1", **more: Any) -> Decision:
    return Decision.model_validate({"callId": call_id, "decision": "approve", **more})


def test_no_flood_of_them_drives_a_denial_out() -> None:
    play = Vault([PAYS])
    assert play.desk.add_early(guess(decision="deny"))
    for n in range(MAX_EARLY_DECISIONS + 10):
        play.desk.add_early(guess(f"t{n + 2}c1"))
    play.desk.add_early(guess())
    play.to_end()

    assert play.errors() == {"t1c1": "denied"}
    assert play.paid == []

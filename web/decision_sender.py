"""A decision on its way: signed where that is done here, sent to the run, and answered.

The page of a call, the list and the HTTP for programs all send theirs by this one way.
"""

from temporalio.exceptions import ApplicationError

from holdfast.client.run_handle import RunHandle
from holdfast.schemas import names
from holdfast.schemas.decision import Decision, PendingApproval, Receipt
from holdfast.web.services import Services


class DecisionNotSent(Exception):
    """The run does not take the decision; `code` is one of `names`."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(said)
        self.code = code


async def send(
    parts: Services, run_id: str, waiting: PendingApproval, decision: Decision
) -> Receipt:
    """Sign a decision on a call of a run, where that is done here, send it, and have the answer.

    Raises:
        RefusedError: it does not count, and why.
        CommandError: nobody answers, it cannot be signed, or the run has ended.
    """
    run = parts.run(run_id)
    if parts.signer is not None and waiting.signed and decision.token is None:
        decision = parts.signer.sign(decision, waiting, run_id)
    try:
        return await _sent(run, decision)
    except ApplicationError as refusal:
        raise DecisionNotSent(refusal.type or "", refusal.message) from refusal


async def _sent(run: RunHandle, decision: Decision) -> Receipt:
    """A run that comes anew to its question after a crash may not know it for a moment."""
    try:
        return await run.decide(decision)
    except ApplicationError as refusal:
        if refusal.type != names.NO_SUCH_CALL:
            raise
        waiting = await run.pending_approvals()
        if (decision.call_id, decision.digest) not in [(w.call_id, w.digest) for w in waiting]:
            raise
    return await run.decide(decision)

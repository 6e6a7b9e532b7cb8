"""The dependencies of all pages: the client, the signer, and the settings.

The page of a call, the list and the HTTP API send their decisions through `Services.decide`.
"""

from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote

from holdfast.client.errors import RejectedError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.signing import Signer
from holdfast.schemas import names
from holdfast.schemas.decision import Decision, PendingApproval, Receipt
from holdfast.schemas.settings.inbox import Programs
from holdfast.web.listing.pending_runs import PendingRuns


@dataclass(frozen=True)
class Services:
    """The client and the settings of the inbox.

    `signer` signs decisions, where the worker trusts this inbox to name the approver.
    `temporal_ui` is the origin of Temporal's UI.
    """

    client: HoldfastClient
    signer: Signer | None = None
    temporal_ui: str | None = None
    programs: Programs = field(default_factory=Programs)

    @cached_property
    def pending(self) -> PendingRuns:
        """Return the list of pending approvals that all pages share."""
        return PendingRuns(self.client)

    def link_to(self, run_id: str, execution: str = "") -> str | None:
        """Return the page of an execution in Temporal's UI, by default of the newest one."""
        if self.temporal_ui is None:
            return None
        where = f"namespaces/{quote(self.client.temporal.namespace, safe='')}/workflows"
        one = f"/{quote(execution, safe='')}" if execution else ""
        return f"{self.temporal_ui}/{where}/{quote(run_id, safe='')}{one}"

    async def decide(self, run_id: str, approval: PendingApproval, decision: Decision) -> Receipt:
        """Sign a decision where the inbox signs, and send it to the run.

        Raises:
            DecisionRejectedError: the run rejects it.
            HoldfastError: the run does not answer or has ended, or the decision cannot be signed.
        """
        run = self.client.run(run_id)
        if self.signer is not None and approval.signed and decision.token is None:
            decision = self.signer.sign(decision, approval, run_id)
        try:
            return await run.decide(decision)
        except RejectedError as refusal:
            # After a crash, a run that replays may not know its pending call for a moment.
            if refusal.code != names.NO_SUCH_CALL:
                raise
            pending = [(one.call_id, one.digest) for one in await run.approvals()]
            if (decision.call_id, decision.digest) not in pending:
                raise
            return await run.decide(decision)
        finally:
            self.pending.recheck(run_id)

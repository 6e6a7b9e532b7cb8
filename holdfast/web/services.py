"""The dependencies of all pages: the client, the signer, and the settings.

The page of a call, the list and the HTTP API send their decisions through `Services.decide`.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any
from urllib.parse import quote

from holdfast.catalog.loader import Catalog
from holdfast.client.errors import NO_SUCH, HoldfastError, RejectedError, read_input
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.records.run_diff import compare, read_recorded_run
from holdfast.client.run_lists import RunFilter, RunListing
from holdfast.client.signing import Signer
from holdfast.runtime.absences import find_represented, own_substitutions
from holdfast.schemas import names
from holdfast.schemas.decision import ApprovalClaim, Decision, PendingApproval, Receipt
from holdfast.schemas.internal.absences import Absence
from holdfast.schemas.internal.run_comparison import RunComparison
from holdfast.schemas.settings.inbox import DEFAULT_CLAIM, Programs, Right
from holdfast.web.auth.permissions import ALL, LISTED, Permissions, Rights, RunAccess, is_approver
from holdfast.web.auth.sessions import Person
from holdfast.web.http.problems import NotPermittedError, forbidden
from holdfast.web.listing.pending_runs import PendingList, PendingRuns, RunAnswer


@dataclass(frozen=True)
class Services:
    """The client and the settings of the inbox.

    `signer` signs decisions, where the worker trusts this inbox to name the approver.
    `temporal_ui` is the address of Temporal's UI, `catalog` what programs may list.
    A claim ends after `claim_for`.
    """

    client: HoldfastClient
    signer: Signer | None = None
    temporal_ui: str | None = None
    programs: Programs = field(default_factory=Programs)
    permissions: Permissions = field(default_factory=Permissions)
    catalog: Catalog | None = None
    claim_for: timedelta = DEFAULT_CLAIM

    @cached_property
    def pending(self) -> PendingRuns:
        """Return the list of pending approvals that all pages share."""
        return PendingRuns(self.client)

    async def pending_for(self, person: Person) -> PendingList:
        """Return the runs with pending approvals that a person may see; raises as `read` does."""
        return self._visible(person, await self.pending.read())

    def badge(self, person: Person) -> str:
        """Return the number of approvals for a person, as last read; empty for none.

        A run that has not answered counts as one.
        """
        found, key = self._visible(person, self.pending.peek()), (person.groups, person.may)
        if key not in found.marks:
            runs = self.to_decide(person, found)
            kept, count = self.pending.answers.kept(runs), 0
            for run in runs:
                if isinstance(answer := kept.get(run.id), list):
                    count += sum(is_approver(person, one.approvers) for one in answer)
                else:
                    count += 1
            found.marks[key] = f"{count:,}" if count else ""
        return found.marks[key]

    def to_decide(self, person: Person, found: PendingList) -> list[RunListing]:
        """Return the runs of a list with approvals for a person who may decide on them."""
        own = filter(RunFilter(groups=(names.FOR_ANYBODY, *person.groups)).matches, found.runs)
        return [run for run in own if "decide" in self.permissions.access(person, run).rights]

    def _visible(self, person: Person, found: PendingList) -> PendingList:
        if (scope := self.permissions.scope(person)) is None:
            return found
        if scope not in found.scoped:
            has_groups = not found.missing_attributes
            runs = self.permissions.visible(person, found.runs, has_groups=has_groups)
            found.scoped[scope] = replace(found, runs=runs, count=len(runs))
        return found.scoped[scope]

    async def access(self, person: Person, run_id: str) -> RunAccess:
        """Return what a person may do on a run.

        Raises:
            HoldfastError: the run does not exist, or Temporal does not answer.
        """
        if self.permissions.rules is None:
            return RunAccess(person, ALL & person.may)
        run = self.client.run(run_id)
        found = await run.share("description", run.describe)
        return self.permissions.access(person, RunListing.of(found))

    async def require(
        self, person: Person, right: Right | Collection[Right], run_id: str
    ) -> RunAccess:
        """Return what a person may do on a run, if they have the right, or one of the rights.

        Raises:
            NoSuchRunError: the run does not exist, or the person may not know that it does.
            NotPermittedError: the person has other rights on it.
            HoldfastError: Temporal does not answer.
        """
        rights = (right,) if isinstance(right, str) else right
        try:
            found = await self.access(person, run_id)
        except HoldfastError as error:
            # Also of a workflow that is no run.
            if error.exit_code != NO_SUCH or self.permissions.rules is None:
                raise
            found = RunAccess(person, Rights())
        if not found.rights.isdisjoint(rights):
            return found
        if found.is_hidden:
            await found.hide(run_id)
        lacking = " or ".join(f"`{each}`" for each in sorted(rights))
        raise NotPermittedError(f"your permissions on run {run_id} do not include {lacking}")

    async def compare(self, person: Person, run_id: str, other_id: str) -> RunComparison:
        """Return two runs side by side; the person may read the first.

        Raises:
            NoSuchRunError: one does not exist, or the person may not know that it does.
            NotPermittedError: the person may not read the second.
            HoldfastError: a run does not answer.
        """
        await self.require(person, "read", other_id)
        runs = [self.client.run(each) for each in (run_id, other_id)]
        found = [await read_recorded_run(run, unread="not read here") for run in runs]
        # Two long logs take a second: in a thread, they do not block other requests.
        return await asyncio.to_thread(compare, *found)

    async def approvals(self, access: RunAccess, run_id: str) -> list[PendingApproval]:
        """Return the pending approvals of a run that a person may see.

        Raises:
            NoSuchRunError: the person may not know that the run exists.
            HoldfastError: the run does not answer.
        """
        pending: Sequence[PendingApproval] = ()
        try:
            async with access.time_to_answer():
                pending = await self.client.run(run_id).approvals()
        except (HoldfastError, TimeoutError):
            if not access.is_hidden:
                raise
        found = [one for one in pending if access.sees(one.approvers)]
        if access.is_hidden and not found:
            await access.hide(run_id)
        return found

    def visible_answers(
        self, person: Person, runs: Iterable[RunListing], answers: Mapping[str, RunAnswer]
    ) -> dict[str, RunAnswer]:
        """Return the answers of runs, as far as a person may see them."""
        if self.permissions.scope(person) is None:
            return dict(answers)
        seen = dict[str, RunAnswer]()
        for run in runs:
            access, answer = self.permissions.access(person, run), answers.get(run.id)
            if isinstance(answer, list):
                answer = [one for one in answer if access.sees(one.approvers)]
            elif access.is_hidden:
                answer = []
            if answer is not None:
                seen[run.id] = answer
        return seen

    async def list_runs(
        self, person: Person, wanted: RunFilter, size: int, after: bytes | None
    ) -> tuple[list[RunListing], bytes | None]:
        """Return a page of the runs that a person may list; raises as `list_page` does."""
        if (terms := self.permissions.query(person)) is None:
            return [], None
        found, token = await self.client.list_page(f"{wanted}{terms}", size, after)
        accesses = ((run, self.permissions.access(person, run)) for run in found)
        return [run for run, access in accesses if not access.rights.isdisjoint(LISTED)], token

    def link_to(self, run_id: str, execution: str = "") -> str | None:
        """Return the page of an execution in Temporal's UI, by default of the newest one."""
        if self.temporal_ui is None:
            return None
        where = f"namespaces/{quote(self.client.temporal.namespace, safe='')}/workflows"
        one = f"/{quote(execution, safe='')}" if execution else ""
        return f"{self.temporal_ui.rstrip('/')}/{where}/{quote(run_id, safe='')}{one}"

    async def decide_by(
        self,
        person: Person,
        run_id: str,
        approval: PendingApproval,
        said: Mapping[str, Any],
        id: str | None = None,
    ) -> Receipt:
        """Send a person's decision on a call as it is; raises as `decide` does, or if unfit.

        Of two decisions with the same id, the run takes the first.
        """
        bound = {"callId": approval.call_id, "digest": approval.digest, "nonce": approval.nonce}
        values = {**said, **bound, "by": person.name, "groups": [*person.groups]}
        decision = read_input(Decision, values, "decision", "see its form")
        return await self.decide(run_id, approval, decision, id)

    async def decide(
        self, run_id: str, approval: PendingApproval, decision: Decision, id: str | None = None
    ) -> Receipt:
        """Sign a decision where the inbox signs, and send it to the run.

        It is on behalf of the approvers who are away, and whose substitute has decided.

        Raises:
            DecisionRejectedError: the run rejects it.
            HoldfastError: the run does not answer or has ended, or the decision cannot be signed.
        """
        run, receipt = self.client.run(run_id), None
        if decision.token is None and decision.by:
            who = Person(decision.by, tuple(decision.groups))
            away = [one.person for one in await self.away(who, approval)]
            decision = decision.model_copy(update={"on_behalf_of": away})
        if self.signer is not None and approval.signed and decision.token is None:
            decision = self.signer.sign(decision, approval, run_id)
        try:
            receipt = await run.decide(decision, id)
        except RejectedError as refusal:
            # After a crash, a run that replays may not know its pending call for a moment.
            if refusal.code != names.NO_SUCH_CALL:
                raise
            pending = [(one.call_id, one.digest) for one in await run.approvals()]
            if (decision.call_id, decision.digest) not in pending:
                raise
            receipt = await run.decide(decision, id)
        finally:
            is_approved = receipt is not None and receipt.decided and receipt.decision == "approve"
            self.pending.recheck(run_id, approval if is_approved else None)
        return receipt

    async def away(self, person: Person, approval: PendingApproval) -> list[Absence]:
        """Return the absences of approvers of a call, whose substitute a person is."""
        if not approval.approvers:
            return []  # anyone decides
        own = own_substitutions(await self.client.absences.read(), person.name)
        return find_represented(own, approval.approvers, person.groups)

    async def set_absence(self, person: Person, away: Mapping[str, Any] | None) -> None:
        """Set the absence of a person, or end it.

        Raises:
            HoldfastError: it is invalid, or the worker does not answer.
        """
        if person.is_program or "decide" not in person.may:
            raise forbidden("a program is not away; send a person’s token that may `decide`")
        values = {"person": person.name, "groups": [*person.groups], "away": away}
        await self.client.set_absence(read_input(Absence, values, "absence", "see its form"))

    async def claim(self, person: Person, run: str, call: str, *, gives_back: bool) -> None:
        """Show others that a person looks at a call, or does not any more.

        Raises:
            RejectedError: the run rejects it.
            HoldfastError: the run does not answer or has ended.
        """
        who: dict[str, Any] = {"by": person.name, "groups": [*person.groups]}
        seconds = 0 if gives_back else int(self.claim_for.total_seconds())
        values = {"callId": call, **who, "seconds": seconds}
        try:
            claim = read_input(ApprovalClaim, values, "claim", "see its form")
            await self.client.run(run).claim(claim)
        finally:
            self.pending.recheck(run)

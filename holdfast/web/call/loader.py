"""Load one call with everything that its page shows, from Temporal and from the run.

A `OpenApproval` needs a decision; a `ClosedApproval` no longer does, and has an outcome.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from holdfast.client.errors import NO_SUCH, EncryptedError, HoldfastError
from holdfast.client.remote_run import summary_of
from holdfast.client.run_lists import RunFilter, RunListing
from holdfast.runtime.narration.log_narration import NarrationLine
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.budget import Budget
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.log_entry import LAST_ENTRIES
from holdfast.schemas.phrases import quote_value
from holdfast.schemas.run import RunReport
from holdfast.schemas.tool import ShownTool, shown_parameters
from holdfast.web.auth.permissions import RunAccess, has_decided, is_approver
from holdfast.web.auth.sessions import Person
from holdfast.web.call.history import CallHistory, QuestionRound, history_of
from holdfast.web.listing.page_query import EXPIRING, ListView, sort_runs
from holdfast.web.listing.pending_runs import request_key
from holdfast.web.pages import address
from holdfast.web.services import Services

MAX_SIMILAR: Final = 5
SIMILAR_SECONDS: Final = 1.5
_NAME_CHARS: Final = 80
_MAX_NEXT_RUNS: Final = 4
NEXT_SECONDS: Final = 3.0
_NEW_LIMIT: Final = "New limit (the total, not an addition)"
# The prefix of the mark of a closed call; the mark of a pending one is a digest.
CLOSED_MARK: Final = "over:"


@dataclass(frozen=True)
class OpenApproval:
    """A call that needs a decision; `tools` are the tools of its calls by name.

    `summary` is that of its run.
    """

    run_info: RunListing
    approval: PendingApproval
    others: list[PendingApproval]
    history: CallHistory
    report: RunReport
    tools: Mapping[str, ShownTool] = field(default_factory=dict)
    summary: str = ""

    @cached_property
    def view(self) -> QuestionView:
        """Return the question in words."""
        return QuestionView.of(self.approval, is_single_call=self.run_info.single)

    @property
    def tool(self) -> ShownTool | None:
        """Return the tool of the call; None for a plan or a budget."""
        return self.tools.get(self.approval.tool)

    @property
    def is_whole(self) -> bool:
        """Report whether the query returned all arguments."""
        return self.approval.find_round() is not None

    @property
    def schema(self) -> Any:
        """Return the schema of its arguments; for a run's own budget, the schema of its limit."""
        if self.approval.kind != "budget" or self.approval.shared_budget:
            parameters = True if self.tool is None else self.tool.parameters
            return shown_parameters(parameters, self.approval.arguments)
        [name, *_] = self.approval.arguments
        rules = dict(Budget.model_json_schema(by_alias=True)["properties"][name])
        kinds = [one for one in rules.pop("anyOf", []) if one.get("type") != "null"]
        rules.pop("default", None)
        return {
            "type": "object",
            "properties": {name: {**rules, **(kinds[0] if kinds else {}), "title": _NEW_LIMIT}},
            "required": [name],
            "additionalProperties": False,
        }

    @property
    def output_schema(self) -> Any:
        """Return the schema of the answer, or of the call's result; without one, any value fits."""
        if self.approval.form:
            return self.approval.form
        tool = self.tool
        return {} if tool is None or not isinstance(tool.output, dict) else tool.output

    @property
    def repeats(self) -> list[NarrationLine]:
        """Return the starts of earlier calls whose side effects it would have again."""
        known = {name for name, tool in self.tools.items() if not tool.side_effects}
        return [line for tool, line in self.history.repeated if tool not in known]

    @property
    def mark(self) -> str:
        """Return a digest that changes with the question and its decisions, `/`, and its claim."""
        one = self.approval
        asked = [one.digest, one.nonce, one.requested_at, len(one.decisions)]
        claim = one.claim and sha256(canonical_json(one.claim.to_json()))
        return f"{sha256(canonical_json(asked))}/{claim or ''}"


@dataclass(frozen=True)
class ClosedApproval:
    """A call that no longer needs a decision; `question` is the last one, `others` are pending."""

    run_info: RunListing
    history: CallHistory
    question: QuestionRound
    report: RunReport
    run_ended: bool
    others: Sequence[PendingApproval] = ()
    tools: Mapping[str, ShownTool] = field(default_factory=dict)

    @property
    def approval(self) -> PendingApproval:
        """Return the last question, as it was requested."""
        return self.question.approval

    @property
    def is_settled(self) -> bool:
        """Report whether the outcome can no longer change."""
        return self.run_ended or self.history.stage in ("done", "failed", "settled")

    @property
    def mark(self) -> str:
        """Return a mark that changes with the outcome."""
        one = self.history
        steps = "".join(step.tone[0] for step in one.steps)
        lines = len(one.outcome_lines)
        return f"{CLOSED_MARK}{self.question.number}:{one.stage}:{lines}:{steps}:{self.run_ended}"


async def load_call(
    parts: Services, run_id: str, call_id: str, access: RunAccess | None = None
) -> OpenApproval | ClosedApproval:
    """Load a call as it is now, without calls that a person with this access may not see.

    Raises:
        NoWorkerError, StuckError: no worker answers for the run.
        HoldfastError: the run or the call does not exist.
    """
    run = parts.client.run(run_id)
    description = await run.describe()
    found = await run.call(call_id)
    # It may have ended since it was described.
    last_types = {entry["type"] for entry in found.entries[-1:]}
    is_ended = description.close_time is not None or not last_types.isdisjoint(LAST_ENTRIES)
    # A run that was terminated has not withdrawn its approvals.
    pending = [] if is_ended else found.pending
    others = [
        one
        for one in pending
        if one.call_id != call_id and (access is None or access.sees(one.approvers))
    ]
    info = RunListing.of(description)
    here = None if is_ended else found.approval(call_id)
    history = history_of(found.entries, run_id, call_id, access, found.status.calls)
    if here is not None:
        title = here.run_title
        with suppress(EncryptedError):
            title = title or await summary_of(description) or ""
        report, tools = found.status, found.tools
        return OpenApproval(info, here, others, history, report, tools, title)
    if history.question is None:
        problem = f"no call {quote_value(call_id)} of run {run_id} is pending"
        raise HoldfastError(problem, "see the pending approvals, or the run", NO_SUCH)
    known = history.question, found.status, is_ended, others, found.tools
    return ClosedApproval(info, history, *known)


async def load_visible_call(
    parts: Services, access: RunAccess, run_id: str, call_id: str
) -> OpenApproval | ClosedApproval:
    """Load a call that a person may see; raises as `load_call` does, or `NoSuchRunError`."""
    try:
        async with access.time_to_answer():
            found = await load_call(parts, run_id, call_id, access)
    except (HoldfastError, TimeoutError):
        if not access.is_hidden:
            raise
        found = None
    if found is None or not access.sees(found.approval.approvers):
        await access.hide(run_id)
    return found


async def find_next_pending(parts: Services, closed: ClosedApproval, person: Person) -> str | None:
    """Return the page of another pending call that this person may decide, if one is found soon.

    Calls of the same run come first, then those that expire first.
    """

    def find(run_id: str, pending: Iterable[PendingApproval]) -> str | None:
        for one in pending:
            if is_approver(person, one.approvers) and not has_decided(person, one):
                return address("waiting", run_id, one.call_id)
        return None

    if found := find(closed.run_info.id, closed.others):
        return found
    with suppress(HoldfastError, TimeoutError):
        async with asyncio.timeout(NEXT_SECONDS):
            pending = await parts.pending_for(person)
            runs = sort_runs(parts.to_decide(person, pending), ListView(order=EXPIRING))
            for id in {
                run.id: None for run in runs[:_MAX_NEXT_RUNS] if run.id != closed.run_info.id
            }:
                with suppress(HoldfastError):
                    if found := find(id, await parts.client.run(id).approvals()):
                        return found
    return None


@dataclass(frozen=True)
class SimilarCall:
    """A call of the same tool in another run: pending, or approved a short time ago."""

    href: str
    run: str
    same_arguments: bool
    is_approved: bool = False


async def find_similar_calls(
    parts: Services, pending: OpenApproval, person: Person
) -> list[SimilarCall]:
    """Return pending calls of the same tool, or plans, for the same principal in other runs.

    Calls with the same arguments come first, of which this process has approved some already. The
    search ends after `SIMILAR_SECONDS`: the result is a hint against approving something twice.
    """
    if pending.approval.kind not in ("call", "plan"):
        return []
    found: list[SimilarCall] = []
    tool, own = pending.approval.tool, request_key(pending.approval)

    def add(run: RunListing, one: PendingApproval, *, is_approved: bool = False) -> None:
        if one.tool == tool and parts.permissions.access(person, run).sees(one.approvers):
            here, name = address("waiting", run.id, one.call_id), one_line(run.id, _NAME_CHARS)
            found.append(SimilarCall(here, name, request_key(one) == own, is_approved))

    info = pending.run_info
    by_agent = "" if info.principal else info.agent or ""
    is_similar = RunFilter(by_agent, tool, info.principal or "").matches
    for run, one in parts.pending.approved:
        if is_similar(run) and request_key(one) == own:
            add(run, one, is_approved=True)
    with suppress(HoldfastError, TimeoutError):
        async with asyncio.timeout(SIMILAR_SECONDS):
            runs = (await parts.pending_for(person)).runs
        others = [run for run in runs if is_similar(run) and run.id != info.id][:MAX_SIMILAR]
        answers = await parts.pending.answers.read(others, SIMILAR_SECONDS) if others else {}
        for run in others:
            if isinstance(answer := answers.get(run.id), list):
                for one in answer:
                    add(run, one)
    return sorted(found, key=lambda one: not one.same_arguments)[:MAX_SIMILAR]

"""Simulate approval policies over recorded runs: what people would have been asked.

    logs ─► recorded calls ─► the terms of a candidate for each ─► differences

An agent that plans its calls asks once a turn; for a run that was planned, as often as recorded.
An approval of all further calls (`remember`) is not simulated: calls that it released are counted
apart.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import mean
from typing import Any, Final

from holdfast.catalog.loader import Catalog
from holdfast.client.errors import HoldfastError, NoWorkerError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.records.recorded_calls import (
    ApprovalTerms,
    RecordedCall,
    RecordedLog,
    RecordedQuestion,
)
from holdfast.client.run_lists import RunListing
from holdfast.runtime.narration.phrases import decided_phrase, rule_phrase
from holdfast.runtime.text_safety import holdfast_command, one_line
from holdfast.schemas import names
from holdfast.schemas.agent import AgentRules
from holdfast.schemas.phrases import no_agent
from holdfast.schemas.tool import APPROVAL_DEFAULTS, ResolvedTool, loop_arguments
from holdfast.validation.arguments import InvalidArguments
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.approvals import policy as policies
from holdfast.workflows.engine.execution.preparation import fit_arguments
from holdfast.workflows.engine.skills import allowed_tools

# A worker answers some hundred queries a second, one after the other: more would wait there.
_CONCURRENT: Final = 32
_REASON_CHARS: Final = 200
Row = dict[str, Any]


class CatalogPolicies:
    """The policies of a catalog, applied to recorded calls as a run applies them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog, self._limits = catalog, ValidationLimits()

    def missing(self, run: RunListing, call: RecordedCall) -> str:
        """Return why a call cannot be simulated; empty if it can."""
        try:
            self._arguments(self._tool(self._rules(run), call), call)
        except LookupError as error:
            return one_line(str(error.args[0]), _REASON_CHARS)
        except InvalidArguments:
            return one_line(f"the arguments do not fit `{call.tool}`", _REASON_CHARS)
        return ""

    def plans(self, run: RunListing, call: RecordedCall) -> bool:
        """Return whether people decide on all calls of its turn at once: not on a skill's own."""
        return self._rules(run).plan == "lazy" and call.tool != call.skill

    def terms(
        self, run: RunListing, calls: Sequence[RecordedCall], *, is_plan: bool
    ) -> ApprovalTerms | None:
        """Return who decides on a call, or on the calls of a plan; None if it runs unasked."""
        rules, found = self._rules(run), dict[str, policies.AppliedPolicy]()
        for call in calls:
            tool, own = self._tool(rules, call), list[policies.AppliedPolicy]()
            unknown: list[dict[str, Any] | None] = [None] * (is_plan and call.has_references)
            for arguments in unknown or self._arguments(tool, call):
                required = policies.required_policies(tool, rules, arguments, self._limits)
                if tool.person and not required:
                    budget = self._limits.budget()
                    required = policies.applied_policies(tool, rules, arguments, budget)
                own += required
            if is_plan and not own:
                own = [policies.AppliedPolicy(rules.approval.over(APPROVAL_DEFAULTS))]
            found |= {one.key(tool.name): one for one in own}
        if not found:
            return None
        applied = [one.rule for one in found.values() if one.rule is not None]
        return ApprovalTerms.of(policies.combined_policy([*found.values()]), applied)

    def _rules(self, run: RunListing) -> AgentRules:
        if run.single:
            tools = self._catalog.definitions.tools
            return AgentRules(name="the catalog", tools=[*tools.values()])
        if (agent := self._catalog.agents.get(run.agent or "")) is None:
            raise LookupError(no_agent(run.agent or "unknown"))
        return agent

    def _tool(self, rules: AgentRules, call: RecordedCall) -> ResolvedTool:
        tools = [*allowed_tools(rules, call.skill), *rules.tools]
        for skill in rules.skills:
            tools += skill.tools
            if skill.activity is not None:
                # A run has the policy of its tool, and parameters of its own.
                own = skill.rules or ResolvedTool(name=skill.name, parameters={})
                changes = {"name": skill.name, "parameters": {}}
                tools.append(own.model_copy(update=changes))
        for tool in tools:
            if tool.name == call.tool:
                return tool
        is_open = rules.name in self._catalog.mcp_agents
        hint = " but perhaps of an MCP server: these are not connected to" if is_open else ""
        raise LookupError(f"`{rules.name}` has no tool `{call.tool}`{hint}")

    def _arguments(self, tool: ResolvedTool, call: RecordedCall) -> list[dict[str, Any] | None]:
        """Return the arguments as this tool receives them, of a loop for each item."""
        items = loop_arguments(call.proposed)
        known = [call.proposed] if items is None else [one for one in items if one is not None]
        return [
            fit_arguments(tool, one, self._limits) if isinstance(one, dict) else None
            for one in known
        ]


@dataclass
class PolicySimulation:
    """The differences that a candidate makes; lists are rows of tables.

    Calls that would run are `unasked` if people denied or changed them, or `expired`; `weaker` are
    those that would lose approvers. `recorded` and `simulated` count the questions, in all and by
    `tool`, `group` and `rule`. `missing` has why calls cannot be simulated, and `unread` why a run
    could not be read, or only in part. `released` calls ran by an approval of all further ones.
    """

    candidate: CatalogPolicies
    runs: int = 0
    unasked: list[Row] = field(default_factory=list)
    expired: list[Row] = field(default_factory=list)
    weaker: list[Row] = field(default_factory=list)
    recorded: Counter[tuple[str, str]] = field(default_factory=Counter)
    simulated: Counter[tuple[str, str]] = field(default_factory=Counter)
    released: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    unread: list[Row] = field(default_factory=list)
    saved_hours: float = 0.0
    _waits: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _added: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """Return the differences; each list is a table, by the names of its columns."""
        return {
            "runs": self.runs,
            "unasked": self.unasked,
            "expired": self.expired,
            "weaker": self.weaker,
            "questions": [
                {"by": by, "name": name, "recorded": old, "simulated": new, "change": new - old}
                for by, name in sorted({*self.recorded, *self.simulated})
                for old, new in [(self.recorded[by, name], self.simulated[by, name])]
            ],
            "missing": [{"calls": n, "reason": why} for why, n in self.missing.most_common()],
            "unread": self.unread,
            "released": self.released,
            "savedHours": round(self.saved_hours, 2),
            "addedHours": round(self.added_hours, 2),
        }

    @property
    def added_hours(self) -> float:
        """Return an estimate: a further question waits as long as recorded ones, on average."""
        every = [hours for some in self._waits.values() for hours in some] or [0.0]
        return sum(n * mean(self._waits.get(tool) or every) for tool, n in self._added.items())

    def add(self, run: RunListing, calls: Sequence[RecordedCall]) -> None:
        """Add the calls of a run."""
        self.runs += 1
        groups = self._groups(run, calls)
        questions, kept = _questions(chain(*groups.values())), set[str]()
        was_planned = any(one.is_plan for one in questions)
        for key, group in groups.items():
            is_plan = isinstance(key, int)
            asked, after = _questions(group), self.candidate.terms(run, group, is_plan=is_plan)
            kept |= {one.id for one in asked if after is not None}
            if after is not None and is_plan and was_planned:
                for one in asked:
                    _count(self.simulated, one.asked.tool, after if one.is_plan else one.terms)
                asked = [one for one in asked if one.is_plan]
            elif after is not None:
                tool = "plan" if is_plan else group[0].tool
                _count(self.simulated, tool, after)
                self._added[tool] += not asked
            for one in asked if is_plan else asked[-1:]:
                self._compare(run, group[0], one, after, is_plan=is_plan)
        for one in questions:
            _count(self.recorded, one.asked.tool, one.terms)
            self.saved_hours += one.waited_hours * (one.id not in kept)
            if one.ended_at:
                self._waits[one.asked.tool].append(one.waited_hours)

    def _groups(
        self, run: RunListing, calls: Sequence[RecordedCall]
    ) -> dict[str | int, list[RecordedCall]]:
        """Return the calls that people decide on together: of a turn, or a single one by its id."""
        groups = defaultdict[str | int, list[RecordedCall]](list)
        for call in calls:
            if why := self.candidate.missing(run, call):
                self.missing[why] += 1
            elif call.is_released:
                self.released += 1
            else:
                groups[call.turn if self.candidate.plans(run, call) else call.id].append(call)
        return groups

    def _compare(
        self,
        run: RunListing,
        call: RecordedCall,
        question: RecordedQuestion,
        after: ApprovalTerms | None,
        *,
        is_plan: bool,
    ) -> None:
        row: Row = {"run": run.id, "call": call.id, "tool": call.tool}
        row |= {"call": question.id, "tool": "plan"} if is_plan else {}
        if after is None and call.change is not None:
            row["decision"] = decided_phrase(call.change)
            row["see"] = holdfast_command("show", run.id)
            self.unasked.append({**row, "arguments": call.proposed})
        elif question.is_expired and (after is None or after.runs_expired):
            arguments = question.asked.arguments if is_plan else call.proposed
            self.expired.append({**row, "arguments": arguments})
        elif after is not None and question.terms.loses_approvers(after):
            self.weaker.append({**row, "recorded": str(question.terms), "simulated": str(after)})


async def simulate_policies(
    client: HoldfastClient,
    runs: Sequence[RunListing],
    candidate: CatalogPolicies,
    progress: Callable[[int, int], None],
) -> PolicySimulation:
    """Read the logs of runs by queries to their workers, and simulate a candidate.

    `progress` receives how many runs were looked at, and how many there are.
    """
    found, silent = PolicySimulation(candidate), dict[str, HoldfastError]()
    latest = {run.id: run for run in reversed(runs)}
    why = "a later run has the same id, and its log is read"
    found.unread += ({"run": run.id, "reason": why} for run in runs if latest[run.id] is not run)
    listed = [*latest.values()][::-1]
    for start in range(0, len(listed), _CONCURRENT):
        some = listed[start : start + _CONCURRENT]
        reads = (_read_log(client, run, silent) for run in some)
        for run, log in zip(some, await asyncio.gather(*reads), strict=True):
            if isinstance(log, HoldfastError):
                found.unread.append({"run": run.id, "reason": str(log)})
                continue
            found.add(run, log.decided_calls)
            if log.unread:
                why = "a part of its log is missing or of a newer version; the rest was simulated"
                found.unread.append({"run": run.id, "reason": why})
        progress(start + len(some), len(listed))
    return found


async def _read_log(
    client: HoldfastClient, run: RunListing, silent: dict[str, HoldfastError]
) -> RecordedLog | HoldfastError:
    """Return the log of a run, or why it cannot be read; no worker is at a `silent` task queue."""
    if run.task_queue in silent:
        return silent[run.task_queue]
    log = RecordedLog()
    try:
        async for entry in client.run(run.id).entries(names.CONTEXT):
            log.add(entry)
    except HoldfastError as error:
        if type(error) is NoWorkerError:
            silent[run.task_queue] = error
        return error
    return log


def _questions(calls: Iterable[RecordedCall]) -> list[RecordedQuestion]:
    """Return the questions on calls, each once."""
    return [*{each.id: each for call in calls for each in call.questions}.values()]


def _count(counts: Counter[tuple[str, str]], tool: str, terms: ApprovalTerms) -> None:
    rules = [f"{each.tool}: {each.name or rule_phrase(each)}" for each in terms.rules]
    counts.update([("all", ""), ("tool", tool), *(("rule", one) for one in dict.fromkeys(rules))])
    counts.update(("group", each) for each in terms.groups or ("anyone",))

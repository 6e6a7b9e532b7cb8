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
from typing import Any, Final, Protocol

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
from holdfast.runtime.text_safety import holdfast_command
from holdfast.schemas import names

# A worker answers some hundred queries a second, one after the other: more would wait there.
_CONCURRENT: Final = 32
Row = dict[str, Any]


class CandidatePolicies(Protocol):
    """The approval policies that are simulated."""

    def missing(self, run: RunListing, call: RecordedCall) -> str:
        """Return why a call cannot be simulated; empty if it can."""

    def plans(self, run: RunListing, call: RecordedCall) -> bool:
        """Return whether people decide on all calls of its turn at once."""

    def terms(
        self, run: RunListing, calls: Sequence[RecordedCall], *, is_plan: bool
    ) -> ApprovalTerms | None:
        """Return who decides on a call, or on the calls of a plan; None if it runs unasked."""


@dataclass
class PolicySimulation:
    """The differences that a candidate makes; lists are rows of tables.

    Calls that would run are `unasked` if people denied or changed them, or `expired`; `weaker` are
    those that would lose approvers. `recorded` and `simulated` count the questions, in all and by
    `tool`, `group` and `rule`. `missing` has why calls cannot be simulated, and `unread` why a run
    could not be read, or only in part. `released` calls ran by an approval of all further ones.
    """

    candidate: CandidatePolicies
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
    candidate: CandidatePolicies,
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

"""The values of the templates of a run."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from holdfast.client import result
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.runtime.text_safety import arguments_line, as_text, clean, one_line, shorten
from holdfast.schemas import names
from holdfast.schemas.run import RunResult, Spent
from holdfast.web.auth.permissions import RunAccess
from holdfast.web.page_text import budget_uses, status_label
from holdfast.web.pages import address
from holdfast.web.run.snapshot import LoadedRun
from holdfast.web.run.status import calls_in_progress, status_items
from holdfast.web.run.timeline import Timeline
from holdfast.web.services import Services

MAX_OUTPUT_CHARS: Final = 20_000
MAX_DELEGATES: Final = 100
_TITLE_CHARS: Final = 200
_NAME_CHARS: Final = 100


@dataclass
class DelegateBranch:
    """A delegate with its own delegates."""

    call: str
    agent: str
    href: str
    status: str
    tone: str
    children: list["DelegateBranch"] = field(default_factory=list)


async def build_run_view(parts: Services, seen: LoadedRun, access: RunAccess) -> dict[str, Any]:
    """Return the values of the page of a run, for a person with this access to it.

    It shows entries up to `last`, after `earlier_count` earlier ones.

    Raises:
        HoldfastError: Temporal does not answer.
    """
    listed = parts.permissions.query(access.person)
    delegates, has_more_delegates = await read_delegates(parts.client, seen, listed)
    info, report, ending = seen.info, seen.report, seen.ending
    timeline = Timeline(info.id, seen.earlier_entries, is_single_call=info.single)
    # In this order: the timeline learns the labels of calls from the entries.
    lines = timeline.lines(seen.entries)
    status, code = report.status if seen.has_answered else info.status, None
    if ending is not None:
        status, code = ending.status, ending.code
    label, tone = status_label(status, code)
    entries = [*seen.earlier_entries, *seen.entries]
    last = entries[-1]["n"] if entries else 0
    output = ""
    if ending is not None and ending.result is not None:
        value = ending.stored_output_note or ending.result.output
        output = "" if value is None else shorten(as_text(value), MAX_OUTPUT_CHARS)
    duration = None if info.ended is None else (info.ended - info.started).total_seconds()
    facts = {
        "Type": "A single call, without an agent" if info.single else "",
        "Agent": info.agent or "",
        "On behalf of": info.principal or "",
        "Skill": report.skill or "",
        "Turn": "" if ending else str(report.turn or ""),
        "Duration": "" if duration is None else str(timedelta(seconds=round(duration))),
    }
    return {
        "id": info.id,
        "info": info,
        "title": _title(seen),
        "status": label,
        "tone": tone,
        "status_items": status_items(seen, timeline.name),
        "calls": calls_in_progress(seen, timeline.name),
        "facts": [(name, one_line(text, _TITLE_CHARS)) for name, text in facts.items() if text],
        "used_text": used_text(seen),
        "budgets": [*budget_uses(report.budget)],
        "delegates": delegates,
        "has_more_delegates": has_more_delegates,
        "output": output,
        "lines": lines,
        "earlier_count": seen.entries[0]["n"] - 1 if seen.entries else 0,
        "last": last,
        "has_more": last < report.log.entries and seen.has_answered,
        "is_live": ending is None,
        "has_answered": seen.has_answered,
        "is_loading": not seen.has_answered and seen.problem is None,
        "queued": [(message.number, result.queued_line(message)) for message in report.queued],
        "rights": access.rights,
        "takes_messages": ending is None and not info.single,
        "awaits_message": status == "awaiting_message",
        "temporal_link": parts.link_to(info.id),
    }


def _title(seen: LoadedRun) -> str:
    info, summary = seen.info, one_line(seen.info.summary, _TITLE_CHARS)
    if not info.single:
        return summary or (f"Run of {one_line(info.agent, _TITLE_CHARS)}" if info.agent else "Run")
    calls = (entry for entry in seen.entries if entry["type"] == "tool_call")
    tool = next((entry.get("label") or entry["tool"] for entry in calls), "")
    tool = str(tool) or next(iter(info.tools), "")
    for entry in (*seen.earlier_entries, *seen.entries):
        if entry["type"] == "decision" and (entry.get("decided") or {}).get("decision") == "edit":
            # The summary was written when the call was requested, before the edit.
            summary = one_line(f"{tool}: {arguments_line(entry.get('arguments'))}", _TITLE_CHARS)
    return summary or (f"Call of {one_line(tool, _TITLE_CHARS)}" if tool else "Call")


def state_sections(shared: Any, own: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the shared state and that of each instance as text."""
    found = [("State", as_text(shared))] if shared or not own else []
    found += [(f"State of {clean(name)}", as_text(value)) for name, value in own.items()]
    return [(name, shorten(text, MAX_OUTPUT_CHARS)) for name, text in found]


def used_text(seen: LoadedRun) -> str:
    """Return `3 turns, 4 calls, 1,234 tokens in, 220 out, cost unknown`, or nothing if unknown."""
    spent: RunResult | Spent | None = None
    if seen.ending is not None:
        spent = seen.ending.result or seen.ending.spent
    budget: Mapping[str, Any] = seen.report.budget
    if spent is None and budget:
        # In a conversation, those of the whole are beside those of the message.
        both = (budget.get(name, {}) for name in ("maxTurns", "maxCalls"))
        turns, calls = (each.get("total", each).get("used") or 0 for each in both)
        spent = Spent(turns=turns, calls=calls, usage=seen.report.usage)
    if spent is None:
        return ""
    unknown = spent.turns and spent.usage.cost is None
    return result.usage_line(spent) + (", cost unknown" if unknown else "")


async def read_delegates(
    client: HoldfastClient, seen: LoadedRun, listed: str | None = ""
) -> tuple[list[DelegateBranch], bool]:
    """Return the delegates of a run with theirs, and whether some were left out.

    `listed` are further terms of the query (`Permissions.query`).

    Raises:
        HoldfastError: Temporal does not answer.
    """
    root = seen.info.root.replace("\\", "\\\\").replace('"', '\\"')
    query = (
        f'RootWorkflowId = "{root}" AND WorkflowType = "{names.AGENT_WORKFLOW}"'
        ' AND ExecutionStatus != "ContinuedAsNew"'
    )
    found = [] if listed is None else await client.list_runs(query + listed, MAX_DELEGATES + 1)
    children: dict[str | None, list[DelegateBranch]] = defaultdict(list)
    branches: dict[str, DelegateBranch] = {}
    for run in sorted(found, key=lambda run: run.started):
        label, tone = status_label(run.status)
        call = clean(run.id.removeprefix(f"{run.parent}."))
        agent = one_line(run.agent or "a run", _NAME_CHARS)
        branches[run.id] = DelegateBranch(call, agent, address("run", run.id), label, tone)
        children[run.parent].append(branches[run.id])
    for run_id, branch in branches.items():
        branch.children = children[run_id]
    return children[seen.info.id], len(found) > MAX_DELEGATES

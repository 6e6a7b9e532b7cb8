"""The values of the templates of a run: its log, its delegates, and its current activity.

The activity is pending approvals and running calls, or the end and what to do.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from holdfast.client import result
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import MissingAttributesError, RunListing
from holdfast.client.stream.heartbeats import PendingActivity, progress_line
from holdfast.runtime.narration.arguments import readable_name
from holdfast.runtime.narration.phrases import QUEUED_FOR_MODEL, REVIEW
from holdfast.runtime.narration.question_line import argument_line
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.text_safety import (
    arguments_line,
    as_text,
    clean,
    one_line,
    read_time,
    shorten,
)
from holdfast.schemas import names
from holdfast.schemas.run import RunResult, Spent
from holdfast.web.auth.permissions import Permissions, RunAccess
from holdfast.web.auth.sessions import Person
from holdfast.web.forms.fields import MAX_FIELDS, build_fields
from holdfast.web.forms.form_values import FormValue
from holdfast.web.page_text import budget_uses, status_label
from holdfast.web.pages import address, reader_texts
from holdfast.web.run.snapshot import LoadedRun
from holdfast.web.run.timeline import PageLink, Timeline
from holdfast.web.services import Services

Tone = Literal["plain", "good", "bad", "asks"]
Name = Callable[[str, str], str]
_BRIEF_CHARS: Final = 300
_ADVICE: Final = {
    names.MODEL_ERROR: "Check the model's endpoint, key and name in the worker's settings, and"
    " start the run again.",
    names.INVALID_REQUEST: "Fix the request, and start the run again.",
    "budget_exceeded": "Start the run again with a larger budget, or let the agent ask for more"
    " (onLimit: ask).",
    "terminated": "A running call may have happened: check the log before you start the run again.",
    "timed_out": "A running call may have happened: check the log before you start the run again.",
}
_STAGES: Final = {
    "pending": "waiting for another call",
    "queued": "queued",
    "waiting": "waiting for approval",
    "unsure": "outcome unknown: waiting for a decision",
    "running": "running",
    "ended": "finished",
}
MAX_OUTPUT_CHARS: Final = 20_000
MAX_DELEGATES: Final = 100
_TITLE_CHARS: Final = 200
_MAX_DEPTH: Final = 6
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
    delegates, forks, has_more_delegates = await read_branches(parts.client, seen, listed)
    info, report, ending = seen.info, seen.report, seen.ending
    has_forks = may_fork(parts.permissions, access.person, info)
    timeline = Timeline(
        info.id, seen.earlier_entries, is_single_call=info.single, has_forks=has_forks
    )
    # In this order: the timeline learns the labels of calls from the entries.
    lines = timeline.lines(seen.entries)
    status, code = report.status if seen.has_answered else info.status, None
    if ending is not None:
        status, code = ending.status, ending.code
    label, tone = status_label(status, code)
    entries = [*seen.earlier_entries, *seen.entries]
    last = entries[-1]["n"] if entries else 0
    output, fields = "", None
    if ending is not None and ending.result is not None:
        value = ending.stored_output_note or ending.result.output
        output = "" if value is None else as_text(value)
        if value and isinstance(value, dict | list) and len(output) <= MAX_OUTPUT_CHARS:
            schema = report.output_schema
            schema = schema if isinstance(schema, dict) else _schema_of(value)
            fields = build_fields(schema, FormValue(value, {}), prefix="o", room=MAX_FIELDS)
        output = shorten(output, MAX_OUTPUT_CHARS)
    return {
        "id": info.id,
        "info": info,
        "title": _title(seen),
        "status": label,
        "tone": tone,
        "status_items": status_items(seen, timeline.name),
        "calls": calls_in_progress(seen, timeline.name),
        "facts": _facts(seen),
        "used_text": used_text(seen),
        "budgets": [*budget_uses(report.budget)],
        "delegates": delegates,
        "forks": forks,
        "has_more_delegates": has_more_delegates,
        "output": output,
        "output_fields": fields,
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


def _schema_of(value: Any, depth: int = 0) -> dict[str, Any]:
    """Return a schema of a value that has none here, with titles for people."""
    match value:
        case dict() if depth < _MAX_DEPTH:
            parts = {
                key: {"title": readable_name(key)} | _schema_of(one, depth + 1)
                for key, one in value.items()
            }
            return {"type": "object", "properties": parts}
        case list() if depth < _MAX_DEPTH:
            return {"type": "array", "prefixItems": [_schema_of(one, depth + 1) for one in value]}
        case str():
            return {"type": "string"}
        case bool():
            return {"type": "boolean"}
        case _:
            return {}


def may_fork(permissions: Permissions, person: Person, run: RunListing) -> bool:
    """Report whether a person may start a run of the agent of a run that they may read."""
    is_known = not run.single and run.agent not in (None, names.UNNAMED_AGENT)
    return is_known and permissions.may_start(person, run.agent, person.name)


def _facts(seen: LoadedRun) -> list[tuple[str, str]]:
    info, report, duration = seen.info, seen.report, ""
    if info.ended is not None:
        duration = str(timedelta(seconds=round((info.ended - info.started).total_seconds())))
    facts: dict[str, str | None] = {
        "Type": "A single call, without an agent" if info.single else "",
        "Agent": info.agent,
        "On behalf of": info.principal,
        "Skill": report.skill,
        "Turn": "" if seen.ending else str(report.turn or ""),
        "Duration": duration,
    }
    return [(name, one_line(text, _TITLE_CHARS)) for name, text in facts.items() if text]


def _title(seen: LoadedRun) -> str:
    info, named = seen.info, f"{seen.info.agent}: "
    summary = one_line(seen.report.title or (info.summary or "").removeprefix(named), _TITLE_CHARS)
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


async def read_branches(
    client: HoldfastClient, seen: LoadedRun, listed: str | None = ""
) -> tuple[list[DelegateBranch], list[DelegateBranch], bool]:
    """Return the delegates of a run with theirs, its forks, and whether some were left out.

    `listed` are further terms of the query (`Permissions.query`).

    Raises:
        HoldfastError: Temporal does not answer.
    """
    found = [] if listed is None else await _list_branches(client, seen, listed)
    children: dict[str | None, list[DelegateBranch]] = defaultdict(list)
    branches: dict[str, DelegateBranch] = {}
    forks = list[DelegateBranch]()
    for run in sorted(found, key=lambda run: run.started):
        label, tone = status_label(run.status)
        call = clean(run.id.removeprefix(f"{run.parent}."))
        agent = one_line(run.agent or "a run", _NAME_CHARS)
        branches[run.id] = DelegateBranch(call, agent, address("run", run.id), label, tone)
        is_fork = run.forked_from == seen.info.id
        (forks if is_fork else children[run.parent]).append(branches[run.id])
    for run_id, branch in branches.items():
        branch.children = children[run_id]
    return children[seen.info.id], forks, len(found) > MAX_DELEGATES


async def _list_branches(client: HoldfastClient, seen: LoadedRun, listed: str) -> list[RunListing]:
    """List delegates and forks by one query; delegates alone, if the namespace has no forks."""
    root, id = (
        text.replace("\\", "\\\\").replace('"', '\\"') for text in (seen.info.root, seen.info.id)
    )
    which = f'RootWorkflowId = "{root}"'
    if client.lists_forks:
        which = f'({which} OR {names.FORKED_FROM} = "{id}")'
    query = (
        f'{which} AND WorkflowType = "{names.AGENT_WORKFLOW}"'
        ' AND ExecutionStatus != "ContinuedAsNew"'
    )
    try:
        return await client.list_runs(query + listed, MAX_DELEGATES + 1)
    except MissingAttributesError:
        if not client.lists_forks:
            raise
        client.lists_forks = False
        return await _list_branches(client, seen, listed)


@dataclass(frozen=True)
class StatusItem:
    """A current activity or the end of a run, with its reason, advice, and a link to act on it.

    `lapse` is what happens when an approval expires, `progress` the last update of the running
    `call`.
    """

    text: str
    tone: Tone = "plain"
    since: datetime | None = None
    why: str = ""
    advice: str = ""
    link: PageLink | None = None
    expires: datetime | None = None
    lapse: str = ""
    call: str = ""
    progress: str = ""
    command: str = ""


def status_items(seen: LoadedRun, name: Name) -> list[StatusItem]:
    """Return the current activities of a run, the most urgent first; `name` names a call."""
    if seen.ending is not None:
        ended = seen.ending.result
        lines = map(result.queued_line, ended.undelivered if ended is not None else ())
        unread = [StatusItem(f"Not delivered: {line}", "asks") for line in lines]
        return [ended_item(seen.ending, seen.info.ended), *unread]
    items = []
    waits = ", ".join(one_line(tool, _NAME_CHARS) for tool in seen.info.tools)
    if waits and not seen.has_answered:
        text, link = f"Waiting for approval: {waits}.", PageLink(address(), "Pending approvals")
        since, until = seen.info.since, seen.info.until
        items.append(StatusItem(text, "asks", since, link=link, expires=until))
    if seen.problem is not None and not seen.has_answered:
        why, command = reader_texts(seen.problem)
        items.append(StatusItem("The run does not answer.", "bad", why=why, command=command))
    for one in seen.approvals:
        view = QuestionView.of(one, is_single_call=seen.info.single)
        link = PageLink(address("waiting", seen.info.id, one.call_id), REVIEW)
        text = f"{view.heading}."
        brief = shorten(argument_line(one), _BRIEF_CHARS)
        asked, until = read_time(one.requested_at), read_time(one.expires_at)
        items.append(StatusItem(text, "asks", asked, brief, "", link, until, view.lapse))
    for there in seen.report.delegate_approvals:
        link = PageLink(address("waiting", there.workflow_id, there.call_id), REVIEW)
        tool = one_line(there.label or there.tool, _NAME_CHARS)
        text = f"A delegate is waiting for approval: {tool} ({clean(there.call_id)})."
        brief = one_line(there.arguments, _BRIEF_CHARS)
        items.append(StatusItem(text, "asks", why=brief, link=link))
    items += [_activity_item(one, seen, name) for one in seen.info.activities]
    if seen.report.status == "awaiting_message":
        items.append(StatusItem("Waiting for the next message.", "asks"))
    return items or [StatusItem("Running.")]


def ended_item(ending: result.RunEnding, at: datetime | None) -> StatusItem:
    """Return how a run ended, why, and what to do."""
    code = ending.code or ending.status
    tone: Tone = "good" if ending.exit_code == 0 else "bad"
    text = status_label(ending.status)[0].capitalize()
    if code == names.ErrorCode.DENIED:
        text, tone = "Denied, not executed", "plain"
    elif ending.status == "failed":
        text = f"{text}: {clean(code)}"
    message = ending.message.removeprefix(f"{code}: ")
    return StatusItem(f"{text}.", tone, at, clean(message).strip(), _ADVICE.get(code, ""))


def calls_in_progress(seen: LoadedRun, name: Name) -> list[tuple[str, str]]:
    """Return the name and the stage of each call of the current turn."""
    calls = seen.report.calls if seen.ending is None else []
    # No step of a pending plan has started.
    is_plan = any(one.kind == "plan" for one in seen.approvals)
    stages = {**_STAGES, "pending": "proposed"} if is_plan else _STAGES
    return [(name(one.call_id, one.tool), stages.get(one.stage, "proposed")) for one in calls]


def _activity_item(one: PendingActivity, seen: LoadedRun, name: Name) -> StatusItem:
    """Return what an activity does, and whether it is stuck."""
    tools = {call.call_id: call.tool for call in seen.report.calls}
    call, _, hook = one.id.partition("-")
    if one.type == names.GENERATE:
        what = "Waiting for the model" if one.is_started else "Requesting the model"
        if seen.info.is_rate_limited and not one.is_started:
            what = f"Waiting {QUEUED_FOR_MODEL}"
    elif hook:
        what = f"A hook ({one_line(hook, _NAME_CHARS)}) decides about {name(call, '')}"
    elif one.id in tools:
        what = f"Executing {name(one.id, tools[one.id])}"
    else:
        what = f"Running {one_line(one.type, _NAME_CHARS)}"
    attempt = f" (attempt {one.attempt})" if one.attempt > 1 else ""
    failure = one.last_failure and f"Last attempt failed: {one.last_failure}"
    tone: Tone = "bad" if failure else "plain"
    text, since, advice = f"{what}{attempt}.", one.since, ""
    if one.is_paused:
        text, tone = f"{what}{attempt}: paused.", "bad"
        advice = "It was paused in Temporal: unpause it there."
    elif not one.is_started and one.next_attempt_at is not None and one.last_failure:
        text, since = f"{what}: retrying soon{attempt}.", one.next_attempt_at
    elif not one.is_started and one.id in tools:
        queue = one_line(one.queue, _NAME_CHARS)
        text = f"{what}{attempt}, as soon as a worker on task queue {queue} takes it."
        tone = "plain"
    call = call if call in tools else ""
    progress = "" if one.progress is None else progress_line(one.progress)
    return StatusItem(text, tone, since, failure, advice, call=call, progress=progress)

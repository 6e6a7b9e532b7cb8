"""The current activity of a run: pending approvals, running calls, or its end and what to do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from holdfast.client import question_text
from holdfast.client.result import RunEnding
from holdfast.runtime.narration.phrases import QUEUED_FOR_MODEL
from holdfast.runtime.text_safety import arguments_line, clean, local_time, one_line
from holdfast.schemas import names
from holdfast.schemas.decision import brief_arguments
from holdfast.schemas.internal.delegate import DelegatePending
from holdfast.schemas.names import ErrorCode
from holdfast.web.pages import address
from holdfast.web.run.snapshot import PendingActivity, RunSnapshot
from holdfast.web.run.timeline import PageLink

Tone = Literal["plain", "good", "bad", "asks"]
Name = Callable[[str, str], str]
_NAME_CHARS: Final = 100
_BRIEF_CHARS: Final = 300
_ENDS: Final = {
    "completed": "Completed.",
    "stopped": "Ended by a tool.",
    "budget_exceeded": "Ended: the budget is used up.",
    "failed": "Failed",
    "cancelled": "Cancelled.",
    "terminated": "Terminated from outside.",
    "timed_out": "Timed out.",
}
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


@dataclass(frozen=True)
class StatusItem:
    """A current activity or the end of a run, with its reason, advice, and a link to act on it.

    `progress` is the last update of the running `call`.
    """

    text: str
    tone: Tone = "plain"
    since: datetime | None = None
    why: str = ""
    advice: str = ""
    link: PageLink | None = None
    call: str = ""
    progress: str = ""


@dataclass(frozen=True)
class CallProgress:
    """A call of the current turn and its stage."""

    name: str
    stage: str


def status_items(seen: RunSnapshot, name: Name) -> list[StatusItem]:
    """Return the current activities of a run, the most urgent first; `name` names a call."""
    if seen.ending is not None:
        return [ended_item(seen.ending, seen.info.ended)]
    asked = [*_asked(seen), *(_elsewhere(there) for there in seen.delegate_approvals)]
    found = [*_silence(seen), *asked, *_at_work(seen, name)]
    if seen.status.get("status") == "awaiting_message":
        found.append(StatusItem("Answered, and waiting for the next message.", "asks"))
    return found or [StatusItem("Running.")]


def ended_item(ending: RunEnding, at: datetime | None) -> StatusItem:
    """Return how a run ended, why, and what to do."""
    code = ending.code or ending.status
    tone: Tone = "good" if ending.exit_code == 0 else "bad"
    text = _ENDS.get(ending.status, f"Ended: {clean(ending.status)}.")
    if code == ErrorCode.DENIED:
        text, tone = "Denied, not executed.", "plain"
    elif ending.status == "failed":
        text = f"{text}: {clean(code)}."
    said = ending.message.removeprefix(f"{code}: ")
    return StatusItem(text, tone, at, clean(said).strip(), _ADVICE.get(code, ""))


def calls_in_progress(seen: RunSnapshot, name: Name) -> list[CallProgress]:
    """Return the calls of the current turn."""
    calls = seen.status.get("calls") or [] if seen.ending is None else []
    # No step of a pending plan has started.
    planned = any(one.kind == "plan" for one in seen.approvals)
    stages = {**_STAGES, "pending": "proposed"} if planned else _STAGES
    return [
        CallProgress(
            name(str(call["callId"]), str(call["tool"])),
            stages.get(str(call["stage"]), "proposed"),
        )
        for call in calls
    ]


def _silence(seen: RunSnapshot) -> Iterator[StatusItem]:
    """Describe the known state of a run that does not answer."""
    if seen.has_answered:
        return
    waits = ", ".join(one_line(tool, _NAME_CHARS) for tool in seen.info.pending_tools)
    if waits:
        yield StatusItem(
            f"Waiting for approval: {waits}.",
            "asks",
            seen.info.pending_since,
            link=PageLink(address(), "Pending approvals"),
        )
    if seen.problem is not None:
        yield StatusItem("The run does not answer.", "bad", why=clean(str(seen.problem)))


def _asked(seen: RunSnapshot) -> Iterator[StatusItem]:
    for one in seen.approvals:
        yield StatusItem(
            f"Waiting for approval: {question_text.title(one)}.",
            "asks",
            local_time(one.requested_at),
            arguments_line(brief_arguments(one.kind, one.arguments)),
            link=_decide(seen, one.call_id),
        )


def _decide(seen: RunSnapshot, call_id: str) -> PageLink:
    return PageLink(address("waiting", seen.info.id, call_id), "Review and decide")


def _elsewhere(there: DelegatePending) -> StatusItem:
    name = one_line(there.label or there.tool, _NAME_CHARS)
    where = address("waiting", there.workflow_id, there.call_id)
    text = f"A delegate is waiting for approval: {name} ({clean(there.call_id)})."
    brief = one_line(there.arguments, _BRIEF_CHARS)
    return StatusItem(text, "asks", why=brief, link=PageLink(where, "Review and decide"))


def _at_work(seen: RunSnapshot, name: Name) -> Iterator[StatusItem]:
    tools = {str(one["callId"]): str(one["tool"]) for one in seen.status.get("calls") or []}
    for one in seen.info.activities:
        shown = _doing(one, _what(one, tools, name, in_line=seen.info.is_rate_limited), tools)
        call = one.id.partition("-")[0]
        yield replace(shown, call=call if call in tools else "", progress=one.progress)


def _what(one: PendingActivity, tools: dict[str, str], name: Name, *, in_line: bool) -> str:
    call, _, hook = one.id.partition("-")
    if one.type == names.GENERATE:
        if in_line and not one.is_started:
            return f"Waiting {QUEUED_FOR_MODEL}"
        return "Waiting for the model" if one.is_started else "Requesting the model"
    if hook:
        return f"A hook ({one_line(hook, _NAME_CHARS)}) decides about {name(call, '')}"
    if one.id in tools:
        return f"Executing {name(one.id, tools[one.id])}"
    return f"Running {one_line(one.type, _NAME_CHARS)}"


def _doing(one: PendingActivity, what: str, tools: dict[str, str]) -> StatusItem:
    again = f" (attempt {one.attempt})" if one.attempt > 1 else ""
    failed = one.last_failure and f"Last attempt failed: {one.last_failure}"
    if one.is_paused:
        todo = "It was paused in Temporal: unpause it there."
        return StatusItem(f"{what}{again}: paused.", "bad", one.since, failed, todo)
    if not one.is_started and one.next_attempt_at is not None and one.last_failure:
        return StatusItem(f"{what}: retrying soon{again}.", "bad", one.next_attempt_at, failed)
    if not one.is_started and one.id in tools:
        taken = f"as soon as a worker on task queue {one_line(one.queue, _NAME_CHARS)} takes it"
        return StatusItem(f"{what}{again}, {taken}.", "plain", one.since, failed)
    return StatusItem(f"{what}{again}.", "bad" if failed else "plain", one.since, failed)

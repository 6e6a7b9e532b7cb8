"""The current activity of a run: pending approvals, running calls, or its end and what to do."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from holdfast.client import question_text
from holdfast.client.result import RunEnding, queued_line
from holdfast.client.stream.heartbeats import PendingActivity
from holdfast.client.stream.live_text import progress_line
from holdfast.runtime.narration.phrases import QUEUED_FOR_MODEL, timeout_phrase
from holdfast.runtime.text_safety import clean, local_time, one_line, shorten
from holdfast.schemas import names
from holdfast.schemas.names import ErrorCode
from holdfast.web.listing.rows import argument_line
from holdfast.web.page_text import status_label
from holdfast.web.pages import address
from holdfast.web.run.snapshot import LoadedRun
from holdfast.web.run.timeline import PageLink

Tone = Literal["plain", "good", "bad", "asks"]
Name = Callable[[str, str], str]
_NAME_CHARS: Final = 100
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


def status_items(seen: LoadedRun, name: Name) -> list[StatusItem]:
    """Return the current activities of a run, the most urgent first; `name` names a call."""
    if seen.ending is not None:
        result = seen.ending.result
        lines = map(queued_line, result.undelivered if result is not None else ())
        unread = [StatusItem(f"Not delivered: {line}", "asks") for line in lines]
        return [ended_item(seen.ending, seen.info.ended), *unread]
    items = []
    waits = ", ".join(one_line(tool, _NAME_CHARS) for tool in seen.info.tools)
    if waits and not seen.has_answered:
        text, link = f"Waiting for approval: {waits}.", PageLink(address(), "Pending approvals")
        since, until = seen.info.since, seen.info.until
        items.append(StatusItem(text, "asks", since, link=link, expires=until))
    if seen.problem is not None and not seen.has_answered:
        items.append(StatusItem("The run does not answer.", "bad", why=clean(str(seen.problem))))
    for one in seen.approvals:
        link = PageLink(address("waiting", seen.info.id, one.call_id), "Review and decide")
        text = f"{question_text.heading(one)}."
        brief = shorten(argument_line(one), _BRIEF_CHARS)
        asked, until = local_time(one.requested_at), local_time(one.expires_at)
        lapse = timeout_phrase(one.kind, one.on_timeout, is_single_call=seen.info.single)
        items.append(StatusItem(text, "asks", asked, brief, "", link, until, lapse))
    for there in seen.report.delegate_approvals:
        link = PageLink(address("waiting", there.workflow_id, there.call_id), "Review and decide")
        tool = one_line(there.label or there.tool, _NAME_CHARS)
        text = f"A delegate is waiting for approval: {tool} ({clean(there.call_id)})."
        brief = one_line(there.arguments, _BRIEF_CHARS)
        items.append(StatusItem(text, "asks", why=brief, link=link))
    items += [_activity_item(one, seen, name) for one in seen.info.activities]
    if seen.report.status == "awaiting_message":
        items.append(StatusItem("Waiting for the next message.", "asks"))
    return items or [StatusItem("Running.")]


def ended_item(ending: RunEnding, at: datetime | None) -> StatusItem:
    """Return how a run ended, why, and what to do."""
    code = ending.code or ending.status
    tone: Tone = "good" if ending.exit_code == 0 else "bad"
    text = status_label(ending.status)[0].capitalize()
    if code == ErrorCode.DENIED:
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

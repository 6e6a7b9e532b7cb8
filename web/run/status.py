"""What a run does at this moment, on what and since when: is it at work, stuck, or over?"""

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
from holdfast.web.run.description import Doing
from holdfast.web.run.snapshot import Seen
from holdfast.web.run.timeline import Link

Tone = Literal["plain", "good", "bad", "asks"]
Name = Callable[[str, str], str]
_NAME_CHARS: Final = 100
_BRIEF_CHARS: Final = 300
_ENDS: Final = {
    "completed": "It is done.",
    "stopped": "A tool has ended it.",
    "budget_exceeded": "It has ended: its budget is used up.",
    "failed": "It has failed",
    "cancelled": "It was cancelled.",
    "terminated": "It was terminated: ended from outside, with no say in it.",
    "timed_out": "It took longer than it was given.",
}
_MENDS: Final = {
    names.MODEL_ERROR: "Check the model's endpoint, key and name in the worker's settings, and"
    " start it again.",
    names.INVALID_REQUEST: "Mend the request, and start it again.",
    "budget_exceeded": "Start it again with a larger budget, or have the agent ask a person at its"
    " limit (onLimit: ask).",
    "terminated": "A call that was under way may have happened: see below before it is started"
    " again.",
    "timed_out": "A call that was under way may have happened: see below before it is started"
    " again.",
}
_STAGES: Final = {
    "pending": "waits for another call",
    "queued": "waits for its turn",
    "waiting": "waits for a person",
    "unsure": "nobody knows how it ended: waits for a person",
    "running": "is carried out",
    "ended": "has ended",
}


@dataclass(frozen=True)
class Now:
    """Something that goes on, or the end: since when, why, what to do, and where to do it.

    `told` is what a `call` under way has told of itself.
    """

    text: str
    tone: Tone = "plain"
    since: datetime | None = None
    why: str = ""
    todo: str = ""
    link: Link | None = None
    call: str = ""
    told: str = ""


@dataclass(frozen=True)
class Standing:
    """A call of the turn under way, and where it stands."""

    name: str
    stage: str


def now(seen: Seen, name: Name) -> list[Now]:
    """What goes on in a run, the most urgent first; `name` names a call."""
    if seen.ending is not None:
        return [ended(seen.ending, seen.known.ended)]
    asked = [*_asked(seen), *(_elsewhere(there) for there in seen.elsewhere)]
    found = [*_silence(seen), *asked, *_at_work(seen, name)]
    if seen.status.get("status") == "awaiting_message":
        found.append(Now("It has answered, and waits for the next message.", "asks"))
    return found or [Now("It is at work.")]


def ended(ending: RunEnding, at: datetime | None) -> Now:
    """How a run ended, why, and what is to be done about it."""
    code = ending.code or ending.status
    tone: Tone = "good" if ending.exit_code == 0 else "bad"
    text = _ENDS.get(ending.status, f"It has ended: {clean(ending.status)}.")
    if code == ErrorCode.DENIED:
        text, tone = "It was denied, and not carried out.", "plain"
    elif ending.status == "failed":
        text = f"{text}: {clean(code)}."
    said = ending.message.removeprefix(f"{code}: ")
    return Now(text, tone, at, clean(said).strip(), _MENDS.get(code, ""))


def standing(seen: Seen, name: Name) -> list[Standing]:
    """The calls of the turn under way."""
    calls = seen.status.get("calls") or [] if seen.ending is None else []
    # Of a plan that nobody has approved, nothing has been begun.
    planned = any(one.kind == "plan" for one in seen.waiting)
    stages = {**_STAGES, "pending": "proposed"} if planned else _STAGES
    return [
        Standing(
            name(str(call["callId"]), str(call["tool"])),
            stages.get(str(call["stage"]), "proposed"),
        )
        for call in calls
    ]


def _silence(seen: Seen) -> Iterator[Now]:
    """That the run says nothing itself, and what is known without it."""
    if seen.answered:
        return
    waits = ", ".join(one_line(tool, _NAME_CHARS) for tool in seen.known.waits_for)
    if waits:
        yield Now(
            f"It waits for a person: {waits}.",
            "asks",
            seen.known.waits_since,
            link=Link(address(), "See what waits"),
        )
    if seen.silent is not None:
        yield Now("It does not answer.", "bad", why=clean(str(seen.silent)))


def _asked(seen: Seen) -> Iterator[Now]:
    for one in seen.waiting:
        yield Now(
            f"It waits for a person: {question_text.title(one)}.",
            "asks",
            local_time(one.requested_at),
            arguments_line(brief_arguments(one.kind, one.arguments)),
            link=_decide(seen, one.call_id),
        )


def _decide(seen: Seen, call_id: str) -> Link:
    return Link(address("waiting", seen.known.id, call_id), "Look at it and decide")


def _elsewhere(there: DelegatePending) -> Now:
    name = one_line(there.label or there.tool, _NAME_CHARS)
    where = address("waiting", there.workflow_id, there.call_id)
    text = f"A delegate waits for a person: {name} ({clean(there.call_id)})."
    brief = one_line(there.arguments, _BRIEF_CHARS)
    return Now(text, "asks", why=brief, link=Link(where, "Look at it and decide"))


def _at_work(seen: Seen, name: Name) -> Iterator[Now]:
    tools = {str(one["callId"]): str(one["tool"]) for one in seen.status.get("calls") or []}
    for one in seen.known.doing:
        shown = _doing(one, _what(one, tools, name, in_line=seen.known.in_line), tools)
        call = one.id.partition("-")[0]
        yield replace(shown, call=call if call in tools else "", told=one.told)


def _what(one: Doing, tools: dict[str, str], name: Name, *, in_line: bool) -> str:
    call, _, hook = one.id.partition("-")
    if one.type == names.GENERATE:
        if in_line and not one.begun:
            return f"It waits {QUEUED_FOR_MODEL}"
        return "The model answers" if one.begun else "The model is asked"
    if hook:
        return f"A hook ({one_line(hook, _NAME_CHARS)}) is asked about {name(call, '')}"
    if one.id in tools:
        return f"It carries out {name(one.id, tools[one.id])}"
    return f"It is at work: {one_line(one.type, _NAME_CHARS)}"


def _doing(one: Doing, what: str, tools: dict[str, str]) -> Now:
    again = f" (attempt {one.attempt})" if one.attempt > 1 else ""
    failed = one.failed and f"The attempt before failed: {one.failed}"
    if one.paused:
        todo = "Somebody has paused it in Temporal: resume it there."
        return Now(f"{what}{again}: paused.", "bad", one.since, failed, todo)
    if not one.begun and one.again_at is not None and one.failed:
        return Now(f"{what} again soon{again}.", "bad", one.again_at, failed)
    if not one.begun and one.id in tools:
        taken = f"as soon as a worker on task queue {one_line(one.queue, _NAME_CHARS)} takes it"
        return Now(f"{what}{again}, {taken}.", "plain", one.since, failed)
    return Now(f"{what}{again}.", "bad" if failed else "plain", one.since, failed)

"""What the log of a run says around one question: what led to it, was decided, and came of it.

… entries before │ asked │ decisions, edits │ decided or expired │ what came of it …
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from itertools import pairwise
from typing import Any, Final, Literal

from holdfast.client.run_handle import Entry, RunHandle
from holdfast.runtime.narration.log_narration import LogNarration, NarrationLine
from holdfast.runtime.text_safety import local_time
from holdfast.schemas import names
from holdfast.schemas.decision import Decided, Kind, PendingApproval, brief_arguments, shown_calls
from holdfast.schemas.log_entry import read_record
from holdfast.web.call.plan_results import Carried, carried

# Of the log before the question, so much is read, and of that so much is told.
MAX_ENTRIES: Final = 400
MAX_LINES: Final = 14
MAX_DECISIONS: Final = 10
# How a call stands once it waits no more: not begun, begun, ended with a result or with an error;
# or nothing more is to come of what was decided.
Stage = Literal["ready", "begun", "done", "failed", "settled"]
_LED: Final = ("message", "tool_call", "tool_end", "summary", "notice")


@dataclass(frozen=True)
class Version:
    """The arguments of a call at some time, and who made them so; nobody: as they were asked."""

    digest: str
    arguments: dict[str, Any]
    by: str | None = None


@dataclass(frozen=True)
class Before:
    """A time that something was asked before, and what was answered; nothing: it was withdrawn."""

    kind: Kind
    at: str
    verdict: Decided | None = None


@dataclass(frozen=True)
class Past:
    """What the log says around a question; `asked` is the newest one of that name, if any.

    `verdict` is the decision that ended the wait, `expired` that time has. `became` tells what came
    of the call since, and `stage` how it stands. `before` are the times that the same was asked
    before. Of a plan, `steps` tells what came of each; of a budget, `granted` how much was granted
    first, where the log that was read says it. So many entries as are `unshown` stand in
    the log before what is told of it.
    """

    asked: PendingApproval | None = None
    number: int = 0
    versions: list[Version] = field(default_factory=list)
    led: list[NarrationLine] = field(default_factory=list)
    earlier: list[NarrationLine] = field(default_factory=list)
    became: list[NarrationLine] = field(default_factory=list)
    before: list[Before] = field(default_factory=list)
    steps: list[Carried] = field(default_factory=list)
    unshown: int = 0
    stage: Stage = "settled"
    decisions: list[Decided] = field(default_factory=list)
    verdict: Decided | None = None
    expired: bool = False
    granted: Any = None
    started_at: str = ""

    def version(self, digest: str) -> Version | None:
        """The arguments that a digest is of."""
        return next((one for one in self.versions if one.digest == digest), None)


async def read_past(run: RunHandle, call_id: str, length: int) -> Past:
    """The past of a call in a log of so many entries; raises as `RunHandle.entries`."""
    first = max(length - MAX_ENTRIES, 0)
    entries = [entry async for entry in run.entries(names.CONTEXT, after=first)]
    return past_of(entries, run.id, call_id)


def past_of(entries: Sequence[Entry], run_id: str, call_id: str) -> Past:
    """What these entries say of a call."""
    index = next((i for i in reversed(range(len(entries))) if _asks(entries[i], call_id)), None)
    story = LogNarration(run_id, with_all_arguments=True, with_commands=False)
    told = [
        (entry, [replace(line, at=_clock(entry)) for line in story.lines(read_record(entry))])
        for entry in entries
    ]
    if index is None:
        return Past()
    asked = PendingApproval.read(entries[index]["approval"])
    since = [entry for entry in entries[index:] if entry.get("callId") == call_id]
    ending = _ending(since)
    led, unshown = _led(told[:index], [call_id, *brief_arguments("plan", asked.arguments)])
    starts = [e["at"] for e in entries if e["type"] == "tool_start" and e["callId"] == call_id]
    versions = [*_versions(asked, since)]
    return Past(
        asked=asked,
        number=entries[index]["n"],
        versions=versions,
        steps=_steps(asked, versions[-1], told[index:], ending),
        led=led,
        unshown=unshown,
        before=list(_before(entries[:index], call_id)),
        stage=_stage(asked, ending, entries[index:]),
        earlier=_lines(told, lambda entry: _is_decision(entry, but=call_id))[-MAX_DECISIONS:],
        became=_became(told[index:], call_id, ending),
        decisions=[Decided.read(e["decided"]) for e in since if e.get("decided")],
        verdict=Decided.read(ending["decided"]) if ending and ending.get("decided") else None,
        expired=ending is not None and ending["outcome"] == "expired",
        granted=_granted(entries, asked),
        started_at=str(starts[-1]) if starts else "",
    )


def _clock(entry: Entry) -> str:
    """The time of day, in the zone that every page of a call is in."""
    time = local_time(entry.get("at"))
    return time.astimezone(UTC).strftime("%H:%M:%S") if time else ""


def _asks(entry: Entry, call_id: str) -> bool:
    asks = entry["type"] == "confirmation_required" and entry["callId"] == call_id
    return asks and not entry.get("reminder")


def _granted(entries: Sequence[Entry], asked: PendingApproval) -> Any:
    """What a run was granted first of the budget that is asked about: the limit that it was at
    when it asked for the first time."""
    if asked.kind != "budget" or entries[0]["n"] > 1:
        return None
    asks = [e["approval"] for e in entries if e["type"] == "confirmation_required"]
    first = next(
        one for one in asks if (one.get("kind"), one.get("tool")) == ("budget", asked.tool)
    )
    return first["arguments"].get(asked.tool)


def _is_decision(entry: Entry, *, but: str) -> bool:
    return entry["type"] == "decision" and entry["callId"] != but and not entry.get("ignored")


def _versions(asked: PendingApproval, since: Sequence[Entry]) -> Iterator[Version]:
    """The arguments as they were asked, and what each edit made of them."""
    arguments = asked.arguments
    yield Version(asked.digest, arguments)
    for entry in since:
        decided = entry.get("decided") or {}
        if decided.get("decision") == "edit" and isinstance(entry.get("arguments"), dict):
            arguments = _edited(asked.kind, arguments, entry["arguments"])
            yield Version(str(decided.get("digest")), arguments, decided.get("by") or "somebody")


def _edited(kind: Kind, before: dict[str, Any], edit: dict[str, Any]) -> dict[str, Any]:
    """What an edit makes of arguments; that of a plan names what stays, and has no more of it than
    what is changed."""
    if kind != "plan":
        return edit
    others = {call["id"]: call.get("arguments") for call in shown_calls(edit)}
    calls = [
        call if others[call["id"]] is None else {**call, "arguments": others[call["id"]]}
        for call in shown_calls(before)
        if call["id"] in others
    ]
    return {**before, "calls": calls}


Told = tuple[Entry, list[NarrationLine]]


def _lines(told: Sequence[Told], wanted: Any) -> list[NarrationLine]:
    return [line for entry, lines in told if wanted(entry) for line in lines]


def _led(told: Sequence[Told], asked: Sequence[str]) -> tuple[list[NarrationLine], int]:
    """What led to a question, but for the calls that it is about, which the page shows; and how
    many entries stand in the log before the first of it, where there are any to be told."""

    def led(entry: Entry) -> bool:
        own = entry["type"] == "tool_call" and entry["callId"] in asked
        return entry["type"] in _LED and not own

    found = [(e["n"], line) for e, lines in told if led(e) for line in lines if not line.minor]
    shown = found[-MAX_LINES:]
    is_cut = len(found) > MAX_LINES or bool(told and told[0][0]["n"] > 1)
    first = shown[0][0] if shown else 0
    return [line for _, line in shown], max(first - 1, 0) if is_cut else 0


def _ending(entries: Sequence[Entry]) -> Entry | None:
    """What ended a wait, among what the log says of its call."""
    return next((e for e in entries if e.get("outcome") in ("decided", "expired")), None)


def _before(entries: Sequence[Entry], call_id: str) -> Iterator[Before]:
    """The times that people were asked about a call before, and what ended each."""
    times = [index for index, entry in enumerate(entries) if _asks(entry, call_id)]
    for start, end in pairwise([*times, len(entries)]):
        ending = _ending([e for e in entries[start:end] if e.get("callId") == call_id])
        decided = (ending or {}).get("decided")
        verdict = Decided.read(decided) if decided else None
        at = str((ending or entries[start])["at"])
        yield Before(entries[start]["approval"].get("kind", "call"), at, verdict)


def _stage(asked: PendingApproval, ending: Entry | None, after: Sequence[Entry]) -> Stage:
    """How what was asked about stands; a plan stands as the last of its calls does."""
    if ending is None or asked.kind == "budget":
        return "settled"
    calls = {
        *(brief_arguments("plan", asked.arguments) if asked.kind == "plan" else (asked.call_id,))
    }
    later = [e for e in after if e["n"] > ending["n"] and e.get("callId") in calls]
    ends = [e for e in later if e["type"] == "tool_end"]
    if len(ends) == len(calls):
        return "failed" if any(e.get("error") for e in ends) else "done"
    return "begun" if any(e["type"] == "tool_start" for e in later) else "ready"


def _steps(
    asked: PendingApproval, last: Version, told: Sequence[Told], ending: Entry | None
) -> list[Carried]:
    """What came of the steps of a plan since it was decided on."""
    if asked.kind != "plan" or ending is None:
        return []
    after = [pair for pair in told if pair[0]["n"] > ending["n"]]
    denied = (ending.get("decided") or {}).get("decision") == "deny"
    return [*carried(asked, last.arguments, after, denied=denied)]


def _became(told: Sequence[Told], call_id: str, ending: Entry | None) -> list[NarrationLine]:
    """What happened to the call after the wait was over."""
    if ending is None:
        return []
    after = [pair for pair in told if pair[0]["n"] > ending["n"]]

    def of_call(entry: Entry) -> bool:
        # What a run failed with has a message too, which is a text.
        message = entry["message"] if entry["type"] == "message" else {}
        return entry.get("callId") == call_id or message.get("callId") == call_id

    lines = [line for line in _lines(after, of_call) if line.word != "asks"][:MAX_LINES]
    if (ending.get("decided") or {}).get("decision") != "deny":
        return lines
    # That it ended so is what was decided, and no failure.
    return [replace(line, tone="plain") if line.tone == "bad" else line for line in lines]

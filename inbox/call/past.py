"""What the log of a run says around one question: what led to it, was decided, and came of it.

… entries before │ asked │ decisions, edits │ decided or expired │ what came of it …
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any, Final

from remote.run import Entry, RemoteRun
from remote.story import Line, Story
from remote.text import moment
from schemas import names
from schemas.decision import Decided, Waiting
from schemas.plan import in_brief

# Of the log before the question, so much is read, and of that so much is told.
MAX_ENTRIES: Final = 400
MAX_LINES: Final = 14
MAX_DECISIONS: Final = 10
_LED: Final = ("message", "tool_call", "tool_end", "summary", "notice")


@dataclass(frozen=True)
class Version:
    """The arguments of a call at some time, and who made them so; nobody: as they were asked."""

    digest: str
    arguments: dict[str, Any]
    by: str | None = None


@dataclass(frozen=True)
class Past:
    """What the log says around a question; `asked` is the newest one of that name, if any.

    `verdict` is the decision that ended the wait, `expired` that time has. `became` tells what came
    of the call since.
    """

    asked: Waiting | None = None
    number: int = 0
    versions: list[Version] = field(default_factory=list)
    led: list[Line] = field(default_factory=list)
    earlier: list[Line] = field(default_factory=list)
    became: list[Line] = field(default_factory=list)
    decisions: list[Decided] = field(default_factory=list)
    verdict: Decided | None = None
    expired: bool = False
    started_at: str = ""

    def version(self, digest: str) -> Version | None:
        """The arguments that a digest is of."""
        return next((one for one in self.versions if one.digest == digest), None)


async def read_past(run: RemoteRun, call_id: str, length: int) -> Past:
    """The past of a call in a log of so many entries; raises as `RemoteRun.entries`."""
    first = max(length - MAX_ENTRIES, 0)
    entries = [entry async for entry in run.entries(names.CONTEXT, after=first)]
    return past_of(entries, run.id, call_id)


def past_of(entries: Sequence[Entry], run_id: str, call_id: str) -> Past:
    """What these entries say of a call."""
    index = next((i for i in reversed(range(len(entries))) if _asks(entries[i], call_id)), None)
    story = Story(run_id, whole=True, commands=False)
    told = [
        (entry, [replace(line, at=_clock(entry)) for line in story.tell(entry)])
        for entry in entries
    ]
    if index is None:
        return Past()
    asked = Waiting.read(entries[index]["approval"])
    since = [entry for entry in entries[index:] if entry.get("callId") == call_id]
    ending = next(
        (entry for entry in since if entry.get("outcome") in ("decided", "expired")), None
    )
    starts = [e["at"] for e in entries if e["type"] == "tool_start" and e["callId"] == call_id]
    return Past(
        asked=asked,
        number=entries[index]["n"],
        versions=[*_versions(asked, since)],
        led=_led(told[:index], [call_id, *in_brief("plan", asked.arguments)]),
        earlier=_lines(told, lambda entry: _is_decision(entry, but=call_id))[-MAX_DECISIONS:],
        became=_became(told[index:], call_id, ending),
        decisions=[Decided.read(e["decided"]) for e in since if e.get("decided")],
        verdict=Decided.read(ending["decided"]) if ending and ending.get("decided") else None,
        expired=ending is not None and ending["outcome"] == "expired",
        started_at=str(starts[-1]) if starts else "",
    )


def _clock(entry: Entry) -> str:
    """The time of day, in the zone that every page of a call is in."""
    time = moment(entry.get("at"))
    return time.astimezone(UTC).strftime("%H:%M:%S") if time else ""


def _asks(entry: Entry, call_id: str) -> bool:
    asks = entry["type"] == "confirmation_required" and entry["callId"] == call_id
    return asks and not entry.get("reminder")


def _is_decision(entry: Entry, *, but: str) -> bool:
    return entry["type"] == "decision" and entry["callId"] != but and not entry.get("ignored")


def _versions(asked: Waiting, since: Sequence[Entry]) -> Iterator[Version]:
    """The arguments as they were asked, and what each edit made of them."""
    yield Version(asked.digest, asked.arguments)
    for entry in since:
        decided = entry.get("decided") or {}
        if decided.get("decision") == "edit" and isinstance(entry.get("arguments"), dict):
            arguments = entry["arguments"]
            yield Version(str(decided.get("digest")), arguments, decided.get("by") or "somebody")


Told = tuple[Entry, list[Line]]


def _lines(told: Sequence[Told], wanted: Any) -> list[Line]:
    return [line for entry, lines in told if wanted(entry) for line in lines]


def _led(told: Sequence[Told], asked: Sequence[str]) -> list[Line]:
    """What led to a question, but for the calls that it is about, which the page shows."""

    def led(entry: Entry) -> bool:
        own = entry["type"] == "tool_call" and entry["callId"] in asked
        return entry["type"] in _LED and not own

    lines = _lines(told, led)
    return [line for line in lines if not line.minor][-MAX_LINES:]


def _became(told: Sequence[Told], call_id: str, ending: Entry | None) -> list[Line]:
    """What happened to the call after the wait was over."""
    if ending is None:
        return []
    after = [pair for pair in told if pair[0]["n"] > ending["n"]]

    def of_call(entry: Entry) -> bool:
        message = entry.get("message") or {}
        return entry.get("callId") == call_id or message.get("callId") == call_id

    return [line for line in _lines(after, of_call) if line.word != "asks"][:MAX_LINES]

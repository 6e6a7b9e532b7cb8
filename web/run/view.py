"""What the templates of a run are filled in with."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from holdfast.client.result import RunEnding
from holdfast.runtime.text_safety import (
    arguments_line,
    as_text,
    clean,
    format_age,
    one_line,
    shorten,
)
from holdfast.web import statuses
from holdfast.web.pages import address
from holdfast.web.run import cost
from holdfast.web.run.delegate_tree import Tree, tree
from holdfast.web.run.snapshot import Seen
from holdfast.web.run.status import Now, Standing, now, standing
from holdfast.web.run.timeline import Link, Teller, Told
from holdfast.web.services import Services
from holdfast.web.times import when

MAX_OUTPUT_CHARS: Final = 20_000
_TITLE_CHARS: Final = 200


@dataclass(frozen=True)
class Moment:
    """A time, for people and for programs, and how far off it is."""

    iso: str
    shown: str
    off: str
    ahead: bool

    @classmethod
    def of(cls, at: datetime | None) -> "Moment | None":
        """A time, where there is one."""
        if at is None:
            return None
        told = when(at)
        return cls(told.iso, told.text, format_age(at), at > datetime.now(at.tzinfo))

    def told(self, word: str) -> str:
        """`3 min ago`; with the word `for`, that it goes on: `for 3 min`."""
        if self.ahead:
            return f"in {self.off}"
        return f"{word} {self.off}" if word else f"{self.off} ago"


@dataclass(frozen=True)
class View:
    """A run, as its page shows it. The entries shown are those up to `last`; before them there are
    `earlier` ones, and after them there may be `more`."""

    id: str
    title: str
    status: str
    tone: str
    now: Sequence[tuple[Now, Moment | None]]
    standing: Sequence[Standing]
    facts: Sequence[tuple[str, str]]
    started: Moment | None
    parent: tuple[Link, str] | None
    used: str
    budgets: Sequence[cost.Share]
    tree: Tree
    output: str
    told: Sequence[Told]
    earlier: int
    last: int
    more: bool
    place: str
    live: bool
    answered: bool
    asking: bool
    talks: bool
    listens: bool
    temporal: str | None


async def view(parts: Services, seen: Seen) -> View:
    """What is shown of a run.

    Raises:
        CommandError: Temporal does not answer.
    """
    known, teller = seen.known, Teller(seen.known.id, seen.lead)
    told = teller.tell(seen.entries)
    status = _status(seen)
    shown, tone = statuses.told(status, seen.ending.code if seen.ending else None)
    read = [*seen.lead, *seen.entries]
    last = read[-1]["n"] if read else 0
    return View(
        id=known.id,
        title=_title(seen),
        status=shown,
        tone=tone,
        now=[(one, Moment.of(one.since)) for one in now(seen, teller.name)],
        standing=standing(seen, teller.name),
        facts=_facts(seen),
        started=Moment.of(known.started),
        parent=_parent(seen),
        used=cost.used(seen),
        budgets=cost.budgets(seen),
        tree=await tree(parts.client, seen),
        output="" if seen.ending is None else _output(seen.ending),
        told=told,
        earlier=seen.entries[0]["n"] - 1 if seen.entries else 0,
        last=last,
        more=last < seen.length and seen.answered,
        place=known.place,
        live=seen.ending is None,
        answered=seen.answered,
        asking=not seen.answered and seen.silent is None,
        talks=seen.ending is None and not known.single,
        listens=status == "awaiting_message",
        temporal=parts.link_to(known.id),
    )


def _title(seen: Seen) -> str:
    summary = one_line(seen.known.summary, _TITLE_CHARS)
    what, of = ("Call", _tool(seen)) if seen.known.single else ("Run", seen.known.agent)
    if seen.known.single and (edited := _edited(seen)) is not None:
        # The summary was written when the call was asked for.
        summary = one_line(f"{_tool(seen)}: {arguments_line(edited)}", _TITLE_CHARS)
    return summary or (f"{what} of {one_line(of, _TITLE_CHARS)}" if of else what)


def _edited(seen: Seen) -> Any:
    """What somebody has made of the arguments of a single call; `None` where nobody has."""
    edits = [
        entry.get("arguments")
        for entry in (*seen.lead, *seen.entries)
        if entry["type"] == "decision" and (entry.get("decided") or {}).get("decision") == "edit"
    ]
    return edits[-1] if edits else None


def _tool(seen: Seen) -> str:
    """The tool of a single call, as far as it is known."""
    calls = (entry for entry in seen.entries if entry["type"] == "tool_call")
    named = next((entry.get("label") or entry["tool"] for entry in calls), "")
    return str(named) or next(iter(seen.known.waits_for), "")


def _status(seen: Seen) -> str:
    if seen.ending is not None:
        return seen.ending.status
    return str(seen.status.get("status") or seen.known.status or "running")


def _facts(seen: Seen) -> list[tuple[str, str]]:
    """What is known of a run, by name; what is not is left out."""
    known = seen.known
    skill, turn = seen.status.get("skill"), seen.status.get("turn")
    found = [
        ("What it is", "A single call: no agent, and no model" if known.single else ""),
        ("Agent", known.agent),
        ("On behalf of", known.principal),
        ("Skill", str(skill or "")),
        ("Turn", str(turn or "") if seen.ending is None else ""),
        ("Took", _took(seen)),
    ]
    return [(name, one_line(text, _TITLE_CHARS)) for name, text in found if text]


def _took(seen: Seen) -> str:
    if seen.known.ended is None:
        return ""
    seconds = round((seen.known.ended - seen.known.started).total_seconds())
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _parent(seen: Seen) -> tuple[Link, str] | None:
    """The run that it carries out a call of, and the call."""
    call, parent = seen.known.call_of_parent, seen.known.parent
    if call is None or parent is None:
        return None
    return Link(address("run", parent), clean(parent)), clean(call)


def _output(ending: RunEnding) -> str:
    if ending.result is None or (not ending.stored_output_note and ending.result.output is None):
        return ""
    return shorten(as_text(ending.stored_output_note or ending.result.output), MAX_OUTPUT_CHARS)


def states(shared: Any, own: dict[str, Any]) -> list[tuple[str, str]]:
    """The state for all, and what each instance sees, as text."""
    found = [("State", as_text(shared))] if shared or not own else []
    found += [(f"State of {clean(name)}", as_text(value)) for name, value in own.items()]
    return [(name, shorten(text, MAX_OUTPUT_CHARS)) for name, text in found]

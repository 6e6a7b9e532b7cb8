"""The values of the templates of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from holdfast.client import result
from holdfast.client.result import RunEnding
from holdfast.runtime.text_safety import (
    arguments_line,
    as_text,
    clean,
    format_age,
    one_line,
    shorten,
)
from holdfast.schemas.base import parse_duration
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import RunResult, Spent
from holdfast.web.page_text import budget_label, display_time, status_label
from holdfast.web.pages import address
from holdfast.web.run.delegate_tree import DelegateTree, read_delegates
from holdfast.web.run.snapshot import RunSnapshot
from holdfast.web.run.status import CallProgress, StatusItem, calls_in_progress, status_items
from holdfast.web.run.timeline import PageLink, Timeline, TimelineLine
from holdfast.web.services import Services

_NEARLY: Final = 0.8
MAX_OUTPUT_CHARS: Final = 20_000
_TITLE_CHARS: Final = 200


@dataclass(frozen=True)
class RelativeTime:
    """A time for people and for programs, and its distance from now."""

    iso: str
    text: str
    relative: str
    is_future: bool

    @classmethod
    def of(cls, at: datetime | None) -> "RelativeTime | None":
        """Return a time for display, if there is one."""
        if at is None:
            return None
        told = display_time(at)
        return cls(told.iso, told.text, format_age(at), at > datetime.now(at.tzinfo))

    def describe(self, word: str) -> str:
        """Return `3 min ago`; with the word `for`, `for 3 min`."""
        if self.is_future:
            return f"in {self.relative}"
        return f"{word} {self.relative}" if word else f"{self.relative} ago"


@dataclass(frozen=True)
class BudgetShare:
    """The used and the remaining part of a budget."""

    name: str
    used: str
    limit: str
    remaining: str
    is_nearly_used: bool


@dataclass(frozen=True)
class RunView:
    """The page of a run; it shows entries up to `last`, after `earlier_count` earlier ones."""

    id: str
    title: str
    status: str
    tone: str
    status_items: Sequence[tuple[StatusItem, RelativeTime | None]]
    calls: Sequence[CallProgress]
    facts: Sequence[tuple[str, str]]
    started: RelativeTime | None
    parent: tuple[PageLink, str] | None
    used_text: str
    budgets: Sequence[BudgetShare]
    tree: DelegateTree
    output: str
    lines: Sequence[TimelineLine]
    earlier_count: int
    last: int
    has_more: bool
    place: str
    is_live: bool
    has_answered: bool
    is_loading: bool
    takes_messages: bool
    awaits_message: bool
    temporal_link: str | None


async def build_run_view(parts: Services, seen: RunSnapshot) -> RunView:
    """Return the page of a run.

    Raises:
        CommandError: Temporal does not answer.
    """
    known, teller = seen.info, Timeline(seen.info.id, seen.earlier_entries)
    told = teller.lines(seen.entries)
    status = _status(seen)
    shown, tone = status_label(status, seen.ending.code if seen.ending else None)
    read = [*seen.earlier_entries, *seen.entries]
    last = read[-1]["n"] if read else 0
    return RunView(
        id=known.id,
        title=_title(seen),
        status=shown,
        tone=tone,
        status_items=[(one, RelativeTime.of(one.since)) for one in status_items(seen, teller.name)],
        calls=calls_in_progress(seen, teller.name),
        facts=_facts(seen),
        started=RelativeTime.of(known.started),
        parent=_parent(seen),
        used_text=used_text(seen),
        budgets=budget_shares(seen),
        tree=await read_delegates(parts.client, seen),
        output="" if seen.ending is None else _output(seen.ending),
        lines=told,
        earlier_count=seen.entries[0]["n"] - 1 if seen.entries else 0,
        last=last,
        has_more=last < seen.length and seen.has_answered,
        place=known.place,
        is_live=seen.ending is None,
        has_answered=seen.has_answered,
        is_loading=not seen.has_answered and seen.problem is None,
        takes_messages=seen.ending is None and not known.is_single_call,
        awaits_message=status == "awaiting_message",
        temporal_link=parts.link_to(known.id),
    )


def _title(seen: RunSnapshot) -> str:
    summary = one_line(seen.info.summary, _TITLE_CHARS)
    what, of = ("Call", _tool(seen)) if seen.info.is_single_call else ("Run", seen.info.agent)
    if seen.info.is_single_call and (edited := _edited(seen)) is not None:
        # The summary was written when the call was requested, before the edit.
        summary = one_line(f"{_tool(seen)}: {arguments_line(edited)}", _TITLE_CHARS)
    return summary or (f"{what} of {one_line(of, _TITLE_CHARS)}" if of else what)


def _edited(seen: RunSnapshot) -> Any:
    """Return the arguments of a single call after the last edit, if there was one."""
    edits = [
        entry.get("arguments")
        for entry in (*seen.earlier_entries, *seen.entries)
        if entry["type"] == "decision" and (entry.get("decided") or {}).get("decision") == "edit"
    ]
    return edits[-1] if edits else None


def _tool(seen: RunSnapshot) -> str:
    """Return the tool of a single call, if known."""
    calls = (entry for entry in seen.entries if entry["type"] == "tool_call")
    named = next((entry.get("label") or entry["tool"] for entry in calls), "")
    return str(named) or next(iter(seen.info.pending_tools), "")


def _status(seen: RunSnapshot) -> str:
    if seen.ending is not None:
        return seen.ending.status
    return str(seen.status.get("status") or seen.info.status or "running")


def _facts(seen: RunSnapshot) -> list[tuple[str, str]]:
    """Return the known facts of a run, by name."""
    known = seen.info
    skill, turn = seen.status.get("skill"), seen.status.get("turn")
    found = [
        ("Type", "A single call, without an agent" if known.is_single_call else ""),
        ("Agent", known.agent),
        ("On behalf of", known.principal),
        ("Skill", str(skill or "")),
        ("Turn", str(turn or "") if seen.ending is None else ""),
        ("Duration", _took(seen)),
    ]
    return [(name, one_line(text, _TITLE_CHARS)) for name, text in found if text]


def _took(seen: RunSnapshot) -> str:
    if seen.info.ended is None:
        return ""
    seconds = round((seen.info.ended - seen.info.started).total_seconds())
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _parent(seen: RunSnapshot) -> tuple[PageLink, str] | None:
    """Return the run and the call that this run executes."""
    call, parent = seen.info.call_of_parent, seen.info.parent
    if call is None or parent is None:
        return None
    return PageLink(address("run", parent), clean(parent)), clean(call)


def _output(ending: RunEnding) -> str:
    if ending.result is None or (not ending.stored_output_note and ending.result.output is None):
        return ""
    return shorten(as_text(ending.stored_output_note or ending.result.output), MAX_OUTPUT_CHARS)


def state_sections(shared: Any, own: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the shared state and that of each instance as text."""
    found = [("State", as_text(shared))] if shared or not own else []
    found += [(f"State of {clean(name)}", as_text(value)) for name, value in own.items()]
    return [(name, shorten(text, MAX_OUTPUT_CHARS)) for name, text in found]


def used_text(seen: RunSnapshot) -> str:
    """Return `3 turns, 4 calls, 1,234 tokens in, 220 out, cost unknown`, or nothing if unknown."""
    if (spent := _spent(seen)) is None:
        return ""
    unknown = spent.turns and spent.usage.cost is None
    return result.usage_line(spent) + (", cost unknown" if unknown else "")


def budget_shares(seen: RunSnapshot) -> list[BudgetShare]:
    """Return each budget that has a limit."""
    found = seen.status.get("budget", {}).items()
    return [
        _share(budget_label(name), view.get("used"), view["limit"])
        for name, view in found
        if view.get("limit") is not None
    ]


def _spent(seen: RunSnapshot) -> RunResult | Spent | None:
    """Return the usage: from the result of the run, or else from its status."""
    if seen.ending is not None and (said := seen.ending.result or seen.ending.spent) is not None:
        return said
    if not (budget := seen.status.get("budget")):
        return None
    turns, calls = (budget.get(name, {}).get("used") or 0 for name in ("maxTurns", "maxCalls"))
    return Spent(turns=turns, calls=calls, usage=Usage.read(seen.status.get("usage", {})))


def _share(name: str, used: Any, limit: Any) -> BudgetShare:
    if used is None:
        return BudgetShare(
            name, "unknown", _shown(limit), "unknown: not reported by the provider", False
        )
    spent, most = _number(used), _number(limit)
    left = max(most - spent, 0)
    nearly = most > 0 and spent >= _NEARLY * most
    return BudgetShare(name, _shown(used), _shown(limit), _left(left, limit), nearly)


def _left(left: float, limit: Any) -> str:
    if not left:
        return "none"
    return _time(left) if isinstance(limit, str) else _shown(round(left, 4))


def _number(value: Any) -> float:
    if isinstance(value, str):
        return 0.0 if value == "0ms" else parse_duration(value).total_seconds()
    return float(value)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return _time(_number(value))
    return f"{value:,.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))

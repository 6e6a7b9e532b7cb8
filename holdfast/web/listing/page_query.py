"""Find the runs of a page in the list of pending approvals, and read the view from its address.

Without the search attributes for times and approvers, every run with pending calls is queried and
sorted by its answer; without those for pending calls, every open run. The parameters of the
address are `q`, `order`, `agent`, `tool`, `principal`, `group`, `run`, `age` and `after`.

A search (`q`) queries the first `MAX_ASKED` runs of the view, and compares their answers.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Final
from urllib.parse import urlencode

from holdfast.client.errors import wrong_command
from holdfast.client.run_lists import RunFilter, RunListing
from holdfast.runtime.text_safety import as_json, read_time
from holdfast.schemas import names
from holdfast.web.listing.pending_runs import NO_STATUS, PendingList, RunAnswer
from holdfast.web.listing.rows import SOON

MINE: Final = "mine"
_GROUP: Final = "group:"
_TEXTS: Final = ("q", "agent", "tool", "principal", "run", "age")
NEWEST: Final = "newest"
EXPIRING: Final = "expiring"
ORDERS: Final = {NEWEST: "Newest first", EXPIRING: "Soonest to expire first"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
# By the hours since the newest approval of a run was requested.
AGES: Final = {
    "hour": ("under 1 hour", -inf, 1),
    "day": ("1 hour to 1 day", 1, 24),
    "days": ("1 to 3 days", 24, 72),
    "older": ("over 3 days", 72, inf),
}
PAGE_RUNS: Final = 25
MAX_ASKED: Final = 200


# Microseconds since 1970, negative where the latest comes first; and the id of a run.
Place = tuple[int, str]


@dataclass(frozen=True)
class ListView:
    """One view of the list: its filters, its order, and its position.

    `group` is `mine`, or `group:` and a name; `after` is the last run of the page before, `size`
    the most runs of a page.
    """

    order: str = NEWEST
    q: str = ""
    agent: str = ""
    tool: str = ""
    principal: str = ""
    group: str = ""
    run: str = ""
    age: str = ""
    after: Place | None = None
    size: int = PAGE_RUNS

    @classmethod
    def parse(cls, said: Mapping[str, str]) -> "ListView":
        """Read the parameters of an address.

        Raises:
            HoldfastError: a parameter is invalid.
        """
        order = said.get("order") or NEWEST
        texts: dict[str, Any] = {name: said.get(name, "").strip() for name in _TEXTS}
        if order not in ORDERS:
            raise wrong_command(f"there is no order {order!r}", f"use one of {', '.join(ORDERS)}")
        if texts["age"] not in ("", *AGES):
            raise wrong_command(f"`age={texts['age']}` is no age", f"use one of {', '.join(AGES)}")
        group = said.get("group", "")
        if group not in ("", MINE) and not group.startswith(_GROUP):
            raise wrong_command(f"`group={group}` is no group", f"write `{MINE}` or `{_GROUP}NAME`")
        after = _parse_place(said["after"], order) if said.get("after") else None
        return cls(order=order, group=group, after=after, **texts)

    @property
    def is_filtered(self) -> bool:
        return bool(self.group or any(getattr(self, name) for name in _TEXTS))

    def groups(self, own: tuple[str, ...]) -> tuple[str, ...]:
        """Return the groups to filter for; none: no filter."""
        if self.group == MINE:
            return (names.FOR_ANYBODY, *own)
        return (self.group.removeprefix(_GROUP),) if self.group else ()

    def finds(self, run: RunListing, answer: RunAnswer | None) -> bool:
        """Report whether a run or one of its pending calls has each word of the search."""
        texts = [run.id, run.agent or "", run.principal or "", *run.tools]
        for one in answer if isinstance(answer, list) else ():
            texts += [one.label, one.instance or "", one.reasoning or "", as_json(one.arguments)]
        text = "\n".join(texts).casefold()
        return all(word in text for word in self.q.casefold().split())

    def page_after(self, run: RunListing) -> "ListView":
        """Return the view of the page after a run."""
        return replace(self, after=place_of(run, self.order))

    def at(self, **fields: Any) -> str:
        """Return the address of the first page of the view with other fields."""
        return replace(self, after=None, **fields).address

    def group_options(self, groups: Iterable[str]) -> list[tuple[str, str]]:
        """Return the parameters and the names of the groups to choose from."""
        others = dict.fromkeys(group for group in groups if group != names.FOR_ANYBODY)
        options = {f"{_GROUP}{name}": name for name in others}
        if self.group not in ("", MINE):
            options.setdefault(self.group, self.group.removeprefix(_GROUP))
        return [*options.items(), (f"{_GROUP}{names.FOR_ANYBODY}", "anyone")]

    @property
    def address(self) -> str:
        return f"/?{self.query}" if self.query else "/"

    @property
    def query(self) -> str:
        """Return the query string of its address."""
        fields = asdict(self) | {
            "order": "" if self.order == NEWEST else self.order,
            "size": "",
            "after": "" if self.after is None else f"{abs(self.after[0])}/{self.after[1]}",
        }
        return urlencode({name: text for name, text in fields.items() if text})


@dataclass(frozen=True)
class ListPage:
    """The runs of a page.

    Of `expiring` runs, a call expires within the hour; `decisions` counts those sent to each run.
    Where the namespace lacks search attributes, the page can be incomplete (`is_incomplete`).
    """

    runs: Sequence[RunListing]
    count: int
    has_more: bool
    missing_attributes: str = ""
    is_incomplete: bool = False
    left_out: int = 0
    expiring: int = 0
    decisions: Mapping[str, int] = field(default_factory=dict)

    def count_calls(self, answers: Mapping[str, RunAnswer]) -> int | None:
        """Return the number of pending calls, or `None` until all runs have answered."""
        found = [answers.get(run.id) for run in self.runs]
        counts = [len(answer) for answer in found if isinstance(answer, list)]
        return sum(counts) if len(counts) == len(found) else None

    @property
    def mark(self) -> str:
        """Return a digest that changes with the page."""
        decisions = [self.decisions.get(run.id, 0) for run in self.runs]
        seen = repr((self.count, self.runs, decisions))
        return hashlib.sha256(seen.encode()).hexdigest()[:32]


def find_page(pending: PendingList, view: ListView, own_groups: tuple[str, ...]) -> ListPage:
    """Return a page of the list."""
    left_out, groups = pending.count - len(pending.runs), view.groups(own_groups)
    now = datetime.now(UTC)
    wanted = RunFilter(view.agent, view.tool, view.principal, groups, view.run)
    if pending.missing_attributes == NO_STATUS:
        wanted = RunFilter(id_prefix=view.run)
    elif pending.missing_attributes:
        wanted = replace(wanted, tool="", groups=())
    runs = [run for run in pending.runs if wanted.matches(run)]
    if view.age:
        _, start, end = AGES[view.age]
        hours = timedelta(hours=1)
        runs = [run for run in runs if run.since and start <= (now - run.since) / hours < end]
    if pending.missing_attributes or view.q:
        if not pending.missing_attributes:
            runs = sort_runs(runs, replace(view, after=None))
        asked, is_cut = runs[:MAX_ASKED], left_out > 0 or len(runs) > MAX_ASKED
        known = pending.missing_attributes, is_cut
        return ListPage(asked, len(asked), False, *known, decisions=pending.decisions)
    placed, hour_ends = sort_runs(runs, view), now + SOON
    return ListPage(
        placed[: view.size],
        len(runs) if view.is_filtered else pending.count,
        len(placed) > view.size,
        left_out=left_out,
        expiring=sum(run.until is not None and run.until <= hour_ends for run in runs),
        decisions=pending.decisions,
    )


def order_by_answers(
    found: ListPage, answers: Mapping[str, RunAnswer], view: ListView, own_groups: tuple[str, ...]
) -> ListPage:
    """Sort and filter a page without search attributes, or of a search, by the runs' answers."""
    wanted = []
    matches = RunFilter(tool=view.tool, groups=view.groups(own_groups)).matches
    for run in found.runs:
        answer = answers.get(run.id)
        if not isinstance(answer, list):
            wanted += [run] if view.finds(run, None) else []
            continue
        requested = [time for one in answer if (time := read_time(one.requested_at))]
        expires = [time for one in answer if (time := read_time(one.expires_at))]
        # The run with the search attributes that its answer implies.
        implied = replace(
            run,
            tools=tuple(one.tool for one in answer),
            groups=tuple(g for one in answer for g in one.approvers or [names.FOR_ANYBODY]),
            since=max(requested, default=None),
            until=min(expires, default=None),
        )
        if answer and matches(implied) and view.finds(implied, answer):
            wanted.append(implied)
    behind = sort_runs(wanted, view)
    return replace(
        found, runs=behind[: view.size], count=len(wanted), has_more=len(behind) > view.size
    )


def place_of(run: RunListing, order: str) -> Place:
    """Return the position of a run in a list: at its end for a run without the time."""
    time, sign = (run.since or _EPOCH, -1) if order == NEWEST else (run.until or _NEVER, 1)
    return sign * ((time - _EPOCH) // timedelta(microseconds=1)), run.id


def sort_runs(runs: Iterable[RunListing], view: ListView) -> list[RunListing]:
    """Return the runs of a view in its order, from its position on."""
    placed = [(place_of(run, view.order), run) for run in runs]
    placed.sort(key=lambda pair: pair[0])
    return [run for place, run in placed if view.after is None or place > view.after]


def _parse_place(text: str, order: str) -> Place:
    microseconds, divided, run = text.partition("/")
    with suppress(ValueError):
        if divided:
            return int(microseconds) * (-1 if order == NEWEST else 1), run
    raise wrong_command("`after` names no place in this list", "open the first page")

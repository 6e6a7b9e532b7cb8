"""Query the runs of a page of the list, and read the view from its address.

Without the search attributes for times and approvers, every run with pending calls is queried and
sorted by its answer; without those for pending calls, every open run. The parameters of the
address are `order`, `agent`, `tool`, `principal`, `group`, `run` and `after`.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from holdfast.client.errors import wrong_command
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import (
    OPEN,
    MissingAttributesError,
    RunFilter,
    RunListing,
)
from holdfast.client.visibility import EXPIRING, NEWEST, ListOrder, Place, first_runs, sort_runs
from holdfast.runtime.text_safety import local_time
from holdfast.schemas import names
from holdfast.web.listing.rows import SOON
from holdfast.web.listing.run_answers import RunAnswer

MINE: Final = "mine"
_GROUP: Final = "group:"
_TEXTS: Final = ("agent", "tool", "principal", "run")
ORDERS: Final[dict[str, ListOrder]] = {"newest": NEWEST, "expiring": EXPIRING}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The search around a place uses times next to it, so a place cannot be the latest possible time.
_LAST: Final = datetime(9000, 1, 1, tzinfo=UTC)
PAGE_RUNS: Final = 25
MAX_UNPLACED: Final = 100
MAX_ASKED: Final = 200


@dataclass(frozen=True)
class ListView:
    """One view of the list: its filters, its order, and its position.

    `group` is `mine`, or `group:` and a name; `after` is the last run of the page before.
    """

    order: str = "newest"
    agent: str = ""
    tool: str = ""
    principal: str = ""
    group: str = ""
    run: str = ""
    after: Place | None = None

    @classmethod
    def parse(cls, said: Mapping[str, str]) -> "ListView":
        """Read the parameters of an address.

        Raises:
            HoldfastError: a parameter is invalid.
        """
        order = said.get("order") or "newest"
        texts = {name: said.get(name, "").strip() for name in _TEXTS}
        if order not in ORDERS:
            raise wrong_command(f"there is no order {order!r}", f"use one of {', '.join(ORDERS)}")
        group = said.get("group", "")
        if group not in ("", MINE) and not group.startswith(_GROUP):
            raise wrong_command(f"`group={group}` is no group", f"say `{MINE}` or `{_GROUP}NAME`")
        after = parse_place(said["after"]) if said.get("after") else None
        return cls(order=order, group=group, after=after, **texts)

    @property
    def is_filtered(self) -> bool:
        """Report whether a filter is set."""
        return bool(self.agent or self.tool or self.principal or self.group or self.run)

    def groups(self, own: tuple[str, ...]) -> tuple[str, ...]:
        """Return the groups to filter for; none: no filter."""
        if self.group == MINE:
            return (names.FOR_ANYBODY, *own)
        return (self.group.removeprefix(_GROUP),) if self.group else ()

    def run_filter(self, own_groups: tuple[str, ...]) -> RunFilter:
        """Return the filter for its runs."""
        groups = self.groups(own_groups)
        return RunFilter(
            self.agent, self.tool, self.principal, groups, self.run, "awaiting_approval"
        )

    def page_after(self, run: RunListing) -> "ListView":
        """Return the view of the page after a run."""
        time = ORDERS[self.order].time(run)
        return replace(self, after=None if time is None else (time, run.id))

    def first_page(self, order: str = "") -> "ListView":
        """Return the first page of the view, in this or another order."""
        return replace(self, order=order or self.order, after=None)

    def group_options(self, groups: Iterable[str]) -> list[tuple[str, str]]:
        """Return the parameters and the names of the groups to choose from."""
        others = dict.fromkeys(group for group in groups if group != names.FOR_ANYBODY)
        options = {f"{_GROUP}{name}": name for name in others}
        if self.group not in ("", MINE):
            options.setdefault(self.group, self.group.removeprefix(_GROUP))
        return [*options.items(), (f"{_GROUP}{names.FOR_ANYBODY}", "anyone")]

    @property
    def address(self) -> str:
        """Return its address."""
        return f"/?{self.query}" if self.query else "/"

    @property
    def query(self) -> str:
        """Return the query string of its address."""
        fields = asdict(self) | {
            "order": "" if self.order == "newest" else self.order,
            "after": "" if self.after is None else format_place(self.after),
        }
        return urlencode({name: text for name, text in fields.items() if text})


@dataclass(frozen=True)
class ListPage:
    """The runs of a page.

    `unplaced` are runs without a time, or without an answer. `missing_attributes` names the search
    attributes that the namespace lacks; then the page can be incomplete (`is_incomplete`).
    """

    runs: Sequence[RunListing]
    unplaced: Sequence[RunListing]
    count: int
    has_more: bool
    missing_attributes: str = ""
    is_incomplete: bool = False

    @property
    def all_runs(self) -> Sequence[RunListing]:
        """Return all runs of the page."""
        return [*self.runs, *self.unplaced]

    def count_calls(self, answers: Mapping[str, RunAnswer]) -> int | None:
        """Return the number of pending calls, or `None` until all runs have answered."""
        found = [answers.get(run.id) for run in self.all_runs]
        counts = [len(answer) for answer in found if isinstance(answer, list)]
        return sum(counts) if len(counts) == len(found) else None

    @property
    def mark(self) -> str:
        """Return a digest that changes with the page."""
        seen = [(run.id, run.since, run.until, run.tools) for run in self.all_runs]
        return hashlib.sha256(repr((self.count, seen)).encode()).hexdigest()[:32]


async def read_page(
    client: HoldfastClient, view: ListView, own_groups: tuple[str, ...]
) -> ListPage:
    """Query the runs of a page by search attributes.

    Raises:
        HoldfastError: Temporal does not answer, or cannot search for a filter.
    """
    wanted, order = view.run_filter(own_groups), ORDERS[view.order]
    try:
        query = str(wanted)
        runs = await first_runs(client, query, order, PAGE_RUNS + 1, view.after)
        count = await client.count_runs(query)
        unplaced = []
        if view.after is None and count > len(runs):
            nowhere = f"{query} AND {order.attribute} IS NULL"
            unplaced = await client.list_runs(nowhere, MAX_UNPLACED)
        return ListPage(runs[:PAGE_RUNS], unplaced, count, len(runs) > PAGE_RUNS)
    except MissingAttributesError:
        lacking = "the times and approvers of pending calls"
    try:
        runs = await client.list_runs(replace(wanted, groups=()), MAX_ASKED + 1)
    except MissingAttributesError:
        lacking = "pending calls, agents and principals"
        runs = await client.list_runs(OPEN + RunFilter(id_prefix=view.run).terms(), MAX_ASKED + 1)
    is_cut = len(runs) > MAX_ASKED
    return ListPage(runs[:MAX_ASKED], [], len(runs), False, lacking, is_cut)


async def count_expiring(
    client: HoldfastClient, view: ListView, own_groups: tuple[str, ...]
) -> int:
    """Count the runs of a view with a call that expires within the hour.

    Raises:
        HoldfastError: as for `read_page`.
    """
    wanted, end = view.run_filter(own_groups), (datetime.now(UTC) + SOON).isoformat()
    return await client.count_runs(f'{wanted} AND {EXPIRING.attribute} <= "{end}"')


def order_by_answers(
    found: ListPage, answers: Mapping[str, RunAnswer], view: ListView, own_groups: tuple[str, ...]
) -> ListPage:
    """Sort and filter a page without search attributes by the answers of its runs."""
    wanted, silent, groups = [], [], set(view.groups(own_groups))
    for run in found.runs:
        answer = answers.get(run.id)
        if not isinstance(answer, list):
            silent.append(run)
            continue
        requested = [time for one in answer if (time := local_time(one.requested_at))]
        expires = [time for one in answer if (time := local_time(one.expires_at))]
        # The run with the search attributes that its answer implies.
        implied = replace(
            run,
            tools=tuple(one.tool for one in answer),
            groups=tuple(g for one in answer for g in one.approvers or [names.FOR_ANYBODY]),
            since=max(requested, default=None),
            until=min(expires, default=None),
        )
        has_tool = not view.tool or view.tool in implied.tools
        if answer and has_tool and (not groups or not groups.isdisjoint(implied.groups)):
            wanted.append(implied)
    behind = sort_runs(wanted, ORDERS[view.order], view.after)
    return replace(
        found,
        runs=behind[:PAGE_RUNS],
        unplaced=[] if view.after else silent[:MAX_UNPLACED],
        count=len(wanted) + len(silent),
        has_more=len(behind) > PAGE_RUNS,
    )


def format_place(place: Place) -> str:
    """Return a position in a list as a parameter."""
    return f"{(place[0] - _EPOCH) // timedelta(microseconds=1)}/{place[1]}"


def parse_place(text: str) -> Place:
    """Read a position in a list.

    Raises:
        HoldfastError: it is invalid.
    """
    microseconds, divided, run = text.partition("/")
    try:
        time = _EPOCH + timedelta(microseconds=int(microseconds))
        if not divided or not _EPOCH <= time <= _LAST:
            raise ValueError(text)
        return time, run
    except (ValueError, OverflowError):
        raise wrong_command("`after` names no place in this list", "open the first page") from None

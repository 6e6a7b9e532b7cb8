"""Query the runs of a page of the list, and read the view from its address.

Without the search attributes for times and approvers, every run with pending calls is queried and
sorted by its answer; without those for pending calls, every open run. The parameters of the
address are `order`, `agent`, `tool`, `principal`, `group`, `run` and `after`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from temporalio.client import Client

from holdfast.client.command_errors import wrong_command
from holdfast.client.run_lists import (
    OPEN,
    MissingAttributesError,
    RunFilter,
    RunListing,
    count_runs,
    list_runs,
    status_query,
)
from holdfast.client.visibility import EXPIRING, NEWEST, ListOrder, Place, first_runs, sort_runs
from holdfast.runtime.text_safety import local_time
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval
from holdfast.web.listing.rows import SOON
from holdfast.web.listing.run_answers import RunAnswer

MINE: Final = "mine"
_GROUP: Final = "group:"
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

    order_name: str = "newest"
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
            CommandError: a parameter is invalid.
        """
        order = said.get("order") or "newest"
        if order not in ORDERS:
            raise wrong_command(f"there is no order {order!r}", f"use one of {', '.join(ORDERS)}")
        group = said.get("group", "")
        if group not in ("", MINE) and not group.startswith(_GROUP):
            raise wrong_command(f"`group={group}` is no group", f"say `{MINE}` or `{_GROUP}NAME`")
        return cls(
            order,
            agent=said.get("agent", "").strip(),
            tool=said.get("tool", "").strip(),
            principal=said.get("principal", "").strip(),
            group=group,
            run=said.get("run", "").strip(),
            after=parse_place(said["after"]) if said.get("after") else None,
        )

    @property
    def order(self) -> ListOrder:
        """Return the order of the list."""
        return ORDERS[self.order_name]

    @property
    def is_filtered(self) -> bool:
        """Report whether a filter is set."""
        return bool(self.agent or self.tool or self.principal or self.group or self.run)

    def run_filter(self, own_groups: tuple[str, ...]) -> RunFilter:
        """Return the filter for a person in these groups."""
        return RunFilter(self.agent, self.tool, self.principal, self.groups(own_groups), self.run)

    def groups(self, own: tuple[str, ...]) -> tuple[str, ...]:
        """Return the groups to filter for; none: no filter."""
        if self.group == MINE:
            return (names.FOR_ANYBODY, *own)
        return (self.group.removeprefix(_GROUP),) if self.group else ()

    def page_after(self, run: RunListing) -> "ListView":
        """Return the view of the page after a run."""
        time = self.order.time(run)
        return replace(self, after=None if time is None else (time, run.id))

    def with_changes(self, **changes: Any) -> "ListView":
        """Return the first page of the view with changes."""
        return replace(self, **{"after": None, **changes})

    @property
    def query(self) -> str:
        """Return the query string of its address."""
        said = {
            "order": "" if self.order_name == "newest" else self.order_name,
            "agent": self.agent,
            "tool": self.tool,
            "principal": self.principal,
            "group": self.group,
            "run": self.run,
            "after": "" if self.after is None else format_place(self.after),
        }
        return urlencode({name: text for name, text in said.items() if text})


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

    @property
    def mark(self) -> str:
        """Return a digest that changes with the page."""
        seen = [(run.id, run.since, run.until, run.tools) for run in self.all_runs]
        return hashlib.sha256(repr((self.count, seen)).encode()).hexdigest()[:32]


async def read_page(client: Client, view: ListView, own_groups: tuple[str, ...]) -> ListPage:
    """Query the runs of a page by search attributes.

    Raises:
        CommandError: Temporal does not answer, or cannot search for a filter.
    """
    wanted = view.run_filter(own_groups)
    try:
        return await _in_order(client, status_query("awaiting_approval") + wanted.terms(), view)
    except MissingAttributesError:
        without_groups = replace(wanted, groups=()).terms()
    lacking = "the times and approvers of pending calls"
    try:
        runs = await list_runs(
            client, status_query("awaiting_approval") + without_groups, MAX_ASKED + 1
        )
    except MissingAttributesError:
        lacking = "pending calls, agents and principals"
        runs = await list_runs(client, OPEN + RunFilter(id_prefix=view.run).terms(), MAX_ASKED + 1)
    unasked = len(runs) > MAX_ASKED
    return ListPage(runs[:MAX_ASKED], [], len(runs), False, lacking, unasked)


async def count_expiring(client: Client, view: ListView, own_groups: tuple[str, ...]) -> int:
    """Count the runs of a view with a call that expires within the hour.

    Raises:
        CommandError: as for `read_page`.
    """
    query = status_query("awaiting_approval") + view.run_filter(own_groups).terms()
    end = (datetime.now(UTC) + SOON).isoformat()
    return await count_runs(client, f'{query} AND {EXPIRING.attribute} <= "{end}"')


async def _in_order(client: Client, query: str, view: ListView) -> ListPage:
    runs = await first_runs(client, query, view.order, PAGE_RUNS + 1, view.after)
    count = await count_runs(client, query)
    unplaced = []
    if view.after is None and count > len(runs):
        nowhere = f"{query} AND {view.order.attribute} IS NULL"
        unplaced = await list_runs(client, nowhere, MAX_UNPLACED)
    return ListPage(runs[:PAGE_RUNS], unplaced, count, len(runs) > PAGE_RUNS)


def order_by_answers(
    found: ListPage, answers: Mapping[str, RunAnswer], view: ListView, own_groups: tuple[str, ...]
) -> ListPage:
    """Sort and filter a page without search attributes by the answers of its runs."""
    wanted, silent, groups = [], [], set(view.groups(own_groups))
    for run in found.runs:
        answer = answers.get(run.id)
        if not isinstance(answer, list):
            silent.append(run)
        elif answer and _fits(told := _told(run, answer), view.tool, groups):
            wanted.append(told)
    behind = sort_runs(wanted, view.order, view.after)
    return replace(
        found,
        runs=behind[:PAGE_RUNS],
        unplaced=[] if view.after else silent[:MAX_UNPLACED],
        count=len(wanted) + len(silent),
        has_more=len(behind) > PAGE_RUNS,
    )


def _fits(run: RunListing, tool: str, groups: set[str]) -> bool:
    return (not tool or tool in run.tools) and (not groups or not groups.isdisjoint(run.groups))


def _told(run: RunListing, waiting: Sequence[PendingApproval]) -> RunListing:
    """Return a run with the search attributes that its answer implies."""
    asked = [time for one in waiting if (time := local_time(one.requested_at))]
    expire = [time for one in waiting if (time := local_time(one.expires_at))]
    return replace(
        run,
        tools=tuple(one.tool for one in waiting),
        groups=tuple(g for one in waiting for g in one.approvers or [names.FOR_ANYBODY]),
        since=max(asked, default=None),
        until=min(expire, default=None),
    )


def group_option(name: str) -> str:
    """Return the parameter of a group."""
    return f"{_GROUP}{name}"


def format_place(place: Place) -> str:
    """Return a position in a list as a parameter."""
    return f"{(place[0] - _EPOCH) // timedelta(microseconds=1)}/{place[1]}"


def parse_place(text: str) -> Place:
    """Read a position in a list.

    Raises:
        CommandError: it is invalid.
    """
    microseconds, divided, run = text.partition("/")
    try:
        time = _EPOCH + timedelta(microseconds=int(microseconds))
        if not divided or not _EPOCH <= time <= _LAST:
            raise ValueError(text)
        return time, run
    except (ValueError, OverflowError):
        raise wrong_command("`after` names no place in this list", "open the first page") from None

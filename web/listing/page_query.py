"""One look at what waits: which runs a page shows, as the lists have them.

Where the namespace does not know since when and for whom runs wait, every run that waits is asked,
and put in order then; where it does not even know which runs wait, every open one is.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from temporalio.client import Client

from holdfast.client.run_lists import (
    OPEN,
    MissingAttributesError,
    RunFilter,
    RunListing,
    count_runs,
    list_runs,
    status_query,
)
from holdfast.client.visibility import EXPIRING, first_runs, sort_runs
from holdfast.runtime.text_safety import local_time
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval
from holdfast.web.listing.filters import View
from holdfast.web.listing.rows import SOON
from holdfast.web.listing.run_answers import Answer

PAGE_RUNS: Final = 25
MAX_UNPLACED: Final = 100
MAX_ASKED: Final = 200


@dataclass(frozen=True)
class Look:
    """What a page shows; `more` says that there is a page behind it. `unplaced` are runs that began
    before the lists knew since when a run waits, or that have not answered; `lacking` says what the
    namespace does not know, and `unasked` that there may be more runs than were asked for it."""

    runs: Sequence[RunListing]
    unplaced: Sequence[RunListing]
    count: int
    more: bool
    lacking: str = ""
    unasked: bool = False

    @property
    def shown(self) -> Sequence[RunListing]:
        """All runs of the page."""
        return [*self.runs, *self.unplaced]

    @property
    def mark(self) -> str:
        """What is another as soon as the page would show something else."""
        seen = [(run.id, run.since, run.until, run.tools) for run in self.shown]
        return hashlib.sha256(repr((self.count, seen)).encode()).hexdigest()[:32]


async def look(client: Client, view: View, own_groups: tuple[str, ...]) -> Look:
    """Look at the lists alone.

    Raises:
        CommandError: Temporal does not answer, or cannot search for what is wanted.
    """
    wanted = view.wanted(own_groups)
    try:
        return await _in_order(client, status_query("awaiting_approval") + wanted.terms(), view)
    except MissingAttributesError:
        without_groups = replace(wanted, groups=()).terms()
    lacking = "since when, until when and for whom runs wait"
    try:
        runs = await list_runs(
            client, status_query("awaiting_approval") + without_groups, MAX_ASKED + 1
        )
    except MissingAttributesError:
        lacking = "which runs wait, nor their agents and principals"
        runs = await list_runs(client, OPEN + RunFilter(id_prefix=view.run).terms(), MAX_ASKED + 1)
    unasked = len(runs) > MAX_ASKED
    return Look(runs[:MAX_ASKED], [], len(runs), False, lacking, unasked)


async def soon(client: Client, view: View, own_groups: tuple[str, ...]) -> int:
    """How many of all the runs that are wanted have a call that expires within the hour.

    Raises:
        CommandError: as `look` does.
    """
    query = status_query("awaiting_approval") + view.wanted(own_groups).terms()
    end = (datetime.now(UTC) + SOON).isoformat()
    return await count_runs(client, f'{query} AND {EXPIRING.attribute} <= "{end}"')


async def _in_order(client: Client, query: str, view: View) -> Look:
    runs = await first_runs(client, query, view.order, PAGE_RUNS + 1, view.after)
    count = await count_runs(client, query)
    unplaced = []
    if view.after is None and count > len(runs):
        nowhere = f"{query} AND {view.order.attribute} IS NULL"
        unplaced = await list_runs(client, nowhere, MAX_UNPLACED)
    return Look(runs[:PAGE_RUNS], unplaced, count, len(runs) > PAGE_RUNS)


def placed(
    found: Look, answers: Mapping[str, Answer], view: View, own_groups: tuple[str, ...]
) -> Look:
    """A look at what lacks attributes, with what the runs themselves have answered instead."""
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
        more=len(behind) > PAGE_RUNS,
    )


def _fits(run: RunListing, tool: str, groups: set[str]) -> bool:
    return (not tool or tool in run.tools) and (not groups or not groups.isdisjoint(run.groups))


def _told(run: RunListing, waiting: Sequence[PendingApproval]) -> RunListing:
    """A run, with what would stand in the lists."""
    asked = [time for one in waiting if (time := local_time(one.requested_at))]
    expire = [time for one in waiting if (time := local_time(one.expires_at))]
    return replace(
        run,
        tools=tuple(one.tool for one in waiting),
        groups=tuple(g for one in waiting for g in one.approvers or [names.FOR_ANYBODY]),
        since=max(asked, default=None),
        until=min(expire, default=None),
    )

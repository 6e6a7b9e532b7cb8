"""The runs with pending approvals: one list for all viewers of a process.

Pages, filters, orders, counts and metrics are computed from the list. Temporal is requested while
someone looks, and on average once in `EVERY_SECONDS`: a list of several requests is read at once,
and kept as many times longer.

    viewer ─┐             ┌──due?──► Temporal, 1,000 runs a request
    viewer ─┼──read()──► list
    viewer ─┘             └──decision──► the run is queried again, then each viewer is notified

Lists lag behind runs. So a run is hidden when it has answered that nothing is pending
(`RunAnswers.is_settled`), until the list shows a change of it.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final

from holdfast.client import run_lists
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval
from holdfast.web.listing.run_answers import RunAnswers

EVERY_SECONDS: Final = 5.0
# A count is shown for this time after the list was due.
PEEK_SECONDS: Final = 60.0
# The runs that the client of Temporal requests at a time.
PAGE_RUNS: Final = 1_000
MAX_APPROVED: Final = 100
# What a namespace can lack, as a page states it.
NO_TIMES: Final = "the times and approvers of pending calls"
NO_STATUS: Final = "pending calls, agents and principals"


@dataclass(frozen=True)
class PendingList:
    """The runs with pending approvals, at most `MAX_RUNS`; `count` is the number of all.

    `missing_attributes` names the search attributes that the namespace lacks; without a status, the
    list has all open runs. `decisions` counts those that this process has sent to each run, and
    `marks` has what viewers share: the digests of pages, and counts. `scoped` are the parts of the
    list for people who may not see all of it (`Services.pending_for`).
    """

    runs: Sequence[run_lists.RunListing]
    count: int
    missing_attributes: str = ""
    decisions: Mapping[str, int] = field(default_factory=dict)
    marks: dict[object, str] = field(init=False, default_factory=dict)
    scoped: dict[object, "PendingList"] = field(init=False, default_factory=dict)


class PendingRuns:
    """The list of a process, and the answers of its runs.

    `changed` is set, and replaced, after a decision of this process on a listed run. `approved` are
    the calls that it approved last, with their runs.
    """

    def __init__(self, client: HoldfastClient) -> None:
        self.answers = RunAnswers(client)
        self.changed = asyncio.Event()
        self.approved = deque[tuple[run_lists.RunListing, PendingApproval]](maxlen=MAX_APPROVED)
        self._client = client
        self._list = PendingList((), 0)
        self._request: asyncio.Task[None] | None = None
        self._due = 0.0

    async def read(self) -> PendingList:
        """Return the list without settled runs; request it if it is due.

        Raises:
            HoldfastError: Temporal does not answer; it is requested again when the list is due.
        """
        if self._request is None or (self._request.done() and monotonic() >= self._due):
            self._request = asyncio.create_task(self._read())
        await asyncio.shield(self._request)
        return self._list

    def peek(self) -> PendingList:
        """Return the list as it was last read, without a request; empty if that is too long ago."""
        return self._list if monotonic() < self._due + PEEK_SECONDS else PendingList((), 0)

    def hide_settled(self) -> bool:
        """Take settled runs from the list, and report whether there were any."""
        runs = [run for run in self._list.runs if not self.answers.is_settled(run)]
        hidden = len(self._list.runs) - len(runs)
        if hidden:
            self._list = replace(self._list, runs=runs, count=self._list.count - hidden)
        return hidden > 0

    async def wait_until_due(self, changed: asyncio.Event) -> None:
        """Wait until the list is due, or until this event, an earlier `changed`, is set."""
        with suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), self._due - monotonic())

    def recheck(self, run_id: str, approved: PendingApproval | None = None) -> None:
        """Query a run again, since a decision was sent to it; then notify the viewers.

        `approved` is the call that it approved.
        """

        def notify(_: object) -> None:
            sent = self._list.decisions
            self._list = replace(self._list, decisions={**sent, run_id: sent.get(run_id, 0) + 1})
            self.hide_settled()
            self.changed.set()
            self.changed = asyncio.Event()

        self.answers.forget(run_id)
        for run in self._list.runs:
            if run.id == run_id and (query := self.answers.query(run, is_urgent=True)):
                query.add_done_callback(notify)
            if run.id == run_id and approved is not None:
                self.approved.append((run, approved))

    async def _read(self) -> None:
        self._due = monotonic()
        found, sent = await self._read_indexed(), self._list.decisions
        listed = {run.id: sent[run.id] for run in found.runs if run.id in sent}
        self._list = replace(found, decisions=listed)
        self.hide_settled()

    async def _read_indexed(self) -> PendingList:
        """Read the list by those search attributes that the namespace has."""
        query, shown = run_lists.status_query("awaiting_approval"), names.WAITING_ATTRIBUTES
        # True of each run: the server rejects an attribute that it does not have.
        terms = [f"({one} IS NULL OR {one} IS NOT NULL)" for one in (names.PENDING_TOOLS, *shown)]
        for tried, missing in ((" AND ".join([query, *terms]), ""), (query, NO_TIMES)):
            with suppress(run_lists.MissingAttributesError):
                return await self._read_all(tried, missing)
        return await self._read_all(run_lists.OPEN, NO_STATUS)

    async def _read_all(self, query: str, missing_attributes: str) -> PendingList:
        self._due += EVERY_SECONDS
        runs = await self._client.list_runs(query, run_lists.MAX_RUNS)
        self._due += EVERY_SECONDS * (len(runs) // PAGE_RUNS)
        count = (
            len(runs) if len(runs) < run_lists.MAX_RUNS else await self._client.count_runs(query)
        )
        return PendingList(runs, count, missing_attributes)

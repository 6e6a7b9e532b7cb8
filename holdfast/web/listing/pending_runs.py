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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from time import monotonic
from typing import Final

from holdfast.client import run_lists
from holdfast.client.diagnosis import NoBuildError, TaskTimedOutError
from holdfast.client.errors import NO_SUCH, HoldfastError, NoWorkerError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import RunListing
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval, digest_of
from holdfast.schemas.internal.selected_call import SelectedCall

EVERY_SECONDS: Final = 5.0
# A count is shown for this time after the list was due.
PEEK_SECONDS: Final = 60.0
# The runs that the client of Temporal requests at a time.
PAGE_RUNS: Final = 1_000
MAX_APPROVED: Final = 100
# What a namespace can lack, as a page states it.
NO_TIMES: Final = "the times and approvers of pending calls"
NO_STATUS: Final = "pending calls, agents and principals"
AT_ONCE: Final = 8
# A run is queried again after this time, or once the list shows a change of it. It shows none where
# a decision from elsewhere leaves other calls of the run pending.
KEPT_SECONDS: Final = 30.0
# A task queue without any answer is not queried again for this time, nor is a run without times.
SILENT_SECONDS: Final = 5.0
MAX_KEPT: Final = 1_000

RunAnswer = list[PendingApproval] | HoldfastError
_Key = tuple[object, ...]


class RunAnswers:
    """The pending calls of runs, queried a few at a time and once for all viewers.

    A run that is not in its worker's memory is replayed before it answers. So only the runs of the
    shown page are queried; a page is shown when its time is up, with the answers so far.
    """

    def __init__(self, client: HoldfastClient) -> None:
        self._client = client
        self._gate, self._urgent_gate = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(AT_ONCE)
        # Each query returns the answer, and the time until which it is kept.
        self._tasks: dict[_Key, asyncio.Task[tuple[RunAnswer, float]]] = {}
        self._silent: dict[str, tuple[float, NoWorkerError]] = {}

    async def read(self, runs: Sequence[RunListing], seconds: float) -> dict[str, RunAnswer]:
        """Return the answers that arrive within `seconds`, by run id."""
        now = monotonic()
        self._silent = {queue: one for queue, one in self._silent.items() if now < one[0]}
        is_full = len(self._tasks) >= MAX_KEPT
        for key, task in [*self._tasks.items()]:
            # An unexpected error is reported once, and queried again.
            if task.done() and (is_full or task.exception() or now >= task.result()[1]):
                del self._tasks[key]
        tasks = {run.id: query for run in runs if (query := self.query(run))}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=seconds)
        return {run: task.result()[0] for run, task in tasks.items() if task.done()}

    def query(
        self, run: RunListing, *, is_urgent: bool = False
    ) -> asyncio.Task[tuple[RunAnswer, float]] | None:
        """Return the query of a run as it is listed, or None if there are too many.

        An urgent one does not wait for runs whose workers do not answer.
        """
        if (key := _key(run)) not in self._tasks and len(self._tasks) < MAX_KEPT:
            gate = self._urgent_gate if is_urgent else self._gate
            self._tasks[key] = asyncio.create_task(self._answer(run, gate))
        return self._tasks.get(key)

    def is_settled(self, run: RunListing) -> bool:
        """Report whether a run has answered that no call is pending, and is listed as it was."""
        task = self._tasks.get(_key(run)) if run.since else None
        if task is None or not task.done() or task.exception():
            return False
        answer, kept_until = task.result()
        return answer == [] and monotonic() < kept_until

    def kept(self, runs: Iterable[RunListing]) -> dict[str, RunAnswer]:
        """Return the answers of runs as they are listed, without a query, by run id."""
        tasks = ((run.id, self._tasks.get(_key(run))) for run in runs)
        done = ((run, task) for run, task in tasks if task and task.done() and not task.exception())
        return {run: task.result()[0] for run, task in done}

    def forget(self, run_id: str) -> None:
        """Query this run again."""
        for key in [*self._tasks]:
            if key[0] == run_id:
                del self._tasks[key]

    async def _answer(self, run: RunListing, gate: asyncio.Semaphore) -> tuple[RunAnswer, float]:
        answer: RunAnswer
        async with gate:
            silent_until, answer = self._silent.get(run.task_queue, (0.0, []))
            try:
                if monotonic() >= silent_until:
                    answer = [*await self._client.run(run.id).approvals()]
            except NoWorkerError as error:
                # Another run may be on another build, and another run's task may not time out.
                if not isinstance(error, NoBuildError | TaskTimedOutError):
                    self._silent[run.task_queue] = (monotonic() + SILENT_SECONDS, error)
                answer = error
            except HoldfastError as error:
                answer = [] if error.exit_code == NO_SUCH else error
        is_kept = run.since is not None and isinstance(answer, list)
        return answer, monotonic() + (KEPT_SECONDS if is_kept else SILENT_SECONDS)


def _key(run: RunListing) -> _Key:
    return run.id, run.since, run.until, run.tools


@dataclass(frozen=True)
class PendingList:
    """The runs with pending approvals, at most `MAX_RUNS`; `count` is the number of all.

    `missing_attributes` names the search attributes that the namespace lacks; without a status, the
    list has all open runs. `decisions` counts those that this process has sent to each run, and
    `marks` has what viewers share: the digests of pages, and counts. `scoped` are the parts of the
    list for people who may not see all of it (`Services.pending_for`).
    """

    runs: Sequence[RunListing]
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
        self.approved = deque[tuple[RunListing, PendingApproval]](maxlen=MAX_APPROVED)
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


def request_key(one: PendingApproval) -> tuple[str, str]:
    """Return what identical calls have in common: tool and arguments, as a digest, and instance."""
    # The digest of a call is of all arguments, also where the shown ones are cut.
    digest = one.digest if one.kind == "call" else digest_of(one.tool, one.arguments, "call", 1)
    return digest, one.instance or ""


def find_identical(
    pending: Mapping[SelectedCall, PendingApproval], runs: Iterable[RunListing]
) -> dict[SelectedCall, list[SelectedCall]]:
    """Return each call that has identical ones, with all of them, itself included.

    Their runs have the same principal, or else the same agent. A run that is not listed may have
    any principal.
    """
    owners = {run.id: (run.principal, "" if run.principal else run.agent) for run in runs}
    found: dict[object, dict[object, list[SelectedCall]]] = {}
    for call, approval in pending.items():
        same = found.setdefault(request_key(approval), {})
        same.setdefault(owners.get(call.run), []).append(call)
    groups: list[list[SelectedCall]] = []
    for same in found.values():
        groups += [[*chain(*same.values())]] if None in same else same.values()
    return {one: group for group in groups if len(group) > 1 for one in group}

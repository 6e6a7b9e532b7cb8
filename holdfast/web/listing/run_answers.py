"""The pending calls of runs, queried a few at a time and once for all viewers.

A run that is not in its worker's memory is replayed before it answers. So only the runs of the
shown page are queried; a page is shown when its time is up, with the answers so far.
"""

import asyncio
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Final

from holdfast.client.diagnosis import NoBuildError, TaskTimedOutError
from holdfast.client.errors import NO_SUCH, HoldfastError, NoWorkerError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import RunListing
from holdfast.schemas.decision import PendingApproval

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
    """The queries of a process."""

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
        self._tasks = {key: task for key, task in self._tasks.items() if key[0] != run_id}

    async def _answer(self, run: RunListing, gate: asyncio.Semaphore) -> tuple[RunAnswer, float]:
        answer: RunAnswer
        async with gate:
            silent = self._silent.get(run.task_queue)
            try:
                if silent is not None and monotonic() < silent[0]:
                    answer = silent[1]
                else:
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

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
# For this time an answer is as good as a new one, if the list shows no change.
KEPT_SECONDS: Final = 2.0
# A task queue without any answer is not queried again for this time.
SILENT_SECONDS: Final = 5.0
MAX_KEPT: Final = 1_000

RunAnswer = list[PendingApproval] | HoldfastError
_Key = tuple[object, ...]


class RunAnswers:
    """The queries of a process."""

    def __init__(self, client: HoldfastClient) -> None:
        self._client = client
        self._gate = asyncio.Semaphore(AT_ONCE)
        # Each query returns the answer, and the time until which it is kept.
        self._tasks: dict[_Key, asyncio.Task[tuple[RunAnswer, float]]] = {}
        self._silent: dict[str, tuple[float, NoWorkerError]] = {}

    async def read(self, runs: Sequence[RunListing], seconds: float) -> dict[str, RunAnswer]:
        """Return the answers that arrive within `seconds`, by run id."""
        now = monotonic()
        self._silent = {queue: one for queue, one in self._silent.items() if now < one[0]}
        for key, task in [*self._tasks.items()]:
            # An unexpected error is reported once, and queried again.
            if task.done() and (task.exception() is not None or now >= task.result()[1]):
                del self._tasks[key]
        tasks = {}
        for run in runs:
            key = (run.id, run.since, run.until, run.tools)
            if key not in self._tasks and len(self._tasks) < MAX_KEPT:
                self._tasks[key] = asyncio.create_task(self._answer(run))
            if key in self._tasks:
                tasks[run.id] = self._tasks[key]
        if tasks:
            await asyncio.wait(tasks.values(), timeout=seconds)
        return {run: task.result()[0] for run, task in tasks.items() if task.done()}

    def forget(self, ids: Iterable[str]) -> None:
        """Query these runs again: one of their calls was decided."""
        gone = set(ids)
        self._tasks = {key: task for key, task in self._tasks.items() if key[0] not in gone}

    async def _answer(self, run: RunListing) -> tuple[RunAnswer, float]:
        answer: RunAnswer
        async with self._gate:
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
        is_error = isinstance(answer, HoldfastError)
        return answer, monotonic() + (SILENT_SECONDS if is_error else KEPT_SECONDS)

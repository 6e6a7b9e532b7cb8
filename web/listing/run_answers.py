"""The pending calls of runs, queried a few at a time and once for all viewers.

A run that is not in its worker's memory is replayed before it answers. So only the runs of the
shown page are queried; a page is shown when its time is up, with the answers so far.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

from temporalio.client import Client

from holdfast.client.command_errors import NO_SUCH, CommandError, NoWorkerError
from holdfast.client.diagnosis import NoBuildError
from holdfast.client.run_handle import RunHandle
from holdfast.client.run_lists import RunListing
from holdfast.schemas.decision import PendingApproval

AT_ONCE: Final = 8
# For this time an answer is as good as a new one, if the list shows no change.
KEPT_SECONDS: Final = 2.0
# A task queue without any answer is not queried again for this time.
SILENT_SECONDS: Final = 5.0
MAX_KEPT: Final = 1_000

RunAnswer = list[PendingApproval] | CommandError
_Key = tuple[object, ...]


@dataclass
class _Asking:
    task: asyncio.Task[RunAnswer]
    answered: float | None = None


class RunAnswers:
    """The queries of a process."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._asking: dict[_Key, _Asking] = {}
        self._silent: dict[str, tuple[float, NoWorkerError]] = {}

    async def read(self, runs: Sequence[RunListing], seconds: float) -> dict[str, RunAnswer]:
        """Return the answers that arrive within `seconds`, by run id."""
        self._forget()
        tasks = {run.id: task for run in runs if (task := self._task(run)) is not None}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=seconds)
        return {run: task.result() for run, task in tasks.items() if task.done()}

    def forget(self, ids: Iterable[str]) -> None:
        """Query these runs again: one of their calls was decided."""
        gone = set(ids)
        for key in [key for key in self._asking if key[0] in gone]:
            del self._asking[key]

    def _task(self, run: RunListing) -> asyncio.Task[RunAnswer] | None:
        key = (run.id, run.since, run.until, run.tools)
        if key not in self._asking:
            if len(self._asking) >= MAX_KEPT:
                return None
            asking = _Asking(asyncio.create_task(self._answer(run)))
            asking.task.add_done_callback(lambda _: _stamp(asking))
            self._asking[key] = asking
        return self._asking[key].task

    async def _answer(self, run: RunListing) -> RunAnswer:
        async with self._gate:
            silent = self._silent.get(run.task_queue)
            if silent is not None and monotonic() < silent[0]:
                return silent[1]
            try:
                return await RunHandle(self._client, run.id).pending_approvals()
            except NoWorkerError as error:
                if not isinstance(error, NoBuildError):  # another run may be on another build
                    self._silent[run.task_queue] = (monotonic() + SILENT_SECONDS, error)
                return error
            except CommandError as error:
                return [] if error.code == NO_SUCH else error

    def _forget(self) -> None:
        now = monotonic()
        self._silent = {queue: said for queue, said in self._silent.items() if now < said[0]}
        self._asking = {
            key: asking
            for key, asking in self._asking.items()
            if asking.answered is None or now < asking.answered + _kept_seconds(asking)
        }


def _stamp(asking: _Asking) -> None:
    asking.answered = monotonic()


def _kept_seconds(asking: _Asking) -> float:
    if asking.task.exception() is not None:
        return 0.0  # an unexpected error is reported once, and queried again
    return SILENT_SECONDS if isinstance(asking.task.result(), CommandError) else KEPT_SECONDS

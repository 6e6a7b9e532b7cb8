"""What runs answer of what waits in them: asked a few at a time, and once for all who look.

A run that its worker does not have in memory has to be replayed before it can answer. So runs are
asked for the page that is looked at alone; a page is shown when its time is up, with what has come
by then, and the rest is there when it is looked at again.
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
# For as long as this an answer is as good as a new one, if the list says that nothing has changed.
KEPT_SECONDS: Final = 2.0
# Of a task queue on which nobody has answered, nothing more is asked for so long.
SILENT_SECONDS: Final = 5.0
MAX_KEPT: Final = 1_000

Answer = list[PendingApproval] | CommandError
_Key = tuple[object, ...]


@dataclass
class _Asking:
    """A question that is under way, or has been answered."""

    task: asyncio.Task[Answer]
    answered: float | None = None


class Asked:
    """The questions of a process."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._asking: dict[_Key, _Asking] = {}
        self._silent: dict[str, tuple[float, NoWorkerError]] = {}

    async def of(self, runs: Sequence[RunListing], seconds: float) -> dict[str, Answer]:
        """By the runs' ids, what has been answered when the time is up, or before."""
        self._forget()
        tasks = {run.id: task for run in runs if (task := self._task(run)) is not None}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=seconds)
        return {run: task.result() for run, task in tasks.items() if task.done()}

    def forget(self, ids: Iterable[str]) -> None:
        """Ask these runs anew: something has been decided in them."""
        gone = set(ids)
        for key in [key for key in self._asking if key[0] in gone]:
            del self._asking[key]

    def _task(self, run: RunListing) -> asyncio.Task[Answer] | None:
        key = (run.id, run.since, run.until, run.tools)
        if key not in self._asking:
            if len(self._asking) >= MAX_KEPT:
                return None
            asking = _Asking(asyncio.create_task(self._answer(run)))
            asking.task.add_done_callback(lambda _: _stamp(asking))
            self._asking[key] = asking
        return self._asking[key].task

    async def _answer(self, run: RunListing) -> Answer:
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
        return 0.0  # what nobody planned is told once, and asked anew
    return SILENT_SECONDS if isinstance(asking.task.result(), CommandError) else KEPT_SECONDS

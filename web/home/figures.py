"""The figures of many runs: their number by status, and how the newest ended runs ended.

They are read while someone looks, and once in `EVERY_SECONDS` for all people. A reader who does not
wait for the end of a reading loses nothing: the next reading continues it.
"""

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Final, get_args

from holdfast.client.errors import HoldfastError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import RUNS, RunListing, status_query
from holdfast.schemas.run import RunStatus

EVERY_SECONDS: Final = 60.0
MAX_ENDED: Final = 200
AT_ONCE: Final = 8
_RUN_SECONDS: Final = 5.0
_ENDED: Final = f'{RUNS} AND ExecutionStatus != "Running"'


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended, with its status or error as `code`: empty if it cannot be read here.

    The cost includes that of its delegates; it is `None` where no provider or price list has it.
    """

    run: RunListing
    code: str = ""
    turns: int = 0
    cost: float | None = None


class Figures:
    """The figures of a process. The end of a run is read once: it does not change."""

    def __init__(self, client: HoldfastClient) -> None:
        self._client = client
        self._lock, self._gate = asyncio.Lock(), asyncio.Semaphore(AT_ONCE)
        self._due = 0.0
        self._counts: dict[str | None, list[tuple[RunStatus, int]]] = {}
        self._ended: dict[str, EndedRun] = {}

    async def read(self, terms: str | None) -> tuple[list[tuple[RunStatus, int]], list[EndedRun]]:
        """Return the number of runs of each status, and the newest ended runs, the latest first.

        Further `terms` of a query select the runs that are counted; None: no run. Temporal groups
        a count by its own status only, so each status of a run is a count of its own.

        Raises:
            HoldfastError: Temporal does not answer, or lacks the search attributes of runs.
        """
        async with self._lock:
            if monotonic() >= self._due:
                runs = await self._client.list_runs(_ENDED, MAX_ENDED)
                await asyncio.gather(*map(self._read_end, runs))
                self._ended = {run.execution: self._ended[run.execution] for run in runs}
                self._counts, self._due = {}, monotonic() + EVERY_SECONDS
            if terms is not None and terms not in self._counts:
                wanted = get_args(RunStatus)
                queries = [self._client.count_runs(status_query(one) + terms) for one in wanted]
                counts = await asyncio.gather(*queries)
                self._counts[terms] = [*zip(wanted, counts, strict=True)]
            return self._counts.get(terms, []), [*self._ended.values()]

    async def _read_end(self, run: RunListing) -> None:
        if run.execution in self._ended and self._ended[run.execution].code:
            return
        self._ended[run.execution] = EndedRun(run)
        remote = self._client.run(run.id)
        try:
            async with self._gate, asyncio.timeout(_RUN_SECONDS):
                end = await remote.ending(unread="not read here", execution=run.execution)
        except (HoldfastError, TimeoutError):
            return
        spent, code = end.result or end.spent, end.code or end.status
        turns, cost = (spent.turns, spent.usage.cost) if spent else (0, None)
        self._ended[run.execution] = EndedRun(run, code, turns, cost)

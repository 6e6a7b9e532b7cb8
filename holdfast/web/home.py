"""The home page (`/home`): what is pending, what runs, what fails, and what it costs.

The figures of runs are read while someone looks, and once in `EVERY_SECONDS` for all people. A
reader who does not wait for the end of a reading loses nothing: the next reading continues it.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from time import monotonic
from typing import Any, Final, NamedTuple, get_args

from starlette.requests import Request
from starlette.responses import Response

from holdfast.client.errors import HoldfastError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import RUNS, RunListing, status_query
from holdfast.client.shared_budgets import read_budgets
from holdfast.runtime.text_safety import as_sentence, clean
from holdfast.schemas.internal.shared_budgets import BudgetView
from holdfast.schemas.internal.solution import add_amounts
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import RunStatus
from holdfast.web.auth.sessions import person_of
from holdfast.web.listing.page_query import AGES, EXPIRING, ListView, find_page
from holdfast.web.page_text import STATUS_LABELS
from holdfast.web.pages import page
from holdfast.web.services import Services

# A page is sent within this time; the figures that arrive later are on the next one.
ANSWER_SECONDS: Final = 3.0
EVERY_SECONDS: Final = 60.0
MAX_ENDED: Final = 200
MAX_BUDGETS: Final = 20
AT_ONCE: Final = 8
_RUN_SECONDS: Final = 5.0
_ENDED: Final = f'{RUNS} AND ExecutionStatus != "Running"'
_NO_FAILURES: Final = ("", "completed", "stopped", "cancelled", ErrorCode.DENIED)
_LATE: Final = "The figures of runs are still being read. Reload the page in a moment."

StatusCounts = list[tuple[RunStatus, int]]


class EndedRun(NamedTuple):
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
        self._counts: dict[str | None, StatusCounts] = {}
        self._ended: dict[str, EndedRun] = {}
        self.budgets: list[BudgetView] = []

    async def read(self, terms: str | None) -> tuple[StatusCounts, list[EndedRun]]:
        """Return the number of runs of each status, and the newest ended runs, the latest first.

        Further `terms` of a query select the runs that are counted; None: no run. Temporal groups
        a count by its own status only, so each status of a run is a count of its own.

        Raises:
            HoldfastError: Temporal does not answer, or lacks the search attributes of runs.
        """
        async with self._lock:
            if monotonic() >= self._due:
                runs = await self._client.list_runs(_ENDED, MAX_ENDED)
                await asyncio.gather(self._read_budgets(), *map(self._read_end, runs))
                self._ended = {run.execution: self._ended[run.execution] for run in runs}
                self._counts, self._due = {}, monotonic() + EVERY_SECONDS
            if terms is not None and terms not in self._counts:
                wanted = get_args(RunStatus)
                queries = [self._client.count_runs(status_query(one) + terms) for one in wanted]
                counts = await asyncio.gather(*queries)
                self._counts[terms] = [*zip(wanted, counts, strict=True)]
            return self._counts.get(terms, []), [*self._ended.values()]

    async def _read_budgets(self) -> None:
        try:
            async with self._gate, asyncio.timeout(_RUN_SECONDS):
                self.budgets = await read_budgets(self._client, MAX_BUDGETS)
        except (HoldfastError, TimeoutError):
            self.budgets = []  # their worker does not answer

    async def _read_end(self, run: RunListing) -> None:
        if self._ended.setdefault(run.execution, EndedRun(run)).code:
            return
        remote = self._client.run(run.id)
        try:
            async with self._gate, asyncio.timeout(_RUN_SECONDS):
                end = await remote.ending(unread="not read here", execution=run.execution)
        except Exception:
            return  # it is late, encrypted, or in a format of another program
        spent, code = end.result or end.spent, end.code or end.status
        turns, cost = (spent.turns, spent.usage.cost) if spent else (0, None)
        self._ended[run.execution] = EndedRun(run, code, turns, cost)


class HomePage:
    """The home page; all people share its figures."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._figures = Figures(parts.client)

    async def show(self, request: Request) -> Response:
        """Show the figures that can be read in time, and why others cannot."""
        person, permissions = person_of(request), self._parts.permissions
        pending, newest = await self._parts.pending_for(person), ListView()
        views = [(label, replace(newest, age=age)) for age, (label, *_) in AGES.items()]
        ages = [(label, find_page(pending, view, ()).count, view.address) for label, view in views]
        soon = find_page(pending, newest, ()).expiring
        ages.append(("expires within the hour", soon, newest.at(order=EXPIRING)))
        values: dict[str, Any] = {"problem": "", "lacking": pending.missing_attributes}
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                counts, found = await self._figures.read(permissions.query(person))
            ended = [one for one in found if "read" in permissions.access(person, one.run).rights]
            failed = Counter(one.code for one in ended if one.code not in _NO_FAILURES)
            values |= {"counts": counts, "failures": failed.most_common(), "costs": costs(ended)}
            sees_all = "read" in permissions.rights(person, None, None)
            values["budgets"] = self._figures.budgets if sees_all else []
            values |= {"read": len(ended), "unread": sum(not one.code for one in ended)}
        except TimeoutError:
            values["problem"] = _LATE
        except HoldfastError as error:
            values["problem"] = as_sentence(clean(str(error)))
        return page(request, "home.html", ages=ages, labels=STATUS_LABELS, **values)


def costs(ended: Iterable[EndedRun]) -> list[list[Any]]:
    """Return each agent, its cost, and the number of its runs of known and of unknown cost."""
    rows = dict[str, list[Any]]()
    for one in ended:
        # The cost of a delegate is part of that of its parent.
        if one.turns and one.run.agent and one.run.call_of_parent is None:
            row = rows.setdefault(one.run.agent, [one.run.agent, 0.0, 0, 0])
            row[1] = add_amounts(row[1], one.cost or 0.0)
            row[3 if one.cost is None else 2] += 1
    return sorted(rows.values(), key=lambda row: -row[1])

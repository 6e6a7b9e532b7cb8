"""The home page (`/home`): what is pending, what runs, what fails, and what it costs.

The figures of runs are read while someone looks, and once in `EVERY_SECONDS` for all people. A
reader who does not wait for the end of a reading loses nothing: the next reading continues it.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Final, NamedTuple, get_args

from starlette.requests import Request
from starlette.responses import Response

from holdfast.client.errors import HoldfastError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import RUNS, RunListing, status_query
from holdfast.client.shared_budgets import read_budgets
from holdfast.runtime.absences import own_substitutions
from holdfast.runtime.narration.arguments import cost_text
from holdfast.schemas.base import rfc3339
from holdfast.schemas.internal.shared_budgets import BudgetView
from holdfast.schemas.internal.solution import add_amounts
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import RunStatus
from holdfast.web.auth.permissions import has_decided, is_approver
from holdfast.web.auth.sessions import Person, person_of
from holdfast.web.listing.page_query import AGES, EXPIRING, MINE, ListView, find_page
from holdfast.web.listing.pending_runs import RunAnswer
from holdfast.web.listing.routes import read_page
from holdfast.web.listing.rows import pending_rows
from holdfast.web.page_text import STATUS_LABELS
from holdfast.web.pages import page, reader_texts
from holdfast.web.services import Services

# A page is sent within this time; the figures that arrive later are on the next one.
ANSWER_SECONDS: Final = 3.0
EVERY_SECONDS: Final = 60.0
MAX_ENDED: Final = 200
MAX_BUDGETS: Final = 20
MAX_WAITING: Final = 5
PERIODS: Final = {1: "24 hours", 7: "7 days", 30: "30 days"}
AT_ONCE: Final = 8
_RUN_SECONDS: Final = 5.0
_ENDED: Final = f'{RUNS} AND ExecutionStatus != "Running"'
_OPEN: Final = ("running", "awaiting_approval", "awaiting_message")
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
    currency: str | None = None


class Figures:
    """The figures of a process. The end of a run is read once: it does not change."""

    def __init__(self, client: HoldfastClient) -> None:
        self._client = client
        self._lock, self._gate = asyncio.Lock(), asyncio.Semaphore(AT_ONCE)
        self._due = 0.0
        self._counts: dict[tuple[str, int], tuple[StatusCounts, int]] = {}
        self._ended: dict[str, EndedRun] = {}
        self.budgets: list[BudgetView] = []

    async def read(
        self, terms: str | None, days: int = 7
    ) -> tuple[StatusCounts, int, list[EndedRun]]:
        """Return the number of runs by status, that of the time before, and the newest ended runs.

        Open runs are all counted, ended ones of the last `days` and of as many before. Further
        `terms` of a query select the runs that are counted; None: no run. Temporal groups a count
        by its own status only, so each status of a run is a count of its own.

        Raises:
            HoldfastError: Temporal does not answer, or lacks the search attributes of runs.
        """
        async with self._lock:
            if monotonic() >= self._due:
                runs = await self._client.list_runs(_ENDED, MAX_ENDED)
                await asyncio.gather(self._read_budgets(), *map(self._read_end, runs))
                self._ended = {run.execution: self._ended[run.execution] for run in runs}
                self._counts, self._due = {}, monotonic() + EVERY_SECONDS
            if terms is not None and (terms, days) not in self._counts:
                wanted, now = get_args(RunStatus), datetime.now(UTC)
                first, since = (rfc3339(now - timedelta(days=days * n)) for n in (2, 1))
                recent = {one: f' AND CloseTime >= "{since}"' for one in wanted if one not in _OPEN}
                queries = [
                    self._client.count_runs(status_query(one) + terms + recent.get(one, ""))
                    for one in wanted
                ]
                earlier = f'{_ENDED}{terms} AND CloseTime BETWEEN "{first}" AND "{since}"'
                *counts, before = await asyncio.gather(*queries, self._client.count_runs(earlier))
                self._counts[terms, days] = [*zip(wanted, counts, strict=True)], before
            return *self._counts.get((terms or "", days), ([], 0)), [*self._ended.values()]

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
        used = (spent.turns, spent.usage.cost, spent.usage.currency) if spent else ()
        self._ended[run.execution] = EndedRun(run, code, *used)


class HomePage:
    """The home page; all people share its figures."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._figures = Figures(parts.client)

    async def show(self, request: Request) -> Response:
        """Show what the person can decide, the figures in time, and why others are not there."""
        person, permissions = person_of(request), self._parts.permissions
        said, newest = request.query_params.get("days", ""), ListView()
        days = int(said) if said in map(str, PERIODS) else 7
        mine = replace(newest, group=MINE, order=EXPIRING)
        pending, _, found, answers = await read_page(self._parts, person, mine)
        signs = self._parts.signer is not None
        absences = own_substitutions(await self._parts.client.absences.read(), person.name)
        rows = [
            replace(row, choice="", may_claim=False, summary=row.summary if "read" in may else "")
            for run in found.runs
            if "decide" in (may := permissions.access(person, run).rights)
            for row in pending_rows(
                run, _to_decide(answers.get(run.id), person), person, signs=signs, absences=absences
            )
        ]
        views = [(label, replace(newest, age=age)) for age, (label, *_) in AGES.items()]
        ages = [(label, find_page(pending, view, ()).count, view.address) for label, view in views]
        soon = find_page(pending, newest, ()).expiring
        ages.append(("expires within the hour", soon, newest.at(order=EXPIRING)))
        values: dict[str, Any] = {"problem": "", "lacking": pending.missing_attributes}
        more = found.has_more or len(rows) > MAX_WAITING
        values |= {"rows": rows[:MAX_WAITING], "mine": mine.address, "more": more}
        values |= {"days": days, "periods": PERIODS}
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                counts, before, read = await self._figures.read(permissions.query(person), days)
            since = datetime.now(UTC) - timedelta(days=days)
            recent = [one for one in read if one.run.started >= since]
            ended = [one for one in recent if "read" in permissions.access(person, one.run).rights]
            done = sum(count for status, count in counts if status not in _OPEN)
            values["trend"] = trend(done, before, PERIODS[days])
            failed = Counter(one.code for one in ended if one.code not in _NO_FAILURES)
            values |= {"counts": counts, "failures": failed.most_common(), "costs": costs(ended)}
            sees_all = "read" in permissions.rights(person, None, None)
            values["budgets"] = self._figures.budgets if sees_all else []
            values |= {"read": len(ended), "unread": sum(not one.code for one in ended)}
        except TimeoutError:
            values["problem"] = _LATE
        except HoldfastError as error:
            values["problem"] = reader_texts(error)[0]
        return page(request, "home.html", ages=ages, labels=STATUS_LABELS, **values)


def _to_decide(answer: RunAnswer | None, person: Person) -> RunAnswer | None:
    """Return the approvals of an answer that a person can decide, and has not."""
    if not isinstance(answer, list):
        return answer
    own = [one for one in answer if is_approver(person, one.approvers)]
    return [one for one in own if not has_decided(person, one)]


def trend(now: int, before: int, period: str) -> str:
    """Return how many runs ended, and against the same time before: `128 ended, +12 % on …`."""
    share = f", {100 * (now - before) / before:+.0f} % on the {period} before" if before else ""
    return f"{now:,} ended in {period}{share}"


def costs(ended: Iterable[EndedRun]) -> list[list[Any]]:
    """Return by agent and currency its cost, that as text, its runs of known and unknown cost."""
    rows = dict[tuple[str, str | None], list[Any]]()
    for one in sorted(ended, key=lambda one: one.cost is None):
        # The cost of a delegate is part of that of its parent.
        if one.turns and one.run.agent and one.run.call_of_parent is None:
            known = (code for agent, code in rows if agent == one.run.agent)
            code = next(known, None) if one.cost is None else one.currency
            row = rows.setdefault((one.run.agent, code), [one.run.agent, 0.0, "", 0, 0, code])
            row[1] = add_amounts(row[1], one.cost or 0.0)
            unstated = "" if code or not row[1] else " (no currency)"
            row[2] = cost_text(row[1], code) + unstated
            row[4 if one.cost is None else 3] += 1
    return sorted(rows.values(), key=lambda row: -row[1])

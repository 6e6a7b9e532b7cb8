"""The runs, newest first: how each stands, and of those that failed, why.

An id may have been used before. The inbox shows the newest run of an id; of an earlier one a row
says so, and leads to Temporal's UI alone.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from holdfast.client.command_errors import CommandError
from holdfast.client.result import detail
from holdfast.client.run_lists import RunFilter, RunListing, status_query
from holdfast.client.visibility import STARTED, first_runs
from holdfast.runtime.text_safety import one_line
from holdfast.web import statuses
from holdfast.web.listing.filters import read_place, write_place
from holdfast.web.listing.rows import plain
from holdfast.web.pages import page
from holdfast.web.services import Services
from holdfast.web.times import When, when

PAGE_RUNS: Final = 25
AT_ONCE: Final = 8
ANSWER_SECONDS: Final = 3.0
_TEXT_CHARS: Final = 300
_NAME_CHARS: Final = 60
# Lists may keep a time less exactly than a run itself.
_ROUNDED: Final = timedelta(milliseconds=1)

# Those that can be searched for; a run that was terminated or timed out is found as failed.
CHOICES: Final = [one for one in statuses.STATUSES if one not in ("terminated", "timed_out")]
_FILTERS: Final = ("status", "agent", "principal", "run")
_ENDED_BADLY: Final = ("failed", "terminated", "timed_out", "budget_exceeded")


@dataclass(frozen=True)
class Told:
    """What no list says of a run: since when there is all of it, its summary, and of one that
    failed the code and why; or that it is an `earlier` run of its id, of which nothing is told."""

    started: When
    summary: str = ""
    why: str = ""
    code: str | None = None
    earlier: bool = False


@dataclass(frozen=True)
class Row:
    """A run, as it is listed; `link` is its page in Temporal's UI, of an earlier run of its id."""

    run: str
    agent: str
    principal: str
    status: str
    tone: str
    told: Told
    single: bool
    link: str | None = None


class Runs:
    """The page of runs."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def show(self, request: Request) -> Response:
        """One page of it."""
        said = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
        kept = {name: text for name, text in said.items() if text}
        after = request.query_params.get("after")
        query = status_query(said["status"] if said["status"] in CHOICES else None) + _terms(said)
        place = read_place(after) if after else None
        found = await first_runs(self._parts.client, query, STARTED, PAGE_RUNS + 1, place)
        shown = found[:PAGE_RUNS]
        return page(
            request,
            "list_runs.html",
            rows=await self._rows(shown),
            statuses=[(name, statuses.STATUSES[name][0]) for name in CHOICES],
            said=said,
            filtered=bool(kept),
            first=_address(kept) if after else "",
            next=_behind(kept, shown[-1]) if len(found) > PAGE_RUNS else "",
            agents=plain({run.agent for run in shown if run.agent}),
        )

    async def _rows(self, runs: Sequence[RunListing]) -> list[Row]:
        tasks = [asyncio.create_task(self._told(run)) for run in runs]
        if tasks:
            await asyncio.wait(tasks, timeout=ANSWER_SECONDS)
        told = [
            task.result() if task.done() else Told(when(run.started))
            for run, task in zip(runs, tasks, strict=True)
        ]
        for task in tasks:
            task.cancel()
        return [self._row(run, one) for run, one in zip(runs, told, strict=True)]

    def _row(self, run: RunListing, told: Told) -> Row:
        status, tone = statuses.told(run.status, told.code)
        agent, principal = (
            one_line(text or "", _NAME_CHARS) for text in (run.agent, run.principal)
        )
        link = self._parts.link_to(run.id, run.execution) if told.earlier else None
        return Row(run.id, agent, principal, status, tone, told, run.single, link)

    async def _told(self, run: RunListing) -> Told:
        """What the server knows of a run; no worker is asked."""
        remote = self._parts.run(run.id)
        async with self._gate:
            try:
                began = await remote.start_info()
                if run.started < began.started - _ROUNDED:
                    return Told(when(run.started), earlier=True)
                ended = await remote.ending() if run.status in _ENDED_BADLY else None
            except CommandError as error:
                return Told(when(run.started), why=one_line(str(error), _TEXT_CHARS))
        at, summary = when(began.started), one_line(began.summary or "", _TEXT_CHARS)
        if ended is None:
            return Told(at, summary)
        return Told(at, summary, one_line(detail(ended), _TEXT_CHARS), ended.code)


def _terms(said: Mapping[str, str]) -> str:
    wanted = RunFilter(agent=said["agent"], principal=said["principal"], id_prefix=said["run"])
    return wanted.terms()


def _behind(kept: Mapping[str, str], run: RunListing) -> str:
    return _address({**kept, "after": write_place((run.started, run.id))})


def _address(said: Mapping[str, str]) -> str:
    return f"/run?{urlencode(said)}" if said else "/run"

"""The list of runs, newest first: their status, and the reason of a failure.

An id can be reused. The inbox shows the newest run of an id; the row of an earlier one links to
Temporal's UI only.
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
from holdfast.web import page_text
from holdfast.web.listing.page_query import format_place, parse_place
from holdfast.web.listing.rows import plain_names
from holdfast.web.page_text import DisplayTime, display_time
from holdfast.web.pages import page
from holdfast.web.services import Services

PAGE_RUNS: Final = 25
AT_ONCE: Final = 8
ANSWER_SECONDS: Final = 3.0
_TEXT_CHARS: Final = 300
_NAME_CHARS: Final = 60
# Lists may store a time less exactly than a run does.
_ROUNDED: Final = timedelta(milliseconds=1)

# The statuses to filter by; a run that was terminated or timed out is found as failed.
CHOICES: Final = [one for one in page_text.STATUS_LABELS if one not in ("terminated", "timed_out")]
_FILTERS: Final = ("status", "agent", "principal", "run")
_ENDED_BADLY: Final = ("failed", "terminated", "timed_out", "budget_exceeded")


@dataclass(frozen=True)
class RunDetails:
    """The details of a run that lists do not have; there are none for an earlier run of an id."""

    started: DisplayTime
    summary: str = ""
    failure: str = ""
    code: str | None = None
    is_earlier_run: bool = False


@dataclass(frozen=True)
class RunRow:
    """A row of the list; `link` is the page in Temporal's UI, for an earlier run of an id."""

    run: str
    agent: str
    principal: str
    status: str
    tone: str
    details: RunDetails
    is_single_call: bool
    link: str | None = None


class RunsPage:
    """The page of runs."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def show(self, request: Request) -> Response:
        """Show one page of the list."""
        said = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
        kept = {name: text for name, text in said.items() if text}
        after = request.query_params.get("after")
        query = status_query(said["status"] if said["status"] in CHOICES else None) + _terms(said)
        place = parse_place(after) if after else None
        found = await first_runs(self._parts.client, query, STARTED, PAGE_RUNS + 1, place)
        shown = found[:PAGE_RUNS]
        return page(
            request,
            "listing/runs.html",
            rows=await self._rows(shown),
            statuses=[(name, page_text.STATUS_LABELS[name][0]) for name in CHOICES],
            query=said,
            filtered=bool(kept),
            first=_address(kept) if after else "",
            next=_behind(kept, shown[-1]) if len(found) > PAGE_RUNS else "",
            agents=plain_names({run.agent for run in shown if run.agent}),
        )

    async def _rows(self, runs: Sequence[RunListing]) -> list[RunRow]:
        tasks = [asyncio.create_task(self._told(run)) for run in runs]
        if tasks:
            await asyncio.wait(tasks, timeout=ANSWER_SECONDS)
        told = [
            task.result() if task.done() else RunDetails(display_time(run.started))
            for run, task in zip(runs, tasks, strict=True)
        ]
        for task in tasks:
            task.cancel()
        return [self._row(run, one) for run, one in zip(runs, told, strict=True)]

    def _row(self, run: RunListing, told: RunDetails) -> RunRow:
        status, tone = page_text.status_label(run.status, told.code)
        agent, principal = (
            one_line(text or "", _NAME_CHARS) for text in (run.agent, run.principal)
        )
        link = self._parts.link_to(run.id, run.execution) if told.is_earlier_run else None
        return RunRow(run.id, agent, principal, status, tone, told, run.single, link)

    async def _told(self, run: RunListing) -> RunDetails:
        """Read the details of a run from the server, without a worker."""
        remote = self._parts.run(run.id)
        async with self._gate:
            try:
                began = await remote.start_info()
                if run.started < began.started - _ROUNDED:
                    return RunDetails(display_time(run.started), is_earlier_run=True)
                ended = await remote.ending() if run.status in _ENDED_BADLY else None
            except CommandError as error:
                return RunDetails(
                    display_time(run.started), failure=one_line(str(error), _TEXT_CHARS)
                )
        at, summary = display_time(began.started), one_line(began.summary or "", _TEXT_CHARS)
        if ended is None:
            return RunDetails(at, summary)
        return RunDetails(at, summary, one_line(detail(ended), _TEXT_CHARS), ended.code)


def _terms(said: Mapping[str, str]) -> str:
    wanted = RunFilter(agent=said["agent"], principal=said["principal"], id_prefix=said["run"])
    return wanted.terms()


def _behind(kept: Mapping[str, str], run: RunListing) -> str:
    return _address({**kept, "after": format_place((run.started, run.id))})


def _address(said: Mapping[str, str]) -> str:
    return f"/run?{urlencode(said)}" if said else "/run"

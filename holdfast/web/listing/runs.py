"""The list of runs: their status, and the reason of a failure.

A page is one request, in the server's own order: open runs, the latest started first; then the
others, the latest ended first.

An id can be reused. The inbox shows the newest run of an id; the row of an earlier one links to
Temporal's UI only.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from holdfast.client.errors import HoldfastError, wrong_command
from holdfast.client.result import detail
from holdfast.client.run_lists import RunFilter, RunListing
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.run import Fork, RunStatus
from holdfast.web import page_text
from holdfast.web.auth.sessions import Person, person_of
from holdfast.web.listing.rows import plain_names
from holdfast.web.pages import page
from holdfast.web.services import Services

PAGE_RUNS: Final = 25
AT_ONCE: Final = 8
ANSWER_SECONDS: Final = 3.0
_TEXT_CHARS: Final = 300
# Lists may store a time less exactly than a run does.
_ROUNDED: Final = timedelta(milliseconds=1)

# The statuses to filter by; a run that was terminated or timed out is found as failed.
CHOICES: Final = [one for one in page_text.STATUS_LABELS if one not in ("terminated", "timed_out")]
_FILTERS: Final = ("status", "agent", "principal", "run")
_ENDED_BADLY: Final = ("failed", "terminated", "timed_out", "budget_exceeded")


@dataclass(frozen=True)
class RunRow:
    """A row of the list.

    Lists do not have `summary`, `origin`, `failure` and its error `code`. `link` is the page of an
    earlier run of an id in Temporal's UI.
    """

    run: RunListing
    summary: str = ""
    failure: str = ""
    code: str | None = None
    started: datetime | None = None
    is_earlier_run: bool = False
    link: str | None = None
    origin: Fork | None = None

    @property
    def label(self) -> tuple[str, str]:
        """Return the label and the tone of its status."""
        return page_text.status_label(self.run.status, self.code)


def read_run_filter(query: Mapping[str, str]) -> tuple[RunFilter, bytes | None]:
    """Read the filter and the place of a page from an address.

    Raises:
        HoldfastError: the place is invalid.
    """
    filters = {name: query.get(name, "").strip() for name in _FILTERS}
    wanted = RunFilter(
        agent=filters["agent"],
        principal=filters["principal"],
        id_prefix=filters["run"],
        status=next((each for each in get_args(RunStatus) if each == filters["status"]), None),
    )
    try:
        return wanted, bytes.fromhex(query.get("after", "")) or None
    except ValueError:
        wrong = "`after` names no page of this list"
        raise wrong_command(wrong, "open the first page") from None


class RunsPage:
    """The page of runs."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def show(self, request: Request) -> Response:
        """Show one page of the list."""
        query, person = request.query_params, person_of(request)
        active_filters = {name: text for name in _FILTERS if (text := query.get(name, "").strip())}
        wanted, token = read_run_filter(query)
        with suppress(HoldfastError):
            await self._parts.pending.read()  # for the count beside Approvals
        shown, following = await self._parts.list_runs(person, wanted, PAGE_RUNS, token)
        return page(
            request,
            "listing/runs.html",
            rows=await self.rows(shown, person),
            statuses=[(name, page_text.STATUS_LABELS[name][0]) for name in CHOICES],
            query=dict.fromkeys(_FILTERS, "") | active_filters,
            filtered=bool(active_filters),
            first=f"/run?{urlencode(active_filters)}".rstrip("?") if token else "",
            next=f"/run?{urlencode({**active_filters, 'after': following.hex()})}"
            if following
            else "",
            agents=plain_names({run.agent for run in shown if run.agent}),
        )

    async def rows(self, runs: Sequence[RunListing], person: Person) -> list[RunRow]:
        """Return the rows of runs, with the details that arrive within `ANSWER_SECONDS`."""
        return await asyncio.gather(*(self._row(run, person) for run in runs))

    async def _row(self, run: RunListing, person: Person) -> RunRow:
        """Read the details of a run from the server, without a worker, if the person may."""
        if "read" not in self._parts.permissions.access(person, run).rights:
            return RunRow(run)
        remote = self._parts.client.run(run.id)
        try:
            async with asyncio.timeout(ANSWER_SECONDS), self._gate:
                newest = await remote.start_info()
                if run.started < newest.started - _ROUNDED:
                    link = self._parts.link_to(run.id, run.execution)
                    return RunRow(run, is_earlier_run=True, link=link)
                ending = await remote.ending() if run.status in _ENDED_BADLY else None
        except TimeoutError:
            return RunRow(run)
        except HoldfastError as error:
            return RunRow(run, failure=one_line(str(error), _TEXT_CHARS))
        failure, code = ("", None) if ending is None else (detail(ending), ending.code)
        summary = one_line((newest.summary or "").removeprefix(f"{run.agent}: "), _TEXT_CHARS)
        shown = summary, one_line(failure, _TEXT_CHARS), code, newest.started
        return RunRow(run, *shown, origin=newest.origin)

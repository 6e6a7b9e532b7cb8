"""The lists: pending approvals (`/`), their changes (`/changes`), and the runs (`/run`).

A list shows the search attributes of its runs, and the answers that arrive within
`ANSWER_SECONDS`. The page requests the missing ones again; without JavaScript, a reload does.

The viewers of a list are notified of its changes:

    `PendingRuns` ──refreshed, or decided──► mark of the page ──changed?──► `changed`, to the viewer

No viewer is stored: a reconnecting one sends the last mark (`Last-Event-ID`), here or to another
inbox.
"""

import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from html import escape
from time import monotonic
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.client.errors import HoldfastError, wrong_command
from holdfast.client.run_lists import MAX_RUNS, RunListing
from holdfast.runtime.absences import own_substitutions
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.web.auth.sessions import Person, person_of
from holdfast.web.http.requests import read_form
from holdfast.web.http.streaming import StreamLimit, frame, page_stream
from holdfast.web.listing import bulk, page_query
from holdfast.web.listing.pending_runs import PendingList, RunAnswer, find_identical
from holdfast.web.listing.rows import PendingRow, pending_rows, plain_names
from holdfast.web.listing.runs import RunsPage
from holdfast.web.pages import page, reader_texts
from holdfast.web.services import Services

ANSWER_SECONDS: Final = 1.5
# Without search attributes, every run must answer before the list can be sorted.
ASK_ALL_SECONDS: Final = 5.0
MAX_REASON_CHARS: Final = 10_000
MAX_STREAMS: Final = 500
_TROUBLE_CHARS: Final = 500


def routes(parts: Services) -> list[BaseRoute]:
    """Return the routes of the lists."""
    waiting = PendingPages(parts)
    return [
        Route("/", waiting.show, methods=["GET"]),
        Route("/", waiting.decide, methods=["POST"]),
        Route("/changes", waiting.changes),
        Route("/run", RunsPage(parts).show),
    ]


async def read_page(
    parts: Services, person: Person, view: page_query.ListView
) -> tuple[PendingList, page_query.ListPage, page_query.ListPage, Mapping[str, RunAnswer]]:
    """Return the list, a page by search attributes and by answers, and the answers in time.

    All of it is what the person may see.

    Raises:
        HoldfastError: Temporal does not answer.
    """
    pending = await parts.pending_for(person)
    waits_for_all = pending.missing_attributes or view.q
    ends = monotonic() + (ASK_ALL_SECONDS if waits_for_all else ANSWER_SECONDS)
    while True:
        seen = found = page_query.find_page(pending, view, person.groups)
        answers = await parts.pending.answers.read(seen.runs, max(0.0, ends - monotonic()))
        if not parts.pending.hide_settled():
            break
        pending = await parts.pending_for(person)
    answers = parts.visible_answers(person, seen.runs, answers)
    if waits_for_all:
        found = page_query.order_by_answers(seen, answers, view, person.groups)
    return pending, seen, found, answers


class PendingPages:
    """The list of pending approvals."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._pending = parts.pending
        self._room = StreamLimit(MAX_STREAMS)
        self._runs = RunsPage(parts)
        self._summaries: dict[str, str] = {}

    async def show(self, request: Request) -> Response:
        """Show one page of the list."""
        person, view = person_of(request), page_query.ListView.parse(request.query_params)
        pending, seen, found, answers = await read_page(self._parts, person, view)
        runs, rows = found.runs, await self._rows(person, pending, found.runs, answers)
        groups = [*person.groups, *(group for run in runs for group in run.groups)]
        return page(
            request,
            "listing/pending.html",
            view=view,
            here=view.address,
            changes=f"/changes?{view.query}&seen={seen.mark}",
            found=found,
            rows=rows,
            calls=found.count_calls(answers),
            late=any(row.is_loading for row in rows) or (view.q and len(answers) < seen.count),
            choosable=any(row.choice for row in rows),
            next=view.page_after(runs[-1]).address if found.has_more else "",
            groups=view.group_options(groups),
            # The suggestions for the filters.
            seen={
                "agents": plain_names({run.agent for run in runs if run.agent}),
                "tools": plain_names({tool for run in runs for tool in run.tools}),
                "principals": plain_names({run.principal for run in runs if run.principal}),
            },
            max_asked=page_query.MAX_ASKED,
            max_runs=MAX_RUNS,
            MINE=page_query.MINE,
        )

    async def _rows(
        self,
        person: Person,
        pending: PendingList,
        runs: Sequence[RunListing],
        answers: Mapping[str, RunAnswer],
    ) -> list[PendingRow]:
        kept = self._pending.answers.kept(pending.runs)
        listed = [run for run in pending.runs if run.id in kept]
        kept = self._parts.visible_answers(person, listed, kept)
        read = {
            SelectedCall.of(run, one): one
            for run, waiting in kept.items()
            if isinstance(waiting, list)
            for one in waiting
            if one.kind in ("call", "plan", "reconcile")
        }
        same, signs = find_identical(read, listed), self._parts.signer is not None
        absences = own_substitutions(await self._parts.client.absences.read(), person.name)
        rights = [self._parts.permissions.access(person, run).rights for run in runs]
        if len(self._summaries) > MAX_RUNS:
            self._summaries.clear()
        new = [run for run in runs if run.execution not in self._summaries]
        for row in await self._runs.rows(new, person):
            if row.started is not None:
                self._summaries[row.run.execution] = row.summary
        return [
            replace(row, summary=shown if "read" in may else "")
            for run, may in zip(runs, rights, strict=True)
            for row in pending_rows(
                run,
                answers.get(run.id),
                person,
                signs=signs,
                identical=same,
                may_decide="decide" in may,
                absences=absences,
            )
            for shown in [row.summary or self._summaries.get(run.execution, "")]
        ]

    async def changes(self, request: Request) -> Response:
        """Return a stream with an event for each change of the page."""
        person, view = person_of(request), page_query.ListView.parse(request.query_params)
        groups = person.groups if view.group == page_query.MINE else ()
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        frames = self._frames(person, view, groups, seen)
        return page_stream(self._room, person.name, frames, math.inf)

    async def decide(self, request: Request) -> Response:
        """Decide all selected calls."""
        person, view = person_of(request), page_query.ListView.parse(request.query_params)
        form = await read_form(request)
        confirmed, verdict = bulk.read_choices(form.getlist("identical")), form.get("decision")
        choices = list(dict.fromkeys([*bulk.read_choices(form.getlist("chosen")), *confirmed]))
        reason, here = str(form.get("reason", "")).strip(), view.address
        if not choices:
            return page(request, "listing/result.html", 400, outcomes=[], here=here)
        if verdict not in ("approve", "deny"):
            raise wrong_command("the form has neither approve nor deny", "send it from its page")
        if verdict == "approve":
            seen = bulk.read_choices(form.getlist("seen"))
            outcomes = await bulk.approve_selected(self._parts, person, choices, confirmed, seen)
            if any(one.needs_look for one in outcomes):
                others = [one for one in outcomes if not (one.text or one.group)]
                values = {"outcomes": outcomes, "others": others, "label": bulk.described(others)}
                return page(request, "listing/confirm.html", 200, here=here, **values)
        elif 0 < len(reason) <= MAX_REASON_CHARS:
            outcomes = await bulk.decide_selected(self._parts, person, choices, "deny", reason)
        else:
            outcomes = await bulk.decide_selected(self._parts, person, choices, None)
            wrong = "Enter a reason: the model reads it." if "reason" in form else ""
            if reason:
                most = f"at most {MAX_REASON_CHARS:,} are allowed"
                wrong = f"The reason has {len(reason):,} characters; {most}."
            values = {"outcomes": outcomes, "here": here, "reason": reason, "wrong": wrong}
            return page(request, "listing/deny.html", 422 if wrong else 200, **values)
        return page(request, "listing/result.html", outcomes=outcomes, here=here)

    async def _frames(
        self, person: Person, view: page_query.ListView, groups: tuple[str, ...], seen: str
    ) -> AsyncGenerator[str, None]:
        trouble = ""
        while True:
            mark, problem, changed = "", "", self._pending.changed
            try:
                pending = await self._parts.pending_for(person)
                if (view, groups) not in pending.marks:
                    pending.marks[view, groups] = page_query.find_page(pending, view, groups).mark
                mark = pending.marks[view, groups]
            except HoldfastError as error:
                problem = one_line(reader_texts(error)[0], _TROUBLE_CHARS)
            if problem != trouble:
                trouble = problem
                yield frame("trouble", escape(trouble) or "<!-- over -->")
            if mark and mark != seen:
                seen = mark
                yield frame("changed", "changed", seen)
            await self._pending.wait_until_due(changed)

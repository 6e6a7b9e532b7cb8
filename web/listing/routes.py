"""The lists: pending approvals (`/`), their changes (`/changes`), and the runs (`/run`).

A list shows the search attributes of its runs, and the answers that arrive within
`ANSWER_SECONDS`. The page requests the missing ones again; without JavaScript, a reload does.

The viewers of a list are notified of its changes, with one query every second or two for each view:

    lists ──query──► mark of the page ──changed?──► `changed`, to each viewer

No viewer is stored: a reconnecting one sends the last mark (`Last-Event-ID`), here or to another
inbox.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from html import escape
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.client.errors import HoldfastError, wrong_command
from holdfast.runtime.text_safety import one_line
from holdfast.web.auth.sessions import person_of
from holdfast.web.http.request_body import read_form
from holdfast.web.http.streaming import EventStream, StreamLimit, frame, too_many_streams
from holdfast.web.listing.bulk import decide_selected, read_choices
from holdfast.web.listing.page_query import (
    MAX_ASKED,
    MINE,
    ListView,
    count_expiring,
    order_by_answers,
    read_page,
)
from holdfast.web.listing.rows import pending_rows, plain_names
from holdfast.web.listing.run_answers import RunAnswers
from holdfast.web.listing.runs import RunsPage
from holdfast.web.pages import page
from holdfast.web.services import Services

ANSWER_SECONDS: Final = 1.5
# Without search attributes, every run must answer before the list can be sorted.
ASK_ALL_SECONDS: Final = 5.0
MAX_REASON_CHARS: Final = 10_000
MAX_STREAMS: Final = 500
EVERY_SECONDS: Final = 1.5
MAX_WATCHED: Final = 100
_TROUBLE_CHARS: Final = 500

Mark = Callable[[], Awaitable[str]]


def routes(parts: Services) -> list[BaseRoute]:
    """Return the routes of the lists."""
    waiting = PendingPages(parts)
    return [
        Route("/", waiting.show, methods=["GET"]),
        Route("/", waiting.decide, methods=["POST"]),
        Route("/changes", waiting.changes),
        Route("/run", RunsPage(parts).show),
    ]


class PendingPages:
    """The list of pending approvals."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._asked = RunAnswers(parts.client)
        self._watches = ListWatches()
        self._room = StreamLimit(MAX_STREAMS)

    async def show(self, request: Request) -> Response:
        """Show one page of the list."""
        person, view = person_of(request), ListView.parse(request.query_params)
        seen = found = await read_page(self._parts.client, view, person.groups)
        is_lacking = bool(seen.missing_attributes)
        seconds = ASK_ALL_SECONDS if is_lacking else ANSWER_SECONDS
        answers = await self._asked.read(seen.all_runs, seconds)
        if is_lacking:
            found, urgent = order_by_answers(seen, answers, view, person.groups), 0
        else:
            urgent = await count_expiring(self._parts.client, view, person.groups)
        runs, signs = found.all_runs, self._parts.signer is not None
        rows = [
            row
            for run in runs
            for row in pending_rows(run, answers.get(run.id), person, signs=signs)
        ]
        groups = [*person.groups, *(group for run in runs for group in run.groups)]
        orders = {"newest": "Newest first", "expiring": "Soonest to expire first"}
        return page(
            request,
            "listing/pending.html",
            view=view,
            here=view.address,
            changes=f"/changes?{view.query}&seen={seen.mark}",
            found=found,
            rows=rows,
            calls=found.count_calls(answers),
            urgent=urgent,
            late=any(row.is_loading for row in rows),
            choosable=any(row.choice for row in rows),
            next=view.page_after(found.runs[-1]).address if found.has_more and found.runs else "",
            orders=[
                (text, view.first_page(name).address, name == view.order)
                for name, text in orders.items()
            ],
            groups=view.group_options(groups),
            # The suggestions for the filters.
            seen={
                "agents": plain_names({run.agent for run in runs if run.agent}),
                "tools": plain_names({tool for run in runs for tool in run.tools}),
                "principals": plain_names({run.principal for run in runs if run.principal}),
            },
            max_asked=MAX_ASKED,
            MINE=MINE,
        )

    async def changes(self, request: Request) -> Response:
        """Return a stream with an event for each change of the page."""
        person, view = person_of(request), ListView.parse(request.query_params)
        groups = person.groups if view.group == MINE else ()
        key = (view.query, groups)
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")

        async def mark() -> str:
            return (await read_page(self._parts.client, view, groups)).mark

        if self._room.is_full(person.name) or not self._watches.has_room(key):
            return too_many_streams()
        return EventStream(self._room, person.name, self._watches.changes(key, mark, seen))

    async def decide(self, request: Request) -> Response:
        """Decide all selected calls."""
        person, view = person_of(request), ListView.parse(request.query_params)
        form = await read_form(request)
        choices, verdict = read_choices(form.getlist("chosen")), form.get("decision")
        reason, here = str(form.get("reason", "")).strip(), view.address
        if not choices:
            return page(request, "listing/result.html", 400, outcomes=[], here=here)
        if verdict not in ("approve", "deny"):
            raise wrong_command("the form has neither approve nor deny", "send it from its page")
        if verdict == "approve":
            outcomes = await decide_selected(self._parts, person, choices, "approve")
        elif 0 < len(reason) <= MAX_REASON_CHARS:
            outcomes = await decide_selected(self._parts, person, choices, "deny", reason)
        else:
            outcomes = await decide_selected(self._parts, person, choices, None)
            wrong = "Enter a reason: the model reads it." if "reason" in form else ""
            if reason:
                most = f"at most {MAX_REASON_CHARS:,} are allowed"
                wrong = f"The reason has {len(reason):,} characters; {most}."
            values = {"outcomes": outcomes, "here": here, "reason": reason, "wrong": wrong}
            return page(request, "listing/deny.html", 422 if wrong else 200, **values)
        self._asked.forget(choice.run for choice in choices)
        return page(request, "listing/result.html", outcomes=outcomes, here=here)


class ListWatches:
    """The watched views of a process; one query serves all viewers of a view."""

    def __init__(self) -> None:
        self._viewers: Counter[object] = Counter()
        self._looks: dict[object, asyncio.Task[tuple[str, str]]] = {}

    def has_room(self, key: object) -> bool:
        """Report whether one more viewer of this view is allowed."""
        return key in self._viewers or len(self._viewers) < MAX_WATCHED

    async def changes(self, key: object, mark: Mark, seen: str) -> AsyncGenerator[str, None]:
        """Yield the frames for one viewer."""
        trouble = ""
        self._viewers[key] += 1
        try:
            while True:
                now, problem = await self._look(key, mark)
                if problem != trouble:
                    trouble = problem
                    yield frame("trouble", escape(trouble) or "<!-- over -->")
                if now and now != seen:
                    seen = now
                    yield frame("changed", "changed", seen)
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            self._viewers[key] -= 1
            self._viewers += Counter()  # drops those that are zero

    async def _look(self, key: object, mark: Mark) -> tuple[str, str]:
        """Return the mark of a view, or the problem; both are kept for `EVERY_SECONDS`."""

        async def look() -> tuple[str, str]:
            try:
                return await mark(), ""
            except HoldfastError as error:
                return "", one_line(str(error), _TROUBLE_CHARS)

        def keep(_: object) -> None:
            asyncio.get_running_loop().call_later(EVERY_SECONDS, self._looks.pop, key, None)

        if key not in self._looks:
            self._looks[key] = asyncio.create_task(look())
            self._looks[key].add_done_callback(keep)
        return await asyncio.shield(self._looks[key])

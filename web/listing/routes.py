"""The lists: pending approvals (`/`), their changes (`/changes`), and the runs (`/run`).

A list shows the search attributes of its runs, and the answers that arrive within
`ANSWER_SECONDS`. The page requests the missing ones again; without JavaScript, a reload does.
"""

from collections.abc import Callable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.client.command_errors import wrong_command
from holdfast.schemas import names
from holdfast.web.auth.sessions import Person, person_of
from holdfast.web.http.request_body import read_form
from holdfast.web.http.streaming import EventStream, StreamLimit, too_many_streams
from holdfast.web.listing.bulk import BulkDecision, check_selected, read_choices
from holdfast.web.listing.page_query import (
    MAX_ASKED,
    MINE,
    ListPage,
    ListView,
    count_expiring,
    group_option,
    order_by_answers,
    read_page,
)
from holdfast.web.listing.rows import PendingRow, pending_rows, plain_names
from holdfast.web.listing.run_answers import RunAnswer, RunAnswers
from holdfast.web.listing.runs import RunsPage
from holdfast.web.listing.watch import ListWatches
from holdfast.web.pages import page
from holdfast.web.services import Services

ANSWER_SECONDS: Final = 1.5
# Without search attributes, every run must answer before the list can be sorted.
ASK_ALL_SECONDS: Final = 5.0
MAX_REASON_CHARS: Final = 10_000
MAX_STREAMS: Final = 500


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
        seen = await read_page(self._parts.client, view, person.groups)
        answers = await self._asked.read(
            seen.all_runs, ASK_ALL_SECONDS if seen.missing_attributes else ANSWER_SECONDS
        )
        found = (
            order_by_answers(seen, answers, view, person.groups)
            if seen.missing_attributes
            else seen
        )
        shown = self._rows(found, answers, person)
        urgent = (
            0
            if seen.missing_attributes
            else await count_expiring(self._parts.client, view, person.groups)
        )
        return page(
            request,
            "listing/pending.html",
            view=view,
            here=_address(view),
            changes=f"/changes?{view.query}&seen={seen.mark}",
            found=found,
            rows=shown,
            calls=_calls(found, answers),
            urgent=urgent,
            soonest=_address(view.with_changes(order_name="expiring")),
            late=any(row.is_loading for row in shown),
            choosable=any(row.choice for row in shown),
            next=_address(view.page_after(found.runs[-1])) if found.has_more and found.runs else "",
            orders=_orders(view),
            groups=_groups(found, person, view),
            seen=_seen(found),
            first=_address(view.with_changes()),
            max_asked=MAX_ASKED,
            MINE=MINE,
        )

    def _rows(
        self, found: ListPage, answers: dict[str, RunAnswer], person: Person
    ) -> list[PendingRow]:
        signs = self._parts.signer is not None
        return [
            row
            for run in found.all_runs
            for row in pending_rows(run, answers.get(run.id), person, signs=signs)
        ]

    async def changes(self, request: Request) -> Response:
        """Return a stream with an event for each change of the page."""
        person, view = person_of(request), ListView.parse(request.query_params)
        groups = person.groups if view.group == MINE else ()
        key = (view.query, groups)
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")

        async def mark() -> str:
            return (await read_page(self._parts.client, view, groups)).mark

        if self._room.is_full or not self._watches.has_room(key):
            return too_many_streams()
        return EventStream(self._room, self._watches.changes(key, mark, seen))

    async def decide(self, request: Request) -> Response:
        """Decide all selected calls."""
        person, view = person_of(request), ListView.parse(request.query_params)
        form = await read_form(request)
        choices = read_choices(form.getlist("chosen"))
        reason, here = str(form.get("reason", "")).strip(), _address(view)
        if not choices:
            return page(request, "listing/result.html", 400, outcomes=[], here=here)
        match form.get("decision"):
            case "approve":
                several = BulkDecision(self._parts, person, "approve")
            case "deny" if 0 < len(reason) <= MAX_REASON_CHARS:
                several = BulkDecision(self._parts, person, "deny", reason)
            case "deny":
                outcomes = await check_selected(self._parts, choices)
                wrong = _wrong_reason(reason) if "reason" in form else ""
                values = {"outcomes": outcomes, "here": here, "reason": reason, "wrong": wrong}
                return page(request, "listing/deny.html", 422 if wrong else 200, **values)
            case _:
                raise wrong_command(
                    "the form has neither approve nor deny", "send it from its page"
                )
        outcomes = await several.send(choices)
        self._asked.forget(choice.run for choice in choices)
        return page(request, "listing/result.html", outcomes=outcomes, here=here)


def _calls(found: ListPage, answers: Mapping[str, RunAnswer]) -> int | None:
    """Return the number of pending calls, or `None` until all runs of the page have answered."""
    told = [answers.get(run.id) for run in found.all_runs]
    counted = [len(answer) for answer in told if isinstance(answer, list)]
    return sum(counted) if len(counted) == len(told) else None


def _wrong_reason(reason: str) -> str:
    if not reason:
        return "Enter a reason: the model reads it."
    return f"The reason has {len(reason):,} characters; at most {MAX_REASON_CHARS:,} are allowed."


def _address(view: ListView) -> str:
    return f"/?{view.query}" if view.query else "/"


def _orders(view: ListView) -> list[tuple[str, str, bool]]:
    told = {"newest": "Newest first", "expiring": "Soonest to expire first"}
    return [
        (text, _address(view.with_changes(order_name=name)), name == view.order_name)
        for name, text in told.items()
    ]


def _groups(found: ListPage, person: Person, view: ListView) -> list[tuple[str, str]]:
    told = dict.fromkeys(
        [*person.groups, *(group for run in found.all_runs for group in run.groups)]
    )
    known = {group_option(name): name for name in told if name != names.FOR_ANYBODY}
    if view.group not in ("", MINE):
        known.setdefault(view.group, view.groups(())[0])
    return [*known.items(), (group_option(names.FOR_ANYBODY), "anyone")]


def _seen(found: ListPage) -> dict[str, list[str]]:
    """Return the suggestions for the filters, from the runs of the page."""
    of: dict[str, Callable[[], set[str]]] = {
        "agents": lambda: {run.agent for run in found.all_runs if run.agent},
        "tools": lambda: {tool for run in found.all_runs for tool in run.tools},
        "principals": lambda: {run.principal for run in found.all_runs if run.principal},
    }
    return {name: plain_names(values()) for name, values in of.items()}

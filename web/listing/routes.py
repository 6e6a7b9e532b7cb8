"""The pages of lists: what waits (`/`), how it changes (`/changes`), and the runs (`/run`).

A list is shown with what the lists of Temporal know, and with what the runs of the page have
answered in a second and a half. What has not come by then is asked for again by the page itself,
and without JavaScript when it is loaded again.
"""

from collections.abc import Callable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.client.command_errors import wrong_command
from holdfast.schemas import names
from holdfast.web.auth.person import Person, person_of
from holdfast.web.http.request_body import read_form
from holdfast.web.http.streaming import EventStream, StreamLimit, too_many_streams
from holdfast.web.listing.bulk import Several, before, read_choices
from holdfast.web.listing.filters import MINE, View, group_option
from holdfast.web.listing.page_query import MAX_ASKED, Look, look, placed, soon
from holdfast.web.listing.rows import Row, plain, rows
from holdfast.web.listing.run_answers import Answer, Asked
from holdfast.web.listing.runs import Runs
from holdfast.web.listing.watch import Watches
from holdfast.web.pages import page
from holdfast.web.services import Services

ANSWER_SECONDS: Final = 1.5
# Where every run has to be asked before the list can be put in order.
ASK_ALL_SECONDS: Final = 5.0
MAX_REASON_CHARS: Final = 10_000
MAX_STREAMS: Final = 500


def routes(parts: Services) -> list[BaseRoute]:
    """The pages of lists."""
    waiting = Waiting(parts)
    return [
        Route("/", waiting.show, methods=["GET"]),
        Route("/", waiting.decide, methods=["POST"]),
        Route("/changes", waiting.changes),
        Route("/run", Runs(parts).show),
    ]


class Waiting:
    """What waits, in every run."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._asked = Asked(parts.client)
        self._watches = Watches()
        self._room = StreamLimit(MAX_STREAMS)

    async def show(self, request: Request) -> Response:
        """One page of the list."""
        person, view = person_of(request), View.read(request.query_params)
        seen = await look(self._parts.client, view, person.groups)
        answers = await self._asked.of(
            seen.shown, ASK_ALL_SECONDS if seen.lacking else ANSWER_SECONDS
        )
        found = placed(seen, answers, view, person.groups) if seen.lacking else seen
        shown = self._rows(found, answers, person)
        urgent = 0 if seen.lacking else await soon(self._parts.client, view, person.groups)
        return page(
            request,
            "list.html",
            view=view,
            here=_address(view),
            changes=f"/changes?{view.query}&seen={seen.mark}",
            found=found,
            rows=shown,
            calls=_calls(found, answers),
            urgent=urgent,
            soonest=_address(view.having(order_name="expiring")),
            late=any(row.late for row in shown),
            choosable=any(row.choice for row in shown),
            next=_address(view.behind(found.runs[-1])) if found.more and found.runs else "",
            orders=_orders(view),
            groups=_groups(found, person, view),
            seen=_seen(found),
            first=_address(view.having()),
            max_asked=MAX_ASKED,
            MINE=MINE,
        )

    def _rows(self, found: Look, answers: dict[str, Answer], person: Person) -> list[Row]:
        signs = self._parts.signer is not None
        return [
            row
            for run in found.shown
            for row in rows(run, answers.get(run.id), person, signs=signs)
        ]

    async def changes(self, request: Request) -> Response:
        """Events that say when another page would be shown."""
        person, view = person_of(request), View.read(request.query_params)
        groups = person.groups if view.group == MINE else ()
        key = (view.query, groups)
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")

        async def mark() -> str:
            return (await look(self._parts.client, view, groups)).mark

        if self._room.is_full or not self._watches.has_room(key):
            return too_many_streams()
        return EventStream(self._room, self._watches.changes(key, mark, seen))

    async def decide(self, request: Request) -> Response:
        """One answer to all calls that were chosen."""
        person, view = person_of(request), View.read(request.query_params)
        form = await read_form(request)
        choices = read_choices(form.getlist("chosen"))
        reason, here = str(form.get("reason", "")).strip(), _address(view)
        if not choices:
            return page(request, "list_none.html", 400, here=here)
        match form.get("decision"):
            case "approve":
                several = Several(self._parts, person, "approve")
            case "deny" if 0 < len(reason) <= MAX_REASON_CHARS:
                several = Several(self._parts, person, "deny", reason)
            case "deny":
                outcomes = await before(self._parts, choices)
                wrong = _wrong_reason(reason) if "reason" in form else ""
                values = {"outcomes": outcomes, "here": here, "reason": reason, "wrong": wrong}
                return page(request, "list_deny.html", 422 if wrong else 200, **values)
            case _:
                raise wrong_command(
                    "the form says neither approve nor deny", "send it from its page"
                )
        outcomes = await several.outcomes(choices)
        self._asked.forget(choice.run for choice in choices)
        return page(request, "list_done.html", outcomes=outcomes, here=here)


def _calls(found: Look, answers: Mapping[str, Answer]) -> int | None:
    """How many calls wait in the runs of a page; `None` where not all of them have answered."""
    told = [answers.get(run.id) for run in found.shown]
    counted = [len(answer) for answer in told if isinstance(answer, list)]
    return sum(counted) if len(counted) == len(told) else None


def _wrong_reason(reason: str) -> str:
    if not reason:
        return "Say why: it is what the model reads."
    return f"That is {len(reason):,} characters; say it in {MAX_REASON_CHARS:,}."


def _address(view: View) -> str:
    return f"/?{view.query}" if view.query else "/"


def _orders(view: View) -> list[tuple[str, str, bool]]:
    """The orders: name, address, and whether it is this one."""
    told = {"newest": "Newest first", "expiring": "Soonest to expire first"}
    return [
        (text, _address(view.having(order_name=name)), name == view.order_name)
        for name, text in told.items()
    ]


def _groups(found: Look, person: Person, view: View) -> list[tuple[str, str]]:
    """The groups that can be chosen: those of the person, of the page, and the one that is."""
    told = dict.fromkeys([*person.groups, *(group for run in found.shown for group in run.groups)])
    known = {group_option(name): name for name in told if name != names.FOR_ANYBODY}
    if view.group not in ("", MINE):
        known.setdefault(view.group, view.groups(())[0])
    return [*known.items(), (group_option(names.FOR_ANYBODY), "anybody")]


def _seen(found: Look) -> dict[str, list[str]]:
    """What stands in the page's runs, to choose from: what reads as what it is."""
    of: dict[str, Callable[[], set[str]]] = {
        "agents": lambda: {run.agent for run in found.shown if run.agent},
        "tools": lambda: {tool for run in found.shown for tool in run.tools},
        "principals": lambda: {run.principal for run in found.shown if run.principal},
    }
    return {name: plain(values()) for name, values in of.items()}

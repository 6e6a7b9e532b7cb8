"""One waiting call: its page, and the decision that is sent from it.

    GET  /waiting/{run}/{call}            the question, or what became of it
    POST /waiting/{run}/{call}            a decision, or a button that gives a form other fields
    GET  /waiting/{run}/{call}/changes    what becomes of it meanwhile

Whatever a decision meets (somebody else's, other arguments, the end of the run, nobody there),
its page says what happened and what to do, and what was typed stands in it.
"""

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from holdfast.client.command_errors import UNREACHABLE, CommandError
from holdfast.runtime.text_safety import as_sentence, clean, one_line
from holdfast.schemas import names
from holdfast.web.auth.person import person_of
from holdfast.web.call.changes import Changes
from holdfast.web.call.decision_form import CHECK, Amiss, Typed, decision_of
from holdfast.web.call.loader import Asked, Over, look, next_waiting
from holdfast.web.call.outcome import outcome
from holdfast.web.call.plan_view import differing
from holdfast.web.call.similar_calls import alike
from holdfast.web.call.view_model import Notice, shown
from holdfast.web.decision_sender import DecisionNotSent, send
from holdfast.web.http.request_body import FIELD, read_form
from holdfast.web.http.routing import RunRoute
from holdfast.web.pages import address, page
from holdfast.web.services import Services

_NAME_CHARS: Final = 100
_NOT_TAKEN: Final = "This was not decided: "
_CHANGED: Final = (
    "The call is not the one any more that you were shown, so your decision was not taken. What you"
    " typed is kept below. Look at what is another now, and decide again."
)


def routes(parts: Services) -> list[BaseRoute]:
    """The pages of waiting calls."""
    asking = Asking(parts)
    return [
        RunRoute("/waiting/{run}/{call}/changes", Changes(parts).answer, methods=["GET"]),
        RunRoute("/waiting/{run}/{call}", asking.show, methods=["GET"]),
        RunRoute("/waiting/{run}/{call}", asking.decide, methods=["POST"]),
    ]


class Asking:
    """The pages, over what they work with."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts

    async def show(self, request: Request) -> Response:
        """The question as it stands, or what became of it."""
        found = await self._look(request)
        if isinstance(found, Over):
            return await self._over(request, found)
        return await self._page(request, found)

    async def decide(self, request: Request) -> Response:
        """Take a decision, or give a form other fields."""
        typed = Typed.of(await read_form(request))
        try:
            return await self._decided(request, typed, await self._look(request))
        except CommandError as error:
            return self._unanswered(request, typed, error)

    async def _look(self, request: Request) -> Asked | Over:
        return await look(self._parts, request.path_params["run"], request.path_params["call"])

    async def _decided(self, request: Request, typed: Typed, found: Asked | Over) -> Response:
        if isinstance(found, Over):
            return await self._over(request, found, typed)
        if typed.only_draws:
            drawn = await asyncio.to_thread(typed.redrawn, found)
            return await self._page(request, found, typed=drawn, checks=typed)
        if typed.digest != found.waiting.digest:
            return await self._other(request, found, typed)
        meant = await asyncio.to_thread(decision_of, typed, found, person_of(request))
        if isinstance(meant, Amiss):
            return await self._page(request, found, 422, typed=typed, amiss=meant)
        try:
            await send(self._parts, found.run_id, found.waiting, meant)
        except DecisionNotSent as refused:
            return await self._refused(request, typed, refused)
        except CommandError as error:
            return self._unanswered(request, typed, error, sent=error.code == UNREACHABLE)
        return RedirectResponse(self._here(request), 303)

    def _here(self, request: Request) -> str:
        return address("waiting", request.path_params["run"], request.path_params["call"])

    async def _page(
        self,
        request: Request,
        asked: Asked,
        status: int = 200,
        *,
        typed: Typed | None = None,
        checks: Typed | None = None,
        amiss: Amiss | None = None,
        notice: Notice | None = None,
    ) -> Response:
        person = person_of(request)
        if checks is not None and checks.does == CHECK:
            meant = await asyncio.to_thread(decision_of, checks, asked, person)
            amiss = meant if isinstance(meant, Amiss) else None
        signs = self._parts.signer is not None
        # A schema that strangers wrote can be slow to draw and to check, within its bounds.
        values = await asyncio.to_thread(
            shown, asked, person, signs=signs, typed=typed, amiss=amiss, notice=notice
        )
        others = await alike(self._parts, asked)
        return page(request, "call.html", status, call=values, alike=others)

    async def _other(self, request: Request, asked: Asked, typed: Typed) -> Response:
        """The call was changed since it was shown: what is another, and what was typed."""
        before = asked.past.version(typed.digest)
        now, old = asked.waiting, before.arguments if before else asked.waiting.arguments
        found = differing(now.kind, old, now.arguments, asked.tools)
        by = asked.past.versions[-1].by if asked.past.versions else None
        who = f"{one_line(by, _NAME_CHARS) or 'Somebody'} has changed it. " if by else ""
        return await self._page(
            request, asked, 409, typed=typed, notice=Notice("bad", f"{who}{_CHANGED}", found)
        )

    async def _refused(self, request: Request, typed: Typed, refused: DecisionNotSent) -> Response:
        """The run did not take it: what it says, on the page as things stand now."""
        found = await self._look(request)
        if isinstance(found, Over):
            return await self._over(request, found, typed)
        if refused.code == names.INVALID_DECISION and typed.digest != found.waiting.digest:
            return await self._other(request, found, typed)
        said = clean(str(refused)).rstrip(".")
        status = 422 if refused.code == names.INVALID_DECISION else 409
        notice = Notice("bad", f"{_NOT_TAKEN}{said}.")
        return await self._page(request, found, status, typed=typed, notice=notice)

    async def _over(self, request: Request, over: Over, typed: Typed | None = None) -> Response:
        """It waits no longer: who decided what, what came of it, and where to go on."""
        person = person_of(request)
        further = await next_waiting(self._parts, over.run_id, over.call_id, person)
        values = outcome(over, person)
        status = 200 if typed is None else 409
        return page(request, "call_over.html", status, further=further, typed=typed, **values)

    def _unanswered(
        self, request: Request, typed: Typed, error: CommandError, *, sent: bool = False
    ) -> Response:
        """Nobody answered: what was typed can be sent again as it is. `sent`: it may have been
        taken all the same."""
        items = [(name, text) for name, text in typed.items if name != FIELD]
        status = 503 if error.code == UNREACHABLE else 409
        return page(
            request,
            "call_kept.html",
            status,
            here=self._here(request),
            run=address("run", request.path_params["run"]),
            said=as_sentence(clean(str(error))),
            typed=typed,
            items=items,
            sent=sent,
        )

"""The page of one call, and the decision that is sent from it.

    GET  /waiting/{run}/{call}            the question, or its outcome
    POST /waiting/{run}/{call}            a decision, or a button that changes the fields of a form
    GET  /waiting/{run}/{call}/changes    the changes of the call as an event stream

The events: `news`, a notice for the page; `outcome`, the outcome of a closed call, which replaces
the one before; `over`, no more events. The rest of the page and its input do not change. A response
that rejects a decision explains what to do, and contains the input.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from holdfast.client.command_errors import UNREACHABLE, CommandError
from holdfast.runtime.text_safety import as_sentence, clean, one_line
from holdfast.schemas import names
from holdfast.web.auth.sessions import Person, person_of
from holdfast.web.call import phrases
from holdfast.web.call.decision_form import CHECK, DecisionForm, FormProblem, read_decision
from holdfast.web.call.loader import (
    CLOSED_MARK,
    ClosedCall,
    PendingCall,
    find_next_pending,
    find_similar_calls,
    load_call,
)
from holdfast.web.call.plan import argument_differences
from holdfast.web.call.view_model import Notice, build_call_page, build_closed_page
from holdfast.web.http.request_body import read_form
from holdfast.web.http.routing import RunRoute
from holdfast.web.http.streaming import (
    MAX_PAGE_SECONDS,
    EventStream,
    StreamLimit,
    frame,
    too_many_streams,
)
from holdfast.web.pages import ENVIRONMENT, address, page
from holdfast.web.services import DecisionNotSent, Services

MAX_STREAMS: Final = 200
LOOK_SECONDS: Final = 1.0
_NAME_CHARS: Final = 100
_CHANGED: Final = (
    "The call has changed since it was shown to you, so your decision was rejected. Your input is"
    " below. Check the differences, and decide again."
)


def routes(parts: Services) -> list[BaseRoute]:
    """Return the routes of the pages of calls."""
    pages = CallPages(parts)
    return [
        RunRoute("/waiting/{run}/{call}/changes", CallStreams(parts).answer, methods=["GET"]),
        RunRoute("/waiting/{run}/{call}", pages.show, methods=["GET"]),
        RunRoute("/waiting/{run}/{call}", pages.decide, methods=["POST"]),
    ]


class CallPages:
    """The pages of calls."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts

    async def show(self, request: Request) -> Response:
        """Show a call, or its outcome."""
        found = await self._load(request)
        if isinstance(found, ClosedCall):
            return await self._closed_page(request, found)
        return await self._page(request, found)

    async def decide(self, request: Request) -> Response:
        """Send a decision, or change the fields of a form."""
        form = DecisionForm.of(await read_form(request))
        try:
            return await self._decide(request, form, await self._load(request))
        except CommandError as error:
            return self._not_sent(request, form, error)

    async def _load(self, request: Request) -> PendingCall | ClosedCall:
        return await load_call(self._parts, request.path_params["run"], request.path_params["call"])

    async def _decide(
        self, request: Request, form: DecisionForm, found: PendingCall | ClosedCall
    ) -> Response:
        if isinstance(found, ClosedCall):
            return await self._closed_page(request, found, form)
        if form.action:
            drawn = await asyncio.to_thread(form.redraw, found)
            return await self._page(request, found, form=drawn, checked=form)
        if form.digest != found.approval.digest:
            return await self._changed_page(request, found, form)
        decision = await asyncio.to_thread(read_decision, form, found, person_of(request))
        if isinstance(decision, FormProblem):
            return await self._page(request, found, 422, form=form, problem=decision)
        try:
            await self._parts.decide(found.run_id, found.approval, decision)
        except DecisionNotSent as refusal:
            return await self._rejected_page(request, form, refusal)
        except CommandError as error:
            return self._not_sent(request, form, error, sent=error.code == UNREACHABLE)
        return RedirectResponse(_here(request), 303)

    async def _page(
        self,
        request: Request,
        pending: PendingCall,
        status: int = 200,
        *,
        form: DecisionForm | None = None,
        checked: DecisionForm | None = None,
        problem: FormProblem | None = None,
        notice: Notice | None = None,
    ) -> Response:
        person = person_of(request)
        if checked is not None and checked.action == CHECK:
            decision = await asyncio.to_thread(read_decision, checked, pending, person)
            problem = decision if isinstance(decision, FormProblem) else None
        signs = self._parts.signer is not None
        # An untrusted schema can be slow to render and to check, within its bounds.
        values = await asyncio.to_thread(
            build_call_page,
            pending,
            person,
            signs=signs,
            form=form,
            problem=problem,
            notice=notice,
        )
        similar = await find_similar_calls(self._parts, pending)
        return page(request, "call/page.html", status, call=values, similar=similar)

    async def _changed_page(
        self, request: Request, pending: PendingCall, form: DecisionForm
    ) -> Response:
        """Show the changes since the page of a form was opened, and the input."""
        before, now = pending.history.version(form.digest), pending.approval
        old = before.arguments if before else now.arguments
        found = argument_differences(now.kind, old, now.arguments, pending.tools)
        by = pending.history.versions[-1].by if pending.history.versions else None
        who = f"{one_line(by, _NAME_CHARS) or 'A person'} changed it. " if by else ""
        notice = Notice("bad", f"{who}{_CHANGED}", found)
        return await self._page(request, pending, 409, form=form, notice=notice)

    async def _rejected_page(
        self, request: Request, form: DecisionForm, refusal: DecisionNotSent
    ) -> Response:
        """Show why the run rejected a decision, on the page of the call as it is now."""
        found = await self._load(request)
        if isinstance(found, ClosedCall):
            return await self._closed_page(request, found, form)
        if refusal.code == names.INVALID_DECISION and form.digest != found.approval.digest:
            return await self._changed_page(request, found, form)
        status = 422 if refusal.code == names.INVALID_DECISION else 409
        notice = Notice("bad", f"Decision rejected: {clean(str(refusal)).rstrip('.')}.")
        return await self._page(request, found, status, form=form, notice=notice)

    async def _closed_page(
        self, request: Request, closed: ClosedCall, form: DecisionForm | None = None
    ) -> Response:
        """Show the decision and the outcome of a closed call, and a link to the next one."""
        person = person_of(request)
        next_call = await find_next_pending(self._parts, closed.run_id, closed.call_id, person)
        values = build_closed_page(closed, person)
        status = 200 if form is None else 409
        return page(request, "call/closed.html", status, next_call=next_call, form=form, **values)

    def _not_sent(
        self, request: Request, form: DecisionForm, error: CommandError, *, sent: bool = False
    ) -> Response:
        """Show that the run did not answer, with the input to send again.

        `sent`: the run may have accepted the decision.
        """
        return page(
            request,
            "call/not_sent.html",
            503 if error.code == UNREACHABLE else 409,
            here=_here(request),
            run=address("run", request.path_params["run"]),
            problem=as_sentence(clean(str(error))),
            form=form,
            sent=sent,
        )


def _here(request: Request) -> str:
    return address("waiting", request.path_params["run"], request.path_params["call"])


class CallStreams:
    """The event streams of one process."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._room = StreamLimit(MAX_STREAMS)

    async def answer(self, request: Request) -> Response:
        """Return a stream, or a refusal where there are too many."""
        if self._room.is_full:
            return too_many_streams()
        run, call = request.path_params["run"], request.path_params["call"]
        seen = request.query_params.get("seen", "")
        frames = self._frames(run, call, seen, person_of(request))
        return EventStream(self._room, frames, MAX_PAGE_SECONDS)

    async def _frames(
        self, run_id: str, call_id: str, seen: str, person: Person
    ) -> AsyncGenerator[str, None]:
        place: Any = None
        follows_outcome = seen.startswith(CLOSED_MARK)
        while True:
            found: PendingCall | ClosedCall | None = None
            try:
                now = (await self._parts.run(run_id).observe()).position
                if now != place:
                    found, place = await load_call(self._parts, run_id, call_id), now
            except CommandError:
                place = None  # so that the next round loads the call again
            if found is not None and found.mark != seen:
                is_outcome = isinstance(found, ClosedCall) and seen.startswith(CLOSED_MARK)
                yield frame("outcome" if is_outcome else "news", _news(found, seen, person))
                seen = found.mark
            if found is not None and is_last_event(found, follows_outcome=follows_outcome):
                yield frame("over", "")
                return
            await asyncio.sleep(LOOK_SECONDS)


def is_last_event(found: PendingCall | ClosedCall, *, follows_outcome: bool) -> bool:
    """Report whether a page needs no more events.

    A page that follows an outcome needs them until it is settled, or a decision is needed again.
    """
    if isinstance(found, PendingCall):
        return follows_outcome
    return found.is_settled or not follows_outcome


def _news(found: PendingCall | ClosedCall, seen: str, person: Person) -> str:
    """Return the notice about a call that has changed, or the outcome for a page that has one."""
    is_closed, had_outcome = isinstance(found, ClosedCall), seen.startswith(CLOSED_MARK)
    if isinstance(found, ClosedCall) and had_outcome:
        values = build_closed_page(found, person)
        return ENVIRONMENT.get_template("call/outcome.html").render(**values)
    approval = found.approval
    decisions = found.history.decisions if is_closed else approval.decisions
    last = phrases.decision_text(decisions[-1], approval.kind, person.name) if decisions else ""
    return ENVIRONMENT.get_template("call/news.html").render(
        found=found, decision=last, is_closed=is_closed, is_requested_again=had_outcome
    )

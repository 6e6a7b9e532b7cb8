"""The page of one call, and the decision that is sent from it.

    GET  /waiting/{run}/{call}            the question, or its outcome
    POST /waiting/{run}/{call}            a decision, or a button that changes the fields of a form
    POST /waiting/{run}/{call}/claim      a claim on it, or its end
    GET  /waiting/{run}/{call}?decided    the last decision; a question that is pending is a link
    GET  /waiting/{run}/{call}?again      the page that runs a call again whose outcome is unknown
    GET  /waiting/{run}/{call}/changes    the changes of the call as an event stream

No decision leads to a page with another one, and only the token of `?again` runs a call again: a
further click at the same place decides nothing.

The events: `news`, a notice for the page; `claim`, who looks at the call; `outcome`, the outcome of
a closed call, which replaces the one before; `over`, no more events. The rest of the page and its
input do not change. A response that rejects a decision explains what to do, and contains the input.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from html import escape
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from holdfast.client.errors import UNREACHABLE, HoldfastError, RejectedError
from holdfast.client.run import Run
from holdfast.client.stream.run_feed import RunFeed
from holdfast.runtime.text_safety import clean
from holdfast.schemas import names
from holdfast.schemas.decision import RUNS_AGAIN, Decision, PendingApproval
from holdfast.schemas.settings.inbox import Right
from holdfast.web.auth.permissions import access_of
from holdfast.web.auth.sessions import person_of
from holdfast.web.call import decision_form, loader, view_model
from holdfast.web.call.history import QuestionRound
from holdfast.web.call.plan import argument_differences
from holdfast.web.http.path_prefix import root_of
from holdfast.web.http.requests import RunRoute, read_form
from holdfast.web.http.streaming import StreamLimit, frame, page_stream
from holdfast.web.pages import address, page, reader_texts, render
from holdfast.web.services import Services

MAX_STREAMS: Final = 200
SEEN: Final[tuple[Right, ...]] = ("read", "decide")
_CHANGED: Final = (
    "The call has changed since it was shown to you, so your decision was rejected. Your input is"
    " below. Check the differences, and decide again."
)


def routes(parts: Services) -> list[BaseRoute]:
    """Return the routes of the pages of calls."""
    pages = CallPages(parts)
    return [
        RunRoute("/waiting/{run}/{call}/changes", pages.changes, SEEN, methods=["GET"]),
        RunRoute("/waiting/{run}/{call}/claim", pages.claim, "decide", methods=["POST"]),
        RunRoute("/waiting/{run}/{call}", pages.show, SEEN, methods=["GET"]),
        RunRoute("/waiting/{run}/{call}", pages.decide, "decide", methods=["POST"]),
    ]


class CallPages:
    """The pages of calls."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._room = StreamLimit(MAX_STREAMS)

    async def show(self, request: Request) -> Response:
        """Show a call, its outcome, its last decision, or the page that runs it again."""
        found = await self._load(request)
        if isinstance(found, loader.ClosedApproval):
            return await self._closed_page(request, found)
        if "decided" in request.query_params:
            rounds = [*found.history.earlier_requests, found.history.question]
            for one in reversed(rounds):
                if one and one.decisions:
                    return self._decided_page(request, found, one)
        return await self._page(request, found, again="again" in request.query_params)

    async def decide(self, request: Request) -> Response:
        """Send a decision, or change the fields of a form."""
        form, is_sent = decision_form.DecisionForm.of(await read_form(request)), False
        run = self._parts.client.run(request.path_params["run"])
        await self._check_visible(request)
        try:
            found = await self._decision(request, run, form)
            if isinstance(found, Response):
                return found
            approval, decision = found
            if (
                approval.kind == "reconcile"
                and decision.decision in RUNS_AGAIN
                and form.again != decision_form.again_token(approval, person_of(request))
            ):
                return RedirectResponse(f"{_here(request)}?again", 303)
            try:
                is_sent = True
                await self._parts.decide(run.id, approval, decision)
            except RejectedError as refusal:
                is_sent = False
                return await self._rejected_page(request, form, refusal)
        except HoldfastError as error:
            is_sent = is_sent and error.exit_code == UNREACHABLE
            values = {"form": form, "sent": is_sent, "here": _here(request)}
            values["run"] = address("run", run.id)
            values["problem"] = reader_texts(error)[0]
            status = 503 if error.exit_code == UNREACHABLE else 409
            return page(request, "call/not_sent.html", status, **values)
        return RedirectResponse(f"{_here(request)}?decided", 303)

    async def claim(self, request: Request) -> Response:
        """Claim the call for the person, or end their claim, and show it."""
        await self._check_visible(request)
        gives_back = (await read_form(request)).get("claim") == "give back"
        try:
            await self._parts.claim(
                person_of(request), **request.path_params, gives_back=gives_back
            )
        except RejectedError as refusal:
            if refusal.code == names.INVALID_DECISION:
                raise
        return RedirectResponse(_here(request), 303)

    async def _decision(
        self, request: Request, run: Run, form: decision_form.DecisionForm
    ) -> Response | tuple[PendingApproval, Decision]:
        """Return the question and the decision of a form, or the page that it leads to."""
        person, call_id = person_of(request), request.path_params["call"]
        # Only a page needs the log.
        if not form.has_values:
            for one in await run.approvals():
                if one.call_id == call_id and form.is_about(one):
                    decision = decision_form.build_decision(form, one, person, {})
                    if isinstance(decision, Decision):
                        return one, decision
        found = await self._load(request)
        if isinstance(found, loader.ClosedApproval):
            return await self._closed_page(request, found, form)
        if form.action:
            form = await asyncio.to_thread(form.redraw, found)
            return await self._page(request, found, form=form)
        if not form.is_about(found.approval):
            return await self._changed_page(request, found, form)
        decision = await asyncio.to_thread(decision_form.read_decision, form, found, person)
        if isinstance(decision, decision_form.FormProblem):
            return await self._page(request, found, 422, form=form, problem=decision)
        return found.approval, decision

    async def changes(self, request: Request) -> Response:
        """Return the event stream of a call, or a refusal where too many are open."""
        await self._check_visible(request)
        return page_stream(self._room, person_of(request).name, self._frames(request))

    async def _load(self, request: Request) -> loader.OpenApproval | loader.ClosedApproval:
        run, call = request.path_params["run"], request.path_params["call"]
        return await loader.load_visible_call(self._parts, access_of(request), run, call)

    async def _check_visible(self, request: Request) -> None:
        """Refuse a person who may only decide, on the approval of others."""
        if "read" not in access_of(request).rights:
            await self._load(request)

    async def _page(
        self,
        request: Request,
        pending: loader.OpenApproval,
        status: int = 200,
        *,
        form: decision_form.DecisionForm | None = None,
        problem: decision_form.FormProblem | None = None,
        again: bool = False,
    ) -> Response:
        person = person_of(request)
        again |= form is not None and form.again == decision_form.again_token(
            pending.approval, person
        )
        # An untrusted schema can be slow to render and to check, within its bounds.
        values = await asyncio.to_thread(
            view_model.build_call_page,
            pending,
            person,
            signs=self._parts.signer is not None,
            may_decide="decide" in access_of(request).rights,
            form=form,
            problem=problem,
            again=again and pending.approval.kind == "reconcile",
            away=await self._parts.away(person, pending.approval),
        )
        similar = await loader.find_similar_calls(self._parts, pending, person)
        return page(request, "call/page.html", status, call=values, similar=similar)

    async def _changed_page(
        self, request: Request, pending: loader.OpenApproval, form: decision_form.DecisionForm
    ) -> Response:
        """Show the changes since the page of a form was opened, or its decision, and the input."""
        for one in reversed(pending.history.earlier_requests):
            if one.decisions and one.approval.digest == form.digest:
                return self._decided_page(request, pending, one, form)
        now, versions = pending.approval, pending.history.versions
        shown = (one.arguments for one in versions if one.digest == form.digest)
        old = next(shown, now.arguments)
        found = argument_differences(now.kind, old, now.arguments, pending.tools, pending.schema)
        by = versions[-1].by if versions else None
        who = f"{by} changed it. " if by else ""
        problem = decision_form.FormProblem(f"{who}{_CHANGED}", found)
        return await self._page(request, pending, 409, form=form, problem=problem)

    async def _rejected_page(
        self, request: Request, form: decision_form.DecisionForm, refusal: RejectedError
    ) -> Response:
        """Show why the run rejected a decision, on the page of the call as it is now."""
        found = await self._load(request)
        if isinstance(found, loader.ClosedApproval):
            return await self._closed_page(request, found, form)
        if not form.is_about(found.approval):
            return await self._changed_page(request, found, form)
        status = 422 if refusal.code == names.INVALID_DECISION else 409
        problem = decision_form.FormProblem(
            f"Decision rejected: {clean(refusal.reason).rstrip('.')}."
        )
        return await self._page(request, found, status, form=form, problem=problem)

    def _decided_page(
        self,
        request: Request,
        pending: loader.OpenApproval,
        decided: QuestionRound,
        form: decision_form.DecisionForm | None = None,
    ) -> Response:
        """Show a decision on a call that has a further question; a `form` came after it."""
        values = {"call": pending, "decided": decided, "form": form, "here": _here(request)}
        return page(request, "call/decided.html", 200 if form is None else 409, **values)

    async def _closed_page(
        self,
        request: Request,
        closed: loader.ClosedApproval,
        form: decision_form.DecisionForm | None = None,
    ) -> Response:
        """Show the decision and the outcome of a closed call, and a link to the next one."""
        person = person_of(request)
        next_call = await loader.find_next_pending(self._parts, closed, person)
        values = await asyncio.to_thread(view_model.build_closed_page, closed, person)
        status = 200 if form is None else 409
        return page(request, "call/closed.html", status, next_call=next_call, form=form, **values)

    async def _frames(self, request: Request) -> AsyncGenerator[str, None]:
        """Yield what the page lacks; the last frame of a look has its mark as id."""
        access, shown = access_of(request), request.query_params.get("seen", "")
        seen = request.headers.get("last-event-id") or shown
        follows_outcome = shown.startswith(loader.CLOSED_MARK)
        run, call = request.path_params["run"], request.path_params["call"]
        watched = self._parts.client.run(run)
        load = partial(loader.load_call, self._parts, run, call, access)
        key = ("call", call, None if "read" in access.rights else access)
        feed = RunFeed(watched)
        async with aclosing(feed.moves()) as moves:
            async for look in moves:
                try:
                    found = await watched.share(key, load)
                except HoldfastError:
                    continue  # the next look loads the call again
                if not access.sees(found.approval.approvers):
                    break  # it was forwarded to others
                feed.has_read(look)
                (question, _, claim), before = found.mark.partition("/"), seen.partition("/")
                has_claim = claim != before[2] and isinstance(found, loader.OpenApproval)
                if question != before[0]:
                    make = partial(_news, found, request, had_outcome=follows_outcome)
                    event, text = await asyncio.to_thread(make)
                    yield frame(event, text, "" if has_claim else found.mark)
                if has_claim:
                    text = view_model.claim_text(found.approval, access.person)
                    yield frame("claim", escape(text) or "<!-- none -->", found.mark)
                seen = found.mark
                if is_last_event(found, follows_outcome=follows_outcome):
                    break
        yield frame("over", "")


def _news(
    found: loader.OpenApproval | loader.ClosedApproval, request: Request, *, had_outcome: bool
) -> tuple[str, str]:
    person, event, values = person_of(request), "news", dict[str, Any]()
    if isinstance(found, loader.ClosedApproval):
        event = "outcome" if had_outcome else "news"
        values = view_model.build_closed_page(found, person)
    values |= {"found": found, "had_outcome": had_outcome, "you": person.name}
    values["is_closed"] = isinstance(found, loader.ClosedApproval)
    return event, render(f"call/{event}.html", root_of(request), **values)


def _here(request: Request) -> str:
    return address("waiting", request.path_params["run"], request.path_params["call"])


def is_last_event(
    found: loader.OpenApproval | loader.ClosedApproval, *, follows_outcome: bool
) -> bool:
    """Report whether a page needs no more events.

    A page that follows an outcome needs them until it is settled, or a decision is needed again.
    """
    if isinstance(found, loader.OpenApproval):
        return follows_outcome
    return found.is_settled or not follows_outcome

"""The inbox: a web application over a Temporal client, without a store of its own, and its server.

    auth ─► pages:  pending approvals (`listing`), one call (`call`), one run (`run`)
         ├► HTTP:   runs, decisions, messages and events for programs (`api`)
         └► links:  decide by a link in a message, without signing in (`runtime.decision_links`)

Every page queries Temporal and the runs, so any number of inboxes can run side by side, and one
that is killed loses nothing. Workers send the answers that models are writing to an address that is
not for people: the shared key alone opens it, without a session, and nothing else.
"""

import asyncio
import hmac
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import httpx
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from holdfast.catalog.loader import Catalog
from holdfast.client.connection import connect
from holdfast.client.errors import explain_files, explain_settings, wrong_command
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.signing import Signer
from holdfast.client.stream.live_answers import LiveAnswers
from holdfast.client.stream.local_viewer import local_viewer
from holdfast.runtime import decision_links as links
from holdfast.runtime.attachments import DEFAULT_BYTES, most_bytes
from holdfast.runtime.secrets import shared_secret
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.base import sha256
from holdfast.schemas.internal.live_answer import LIVE_ANSWERS_PATH, VIEWERS_KEY
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.web import away as away_page
from holdfast.web.api import operations as api
from holdfast.web.api.openapi import DOCUMENT
from holdfast.web.auth import auth_middleware as auth
from holdfast.web.auth.permissions import Permissions
from holdfast.web.auth.sessions import BearerTokens, Person, build_person
from holdfast.web.auth.sign_in import LinkSignIn
from holdfast.web.call import routes as call
from holdfast.web.call.loader import OpenApproval, find_similar_calls, load_call
from holdfast.web.call.view_model import build_call_page
from holdfast.web.home import HomePage
from holdfast.web.http import serving
from holdfast.web.http.origins import own_origins, path_of
from holdfast.web.http.path_prefix import under_path
from holdfast.web.http.problems import RefusedRequest, forbidden
from holdfast.web.http.requests import read_form
from holdfast.web.http.shared_secret import digest
from holdfast.web.listing import routes as listing
from holdfast.web.listing.bulk import BulkOutcome, decide_shown
from holdfast.web.monitoring import InboxHealth, export_metrics
from holdfast.web.pages import STATIC, ErrorMiddleware, error_response, page
from holdfast.web.run import routes as live
from holdfast.web.services import Services
from holdfast.web.slack import SlackActions

SECRET_VARIABLE: Final = "HOLDFAST_INBOX_SECRET"
# Each open page holds one, to receive changes.
MAX_CONNECTIONS: Final = 2_000
_LOCAL_HOST: Final = "127.0.0.1"
_ID_CHARS: Final = 40


def application(parts: Services, *more: Route) -> Starlette:
    """Return the inbox as an ASGI application, with the routes of Slack and of links."""
    app = Starlette(
        routes=[
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/home", HomePage(parts).show, methods=["GET"]),
            *away_page.routes(parts),
            *listing.routes(parts),
            *call.routes(parts),
            *live.routes(parts),
            *api.routes(parts),
            *more,
        ],
        middleware=[Middleware(ErrorMiddleware)],
        exception_handlers={HTTPException: error_response},
    )
    app.state.services = parts
    # A redirect from `/run/` would use http, even where a proxy uses https.
    app.router.redirect_slashes = False
    return app


class DecisionPages:
    """The pages of links that are sealed with a secret.

        GET  /decide/{token}    the call, as it was shown in the message
        POST /decide/{token}    approve or deny it, in the name of the person in the token

    Only `POST` decides: programs that fetch links change nothing. The run takes the id of a
    decision once, which is made from the token. No response passes the address on:
    `Referrer-Policy` is `no-referrer`.
    """

    def __init__(self, parts: Services, secret: str) -> None:
        self._parts, self._seal = parts, TextSealer(secret)
        self.routes = [
            Route(f"{links.PATH}{{token}}", self.show, methods=["GET"]),
            Route(f"{links.PATH}{{token}}", self.decide, methods=["POST"]),
        ]

    def _open(self, request: Request) -> tuple[Person, SelectedCall]:
        opened = self._seal.open(links.KIND, request.path_params["token"])
        call = None if opened is None else SelectedCall.parse(opened.values["call"])
        if opened is None or call is None:
            raise forbidden("this link has expired, or is not complete; open the inbox")
        return Person(opened.values["by"], tuple(opened.values["groups"]), "message"), call

    async def show(self, request: Request) -> Response:
        """Show the call."""
        person, call = self._open(request)
        outcome = await decide_shown(self._parts, person, call, None)
        found = None if outcome.text else await load_call(self._parts, call.run, call.call)
        if not isinstance(found, OpenApproval):
            return self._outcome(request, person, outcome)
        similar = await find_similar_calls(self._parts, found, person)
        away = await self._parts.away(person, found.approval)
        values = build_call_page(found, person, signs=False, away=away)
        same = sum(one.same_arguments for one in similar)
        return page(request, "call/link.html", call=values, you=person, same=same)

    async def decide(self, request: Request) -> Response:
        """Send the decision, and show its outcome."""
        (person, call), form = self._open(request), await read_form(request)
        verdict, reason = form.get("about"), str(form.get("reason") or "").strip()
        if verdict not in ("approve", "deny"):
            raise RefusedRequest(400, "the form has no decision; send it from its page")
        fields = {"decision": verdict, **({"reason": reason} if reason else {})}
        id = f"link-{sha256(request.path_params['token'].encode())[:_ID_CHARS]}"
        outcome = await decide_shown(self._parts, person, call, lambda _: fields, id)
        return self._outcome(request, person, outcome)

    def _outcome(self, request: Request, person: Person, outcome: BulkOutcome) -> Response:
        status = 200 if outcome.tone in ("good", "plain") and outcome.text else 409
        return page(request, "call/link.html", status, call=None, you=person, outcome=outcome)


def with_live_answers(app: ASGIApp, live: LiveAnswers, key: str) -> ASGIApp:
    """Return the application, which also receives live answers of the workers that have the key."""
    secret = digest(key)

    async def serve(worker: WebSocket) -> None:
        _, _, shown = worker.headers.get("authorization", "").partition(" ")
        # Wrong keys are not counted: behind a proxy, all workers have the address of the guesser.
        if not hmac.compare_digest(digest(shown.strip()), secret):
            await worker.close()  # the handshake is answered with 403
            return
        await worker.accept()
        await live.serve(worker.iter_bytes(), worker.send_text)

    workers = Router([WebSocketRoute(LIVE_ANSWERS_PATH, serve)])

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await (workers if scope["type"] == "websocket" else app)(scope, receive, send)

    return answer


async def serve_inbox(
    file: str | None,
    named_by: str,
    host: str,
    port: int,
    user: Person,
    signer: Signer | None,
    load_catalog: Callable[[], Catalog | None],
    *,
    is_user_given: bool,
) -> None:
    """Serve the inbox until it is stopped.

    `named_by` is what names the `file` of its settings. Without `oidc` and `proxy` in these, the
    `user` has a link; `is_user_given`: by options, and not by the operating system alone.

    Raises:
        HoldfastError: the settings, the user, Temporal or the port cannot be used.
    """
    with explain_files():
        for what in DEFAULT_BYTES:
            most_bytes(what)
    seal = TextSealer(shared_secret(SECRET_VARIABLE))
    path, link = Path(file) if file else None, LinkSignIn(seal, user.name, user.groups)
    async with AsyncExitStack() as stack:
        http = httpx.AsyncClient(timeout=auth.HTTP_TIMEOUT_SECONDS)
        await stack.enter_async_context(http)
        with explain_settings(named_by):
            access = auth.read_access(path, os.environ, seal, link, http)
        chosen = access.settings
        if access.method is link:
            is_local = chosen.url is None and ip_address(host).is_loopback
            _check_link_user(user, seal, is_local=is_local)
        elif is_user_given:
            todo = "leave out --by and --groups"
            raise wrong_command("the settings define who decides", todo)
        serving.check_private(host, chosen.url, "`url: https://…` in its `--settings`")
        client, permissions = await connect(chosen.task_queue), Permissions(chosen.permissions)
        of_settings = chosen.temporal_ui, chosen.programs, permissions
        parts = Services(client, signer, *of_settings, load_catalog(), chosen.claim_for)
        await stack.enter_async_context(export_metrics(parts.pending, os.environ))
        socket = stack.enter_context(serving.open_listener(host, port))
        own = own_origins(host, socket.getsockname()[1], chosen.url)
        root, app = path_of(chosen.url), _guarded(parts, access, own, http)
        at = serving.public_origin(own) + root
        key = shared_secret(VIEWERS_KEY)
        await stack.enter_async_context(local_viewer(client.live))
        served = under_path(with_live_answers(app, client.live, key) if key else app, root)
        shown = f"inbox ready: {link.address(at) if access.method is link else at}"
        most, stopping = MAX_CONNECTIONS, access.stopping
        await serving.serve(served, socket, shown, most, sockets=bool(key), stopping=stopping)


def _check_link_user(user: Person, seal: TextSealer, *, is_local: bool) -> None:
    if not user.name:
        todo = "name yourself with --by NAME"
        raise wrong_command("the operating system does not report your name", todo)
    try:
        build_person(seal, user.name, user.groups, "link")
    except RefusedRequest as refused:
        raise wrong_command(*refused.sentence.split("; ", 1)) from None
    if not is_local:
        wrong = "the holder of its link would decide in your name, from anywhere"
        todo = "have people sign in: `oidc` or `proxy` in its `--settings`"
        raise wrong_command(wrong, todo)


def _guarded(
    parts: Services, access: auth.RequestAccess, own: frozenset[str], http: httpx.AsyncClient
) -> ASGIApp:
    """Return the inbox behind authentication, with the routes that its settings add."""
    public, more = [DOCUMENT] if access.settings.openapi == "public" else [], list[Route]()
    if access.settings.slack is not None:
        more += SlackActions(parts, access.settings.slack, os.environ, http).routes
    if secret := shared_secret(links.LINK_SECRET, links.MIN_SECRET_CHARACTERS):
        more += DecisionPages(parts, secret).routes
    health = InboxHealth(parts.client.temporal)
    return auth.AuthMiddleware(application(parts, *more), access, own, health, public)


@asynccontextmanager
async def local_inbox(client: HoldfastClient, temporal_ui: str, user: str) -> AsyncIterator[str]:
    """Serve an inbox without settings on this machine; yield the address of the user's link."""
    seal = TextSealer()
    link = LinkSignIn(seal, user)
    with serving.open_listener(_LOCAL_HOST, 0) as socket:
        port = socket.getsockname()[1]
        access = auth.RequestAccess(link, BearerTokens(seal))
        pages = application(Services(client, temporal_ui=temporal_ui))
        own, health = own_origins(_LOCAL_HOST, port, None), InboxHealth(client.temporal)
        server = serving.server(auth.AuthMiddleware(pages, access, own, health))
        task = asyncio.create_task(server.serve([socket]))
        try:
            yield link.address(f"http://{_LOCAL_HOST}:{port}")
        finally:
            access.stopping.set()
            server.should_exit = True
            await task

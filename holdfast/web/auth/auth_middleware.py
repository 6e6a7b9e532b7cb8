"""Authentication of every request, before the application receives it.

    endpoint name (`Host`) ─► page of origin (`Origin`) ─► sender ─► form token ─► pages

The sign-in pages, the health of the inbox and the static files of its pages need no authentication;
a request of Slack, and one of a link that decides, is authenticated by what it carries.
A refused request has changed nothing, and its response states that.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.runtime.decision_links import PATH as DECISION_LINKS
from holdfast.runtime.identity.key_sets import issuer_warnings
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.settings.inbox import InboxSettings
from holdfast.web import pages
from holdfast.web.auth import sign_in
from holdfast.web.auth.oidc import OidcProvider, OidcSignIn
from holdfast.web.auth.sessions import BearerTokens
from holdfast.web.http import requests
from holdfast.web.http.origins import hosts_of
from holdfast.web.http.problems import RefusedRequest, forbidden, unauthorized
from holdfast.web.http.requests import carries_token, is_form, read_form
from holdfast.web.http.streaming import SessionEnd, StreamLimit
from holdfast.web.inbox_settings import LoadedInboxSettings, load_inbox_settings
from holdfast.web.monitoring import HEALTH, InboxHealth

# What they send proves who decides: a signature of Slack, a sealed token.
SLACK_ACTIONS: Final = "/slack/actions"
# For the metadata, keys and tokens of a provider, and for Slack.
HTTP_TIMEOUT_SECONDS: Final = 5

_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_DOORS: Final = (sign_in.SIGN_IN, sign_in.SIGNED_IN, sign_in.SIGN_OUT)
_FORGED: Final = (
    "nothing was changed: the request does not come from a page of this inbox; open the page and"
    " send it from there"
)


logger = logging.getLogger("holdfast")
SignInMethod = sign_in.LinkSignIn | OidcSignIn | sign_in.ProxySignIn


@dataclass(frozen=True)
class RequestAccess:
    """The rules for access: `bearer` authenticates programs, `method` signs people in."""

    method: SignInMethod
    bearer: BearerTokens
    settings: InboxSettings = field(default_factory=InboxSettings)
    brand: pages.Branding = pages.HOLDFAST
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


class AuthMiddleware:
    """An application behind authentication; everyone may read the `public_paths`."""

    def __init__(
        self,
        app: ASGIApp,
        access: RequestAccess,
        own_origins: frozenset[str],
        health: InboxHealth,
        public_paths: Collection[str] = (),
    ) -> None:
        self._app, self._access, self._health = app, access, health
        self._answered = pages.ErrorMiddleware(self._answer)
        self._hosts, self._public_paths = hosts_of(own_origins), public_paths
        self._doors = Router(access.method.routes)
        self._uploads = StreamLimit(requests.MAX_LARGE_UPLOADS, requests.MAX_LARGE_UPLOADS_OF_ONE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to the application."""
        assert scope["type"] == "http"  # no other protocol is served
        await self._answered(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        async with AsyncExitStack() as request.state.until_end:
            answer = await self._application_for(request)
            await answer(scope, receive, send)

    async def _application_for(self, request: Request) -> ASGIApp:
        """Return the application that answers the request, if it is allowed."""
        path: str = request.scope["path"]
        if path == HEALTH:  # a probe names the machine, not the inbox
            return await self._health.answer(request)
        request.state.origin = self._hosts.get(request.headers.get("host", "").lower())
        if request.state.origin is None:
            raise RefusedRequest(
                421, "the inbox has another name; name this one as `url` in its settings"
            )
        request.state.brand = self._access.brand
        changes = request.method not in _SAFE
        is_link = path.startswith(DECISION_LINKS)  # its page sends no origin
        known = {None, *self._hosts.values()}
        if changes and not is_link and request.headers.get("origin") not in known:
            raise forbidden(_FORGED)
        is_public = path in self._public_paths and not changes
        if is_public or is_link or path.startswith(pages.STATIC_PATH) or path == SLACK_ACTIONS:
            return self._access.brand.response(path) or self._app
        if path in _DOORS:
            _check_own_page(request)
            return self._doors
        sender = await self._access.bearer.authenticate(request)
        sender = sender or await self._access.method.authenticate(request)
        if sender is None:
            return await _sign_in_first(request)
        request.state.person, request.state.uploads = sender.person, self._uploads
        request.state.session = SessionEnd(sender.seconds_left, self._access.stopping)
        if changes and sender.person.via != "token":
            _check_own_page(request)
            if not await carries_token(request, sender.person):
                # A form without the token of its own page: refuse it, and keep it.
                if not (pages.wants_page(request) and is_form(request)):
                    raise forbidden(_FORGED)
                return sign_in.resubmission_page(request, await read_form(request), sender.person)
        return self._app


def _check_own_page(request: Request) -> None:
    """Refuse a change without `Origin` or `Sec-Fetch-Site` of a page of the inbox."""
    if request.method in _SAFE:
        return
    site = request.headers.get("sec-fetch-site", "same-origin")
    has_said = "origin" in request.headers or "sec-fetch-site" in request.headers
    if site != "same-origin" or not has_said:
        raise forbidden(_FORGED)


async def _sign_in_first(request: Request) -> Response:
    """Send an unauthenticated sender to the sign-in page, and keep the form."""
    if not pages.wants_page(request):
        raise unauthorized("sign in on the page of this inbox, or send a token")
    if request.method in _SAFE:
        return RedirectResponse(sign_in.sign_in_path(sign_in.requested_path(request)), 303)
    _check_own_page(request)
    form = await read_form(request) if is_form(request) else None
    return sign_in.resubmission_page(request, form, None)


def read_access(
    file: Path | None,
    environ: Mapping[str, str],
    sealer: TextSealer,
    link: sign_in.LinkSignIn,
    http: httpx.AsyncClient,
) -> RequestAccess:
    """Return the rules of the settings file; without `oidc` and `proxy`, people have the link.

    Raises:
        LoadError: the settings cannot be used.
    """
    loaded = LoadedInboxSettings() if file is None else load_inbox_settings(file, environ, http)
    for warning in issuer_warnings(loaded.keys):
        logger.warning("%s", warning)
    settings = loaded.settings
    method: SignInMethod = link
    if settings.proxy is not None:
        method = sign_in.ProxySignIn(sealer, settings.proxy)
    elif settings.oidc is not None:
        provider = OidcProvider(settings.oidc, loaded.secret, http)
        method = OidcSignIn(sealer, settings.oidc, provider)
    return RequestAccess(method, BearerTokens(sealer, loaded.keys), settings, loaded.brand)

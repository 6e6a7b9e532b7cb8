"""Authentication of every request, before the application receives it.

    endpoint name (`Host`) ─► page of origin (`Origin`) ─► sender ─► form token ─► pages

The sign-in pages, the health of the inbox and the static files of its pages need no authentication.
A refused request has changed nothing, and its response states that.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import httpx
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.schemas.settings.inbox import InboxSettings
from holdfast.web.auth.bearer import BearerTokens
from holdfast.web.auth.link import LinkOwner, LinkSignIn
from holdfast.web.auth.oidc import OidcSignIn
from holdfast.web.auth.oidc_provider import OidcProvider
from holdfast.web.auth.proxy import ProxySignIn
from holdfast.web.auth.sealed_text import TextSealer
from holdfast.web.auth.sessions import Authentication
from holdfast.web.auth.sign_in_pages import (
    SIGN_IN,
    SIGN_OUT,
    SIGNED_IN,
    requested_path,
    resubmission_page,
    sign_in_path,
)
from holdfast.web.http.health import HEALTH, InboxHealth
from holdfast.web.http.origins import hosts_of
from holdfast.web.http.refused_request import RefusedRequest, unauthorized
from holdfast.web.http.request_body import carries_token, is_form, read_form
from holdfast.web.http.responses import STATIC, ErrorMiddleware, add_headers, refusal, wants_page
from holdfast.web.http.streaming import SessionStreams
from holdfast.web.inbox_settings import LoadedInboxSettings, load_inbox_settings

# For the metadata, keys and tokens of a provider.
HTTP_TIMEOUT_SECONDS: Final = 5

_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_DOORS: Final = (SIGN_IN, SIGNED_IN, SIGN_OUT)
_STRANGER: Final = "sign in on the page of this inbox, or send a token"
_FORGED: Final = (
    "nothing was done: this was not sent from a page that you were given; open the page and send"
    " it from there"
)


class SignInMethod(Protocol):
    """A method of signing in, and the routes that it needs."""

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes that need no authentication."""

    async def authenticate(self, request: Request) -> Authentication | None:
        """Return the sender of the request; None where it has no session.

        Raises:
            RefusedRequest: the sender is not allowed in.
        """


@dataclass(frozen=True)
class RequestAccess:
    """The rules for access: `bearer` authenticates programs, `method` signs people in."""

    own_origins: frozenset[str]
    method: SignInMethod
    bearer: BearerTokens
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


class AuthMiddleware:
    """An application behind authentication."""

    def __init__(self, app: ASGIApp, access: RequestAccess, health: InboxHealth) -> None:
        self._app, self._access, self._health = app, access, health
        self._hosts = hosts_of(access.own_origins)
        self._doors = Router(access.method.routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to the application."""
        assert scope["type"] == "http"  # no other protocol is served

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                add_headers(MutableHeaders(raw=message["headers"]), scope["path"])
            await send(message)

        await ErrorMiddleware(self._answered)(scope, receive, sent)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except RefusedRequest as refused:
            answer = refusal(request, refused)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        """Return the application that answers the request.

        Raises:
            RefusedRequest: it is not allowed.
        """
        path: str = request.scope["path"]
        if path == HEALTH:  # a probe names the machine, not the inbox
            return await self._health.answer(request)
        self._check_name(request)
        self._check_page(request)
        if path.startswith(STATIC):
            return self._app
        if path in _DOORS:
            if request.method not in _SAFE:
                self._check_own_page(request)
            return self._doors
        known = await self._known(request)
        if known is None:
            return await self._stranger(request)
        request.state.person = known.person
        if request.method not in _SAFE and known.person.via != "token":
            self._check_own_page(request)
            if not await carries_token(request, known.person):
                return await self._forged(request)
        return SessionStreams(self._app, self._access.stopping, known.seconds_left)

    async def _known(self, request: Request) -> Authentication | None:
        by_token = await self._access.bearer.authenticate(request)
        return by_token or await self._access.method.authenticate(request)

    def _check_name(self, request: Request) -> None:
        origin = self._hosts.get(request.headers.get("host", "").lower())
        if origin is None:
            raise RefusedRequest(
                421, "the inbox has another name; name this one as `url` in its settings"
            )
        request.state.origin = origin

    def _check_page(self, request: Request) -> None:
        """Refuse a change that a page of another site sent."""
        origin = request.headers.get("origin")
        if (
            request.method not in _SAFE
            and origin is not None
            and origin not in self._access.own_origins
        ):
            raise RefusedRequest(403, _FORGED)

    def _check_own_page(self, request: Request) -> None:
        """Refuse a change without `Origin` or `Sec-Fetch-Site` of a page of the inbox."""
        site = request.headers.get("sec-fetch-site", "same-origin")
        has_said = "origin" in request.headers or "sec-fetch-site" in request.headers
        if site != "same-origin" or not has_said:
            raise RefusedRequest(403, _FORGED)

    async def _stranger(self, request: Request) -> Response:
        """Send an unauthenticated sender to the sign-in page, and keep the form."""
        if not wants_page(request):
            raise unauthorized(_STRANGER)
        if request.method in _SAFE:
            return RedirectResponse(sign_in_path(requested_path(request)), 303)
        self._check_own_page(request)
        form = await read_form(request) if is_form(request) else None
        return resubmission_page(request, form, None)

    async def _forged(self, request: Request) -> Response:
        """Refuse a form without the token of its own page, and keep the form."""
        if not (wants_page(request) and is_form(request)):
            raise RefusedRequest(403, _FORGED)
        return resubmission_page(request, await read_form(request), request.state.person)


@dataclass(frozen=True)
class SignInSetup:
    """The sign-in method, and the settings that it comes from; `link` for the local link."""

    settings: InboxSettings
    method: SignInMethod
    bearer: BearerTokens
    link: LinkSignIn | None


@asynccontextmanager
async def open_sign_in(
    file: Path | None, environ: Mapping[str, str], sealer: TextSealer, link_owner: LinkOwner
) -> AsyncIterator[SignInSetup]:
    """Return the sign-in of the settings file; without `oidc` and `proxy`, a link for `whose`.

    Raises:
        SettingsError: the settings cannot be used.
    """
    async with httpx.AsyncClient(timeout=HTTP_TIMEOUT_SECONDS) as http:
        settings = (
            LoadedInboxSettings() if file is None else load_inbox_settings(file, environ, http)
        )
        bearer = BearerTokens(sealer, settings.keys)
        link = None if _has_way(settings.settings) else LinkSignIn(sealer, link_owner)
        yield SignInSetup(settings.settings, link or _way(settings, sealer, http), bearer, link)


def _has_way(said: InboxSettings) -> bool:
    return said.oidc is not None or said.proxy is not None


def _way(settings: LoadedInboxSettings, seal: TextSealer, http: httpx.AsyncClient) -> SignInMethod:
    if settings.settings.proxy is not None:
        return ProxySignIn(seal, settings.settings.proxy)
    assert settings.settings.oidc is not None  # without it, the sign-in is a link
    provider = OidcProvider(settings.settings.oidc, settings.secret, http)
    return OidcSignIn(seal, settings.settings.oidc, provider)

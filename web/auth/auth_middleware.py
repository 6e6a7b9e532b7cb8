"""The gate: nothing is asked of the inbox but by somebody who is known.

    name that was asked (`Host`) ─► page that asks (`Origin`) ─► who it is ─► form token ─►
    pages

Signing in, the health of the inbox and what its pages are drawn with are for everybody. What is
refused here has changed nothing, and says so.
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
from holdfast.web.auth.bearer import Bearer
from holdfast.web.auth.link import Link, LinkOwner
from holdfast.web.auth.oidc import SignIn
from holdfast.web.auth.oidc_provider import OidcProvider
from holdfast.web.auth.proxy import BehindProxy
from holdfast.web.auth.sealed_text import TextSealer
from holdfast.web.auth.sessions import Known
from holdfast.web.auth.sign_in_pages import (
    SIGN_IN,
    SIGN_OUT,
    SIGNED_IN,
    asked_for,
    kept_page,
    sign_in_for,
)
from holdfast.web.http.health import HEALTH, InboxHealth
from holdfast.web.http.origins import hosts_of
from holdfast.web.http.refused_request import RefusedRequest, unauthorized
from holdfast.web.http.request_body import carries_token, form_of, is_form
from holdfast.web.http.responses import STATIC, Failing, add_headers, refusal, wants_page
from holdfast.web.http.streaming import Bounded
from holdfast.web.inbox_settings import LoadedInboxSettings, load

# Of a provider, for metadata, keys and tokens.
HTTP_TIMEOUT_SECONDS: Final = 5

_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_DOORS: Final = (SIGN_IN, SIGNED_IN, SIGN_OUT)
_STRANGER: Final = "sign in on the page of this inbox, or send a token"
_FORGED: Final = (
    "nothing was done: this was not sent from a page that you were given; open the page and send"
    " it from there"
)


class Way(Protocol):
    """A way in which people are known, and the doors that it needs."""

    @property
    def doors(self) -> Sequence[BaseRoute]:
        """Its pages for whoever is not known yet."""

    async def known(self, request: Request) -> Known | None:
        """Who sends this; None: nobody who is known.

        Raises:
            Refused: somebody who cannot be let in.
        """


@dataclass(frozen=True)
class RequestAccess:
    """Who may come: `own` are the origins of the inbox itself, `bearer` knows programs."""

    own: frozenset[str]
    way: Way
    bearer: Bearer
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


class AuthMiddleware:
    """The inbox, for those who are known."""

    def __init__(self, app: ASGIApp, access: RequestAccess, health: InboxHealth) -> None:
        self._app, self._access, self._health = app, access, health
        self._hosts = hosts_of(access.own)
        self._doors = Router(access.way.doors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        assert scope["type"] == "http"  # nothing else is served

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                add_headers(MutableHeaders(raw=message["headers"]), scope["path"])
            await send(message)

        await Failing(self._answered)(scope, receive, sent)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except RefusedRequest as refused:
            answer = refusal(request, refused)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        """What answers.

        Raises:
            Refused: nothing does.
        """
        path: str = request.scope["path"]
        if path == HEALTH:  # whoever asks after it names the machine, and not the inbox
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
        return Bounded(self._app, self._access.stopping, known.left_seconds)

    async def _known(self, request: Request) -> Known | None:
        by_token = await self._access.bearer.known(request)
        return by_token or await self._access.way.known(request)

    def _check_name(self, request: Request) -> None:
        origin = self._hosts.get(request.headers.get("host", "").lower())
        if origin is None:
            raise RefusedRequest(
                421, "the inbox has another name; name this one as `url` in its settings"
            )
        request.state.origin = origin

    def _check_page(self, request: Request) -> None:
        """Let pass what no page of another site has sent to change something."""
        origin = request.headers.get("origin")
        if request.method not in _SAFE and origin is not None and origin not in self._access.own:
            raise RefusedRequest(403, _FORGED)

    def _check_own_page(self, request: Request) -> None:
        """Let pass what a page of the inbox has sent: a browser says so in one way or the other."""
        site = request.headers.get("sec-fetch-site", "same-origin")
        has_said = "origin" in request.headers or "sec-fetch-site" in request.headers
        if site != "same-origin" or not has_said:
            raise RefusedRequest(403, _FORGED)

    async def _stranger(self, request: Request) -> Response:
        """For nobody who is known: sign in, and have lost nothing."""
        if not wants_page(request):
            raise unauthorized(_STRANGER)
        if request.method in _SAFE:
            return RedirectResponse(sign_in_for(asked_for(request)), 303)
        self._check_own_page(request)
        form = await form_of(request) if is_form(request) else None
        return kept_page(request, form, None)

    async def _forged(self, request: Request) -> Response:
        """For somebody who sends what their own pages did not give them."""
        if not (wants_page(request) and is_form(request)):
            raise RefusedRequest(403, _FORGED)
        return kept_page(request, await form_of(request), request.state.person)


@dataclass(frozen=True)
class SignInSetup:
    """How people come in, and where they find the inbox; `link` where there is one."""

    said: InboxSettings
    way: Way
    bearer: Bearer
    link: Link | None


@asynccontextmanager
async def entrance(
    file: Path | None, environ: Mapping[str, str], seal: TextSealer, whose: LinkOwner
) -> AsyncIterator[SignInSetup]:
    """The entrance that the file describes; without `oidc` and `proxy`, a link for `whose` it is.

    Raises:
        SettingsError: the settings cannot be used.
    """
    async with httpx.AsyncClient(timeout=HTTP_TIMEOUT_SECONDS) as http:
        settings = LoadedInboxSettings() if file is None else load(file, environ, http)
        bearer = Bearer(seal, settings.keys)
        link = None if _has_way(settings.said) else Link(seal, whose)
        yield SignInSetup(settings.said, link or _way(settings, seal, http), bearer, link)


def _has_way(said: InboxSettings) -> bool:
    return said.oidc is not None or said.proxy is not None


def _way(settings: LoadedInboxSettings, seal: TextSealer, http: httpx.AsyncClient) -> Way:
    if settings.said.proxy is not None:
        return BehindProxy(seal, settings.said.proxy)
    assert settings.said.oidc is not None  # or there would be a link
    provider = OidcProvider(settings.said.oidc, settings.secret, http)
    return SignIn(seal, settings.said.oidc, provider)

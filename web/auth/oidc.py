"""Sign-in with OpenID Connect.

    page ─► sign in ─► provider ─► callback ─► name, groups ─► session ─► page

It is the authorization code flow with PKCE, state and nonce.
"""

from collections.abc import Mapping
from typing import Any, Final

import httpx
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.runtime.text_safety import one_line
from holdfast.schemas.settings.inbox import Oidc
from holdfast.web.auth.oidc_provider import OidcProvider, PendingSignIn
from holdfast.web.auth.sealed_text import TextSealer
from holdfast.web.auth.sessions import Authentication, Sessions
from holdfast.web.auth.sign_in_pages import (
    HOME,
    SIGN_IN,
    SIGNED_IN,
    failure_page,
    return_path_of,
    sign_in_path,
    sign_out_routes,
)
from holdfast.web.http.refused_request import RefusedRequest

_SAID_CHARS: Final = 200
_ANOTHER: Final = (
    "this sign-in was not started in this browser, took more than ten minutes, or is done already;"
    " sign in again"
)


class OidcSignIn:
    """Signs people in with the provider."""

    def __init__(self, seal: TextSealer, settings: Oidc, provider: OidcProvider) -> None:
        self._seal, self._settings, self._provider = seal, settings, provider
        self._sessions = Sessions(seal, "oidc")
        self.routes = [
            Route(SIGN_IN, self._leave, methods=["GET"]),
            Route(SIGNED_IN, self._back, methods=["GET"]),
            *sign_out_routes(self._sessions),
        ]

    async def authenticate(self, request: Request) -> Authentication | None:
        """Return the sender by the session."""
        return self._sessions.find(request)

    async def _leave(self, request: Request) -> Response:
        going = PendingSignIn.create(return_path_of(request))
        try:
            page = await self._provider.authorization_url(going, _back_to(request))
        except RefusedRequest as refused:
            return self._failed(request, refused, going.return_path)
        answer = RedirectResponse(page, 303)
        going.save(answer, request, self._seal)
        return answer

    async def _back(self, request: Request) -> Response:
        going = PendingSignIn.find(request, request.query_params.get("state", ""), self._seal)
        if going is None:
            return self._failed(request, RefusedRequest(400, _ANOTHER), HOME)
        try:
            answer = await self._signed_in(request, going)
        except RefusedRequest as refused:
            answer = self._failed(request, refused, going.return_path)
        going.forget(answer, request)
        return answer

    async def _signed_in(self, request: Request, going: PendingSignIn) -> Response:
        said = request.query_params
        if said.get("iss", self._settings.issuer) != self._settings.issuer:
            raise RefusedRequest(400, "another provider has sent you back; sign in again")
        if "error" in said:
            why = one_line(said.get("error_description") or said["error"], _SAID_CHARS)
            raise RefusedRequest(403, f"the provider has not signed you in: {why}")
        claims = await self._provider.claims(said.get("code", ""), going, _back_to(request))
        name, groups = _name(claims, self._settings), _groups(claims, self._settings)
        _check_allowed(groups, self._settings)
        answer = RedirectResponse(going.return_path, 303)
        self._sessions.start(answer, request, name, groups)
        return answer

    def _failed(self, request: Request, refused: RefusedRequest, home: str) -> Response:
        at = httpx.URL(self._settings.issuer).host
        return failure_page(request, refused, way="oidc", at=at, again=sign_in_path(home))


def _back_to(request: Request) -> str:
    return f"{request.state.origin}{SIGNED_IN}"


def _name(claims: Mapping[str, Any], settings: Oidc) -> str:
    said = claims.get(settings.name_claim)
    if not isinstance(said, str) or not said:
        todo = "tell who runs the inbox"
        raise RefusedRequest(
            403, f"the provider does not say your name (`{settings.name_claim}`); {todo}"
        )
    if settings.name_claim == "email" and claims.get("email_verified") is False:
        raise RefusedRequest(
            403, "the provider has not seen that your e-mail address is yours; verify it"
        )
    return said


def _groups(claims: Mapping[str, Any], settings: Oidc) -> list[str]:
    """Return the groups of approvers that they decide for."""
    said = claims.get(settings.groups_claim, [])
    theirs = [said] if isinstance(said, str) else said
    if not isinstance(theirs, list) or not all(isinstance(each, str) for each in theirs):
        raise RefusedRequest(
            403, "the provider says your groups as no list of names; tell who runs this"
        )
    if settings.groups is None:
        return theirs
    return [ours for group in theirs for ours in settings.groups.get(group, [])]


def _check_allowed(groups: list[str], settings: Oidc) -> None:
    if settings.allow is not None and set(settings.allow).isdisjoint(groups):
        todo = "ask who runs the inbox to let you in"
        raise RefusedRequest(403, f"you are in none of the groups that come in here; {todo}")

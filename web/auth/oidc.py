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
from holdfast.web.auth.sessions import Sessions, TextSealer
from holdfast.web.auth.sign_in_pages import (
    HOME,
    SIGN_IN,
    SIGNED_IN,
    failure_page,
    return_path_of,
    sign_in_path,
    sign_out_routes,
)
from holdfast.web.http.problems import RefusedRequest

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
        self.authenticate = self._sessions.authenticate
        self.routes = [
            Route(SIGN_IN, self._redirect, methods=["GET"]),
            Route(SIGNED_IN, self._callback, methods=["GET"]),
            *sign_out_routes(self._sessions),
        ]

    async def _redirect(self, request: Request) -> Response:
        """Send the browser to the provider."""
        pending = PendingSignIn.create(return_path_of(request))
        try:
            page = await self._provider.authorization_url(pending, _callback_of(request))
        except RefusedRequest as refused:
            return self._failed(request, refused, pending.return_path)
        answer = RedirectResponse(page, 303)
        pending.save(answer, request, self._seal)
        return answer

    async def _callback(self, request: Request) -> Response:
        """Start the session of the user whom the provider sends back."""
        said, issuer = request.query_params, self._settings.issuer
        pending = PendingSignIn.find(request, said.get("state", ""), self._seal)
        if pending is None:
            return self._failed(request, RefusedRequest(400, _ANOTHER), HOME)
        answer: Response = RedirectResponse(pending.return_path, 303)
        try:
            if said.get("iss", issuer) != issuer:
                raise RefusedRequest(400, "another provider has sent you back; sign in again")
            if "error" in said:
                why = one_line(said.get("error_description") or said["error"], _SAID_CHARS)
                raise RefusedRequest(403, f"the provider has not signed you in: {why}")
            code = said.get("code", "")
            claims = await self._provider.claims(code, pending, _callback_of(request))
            self._sessions.start(answer, request, *identity(claims, self._settings))
        except RefusedRequest as refused:
            answer = self._failed(request, refused, pending.return_path)
        pending.forget(answer, request)
        return answer

    def _failed(self, request: Request, refused: RefusedRequest, home: str) -> Response:
        at = httpx.URL(self._settings.issuer).host
        return failure_page(request, refused, way="oidc", at=at, again=sign_in_path(home))


def _callback_of(request: Request) -> str:
    return f"{request.state.origin}{SIGNED_IN}"


def identity(claims: Mapping[str, Any], settings: Oidc) -> tuple[str, list[str]]:
    """Return the name of a person, and the groups of approvers that they decide for.

    Raises:
        RefusedRequest: a claim is missing or invalid, or no group of theirs may sign in.
    """
    name = claims.get(settings.name_claim)
    if not isinstance(name, str) or not name:
        todo = "tell who runs the inbox"
        raise RefusedRequest(
            403, f"the provider does not say your name (`{settings.name_claim}`); {todo}"
        )
    if settings.name_claim == "email" and claims.get("email_verified") is False:
        raise RefusedRequest(
            403, "the provider has not seen that your e-mail address is yours; verify it"
        )
    said = claims.get(settings.groups_claim, [])
    groups = [said] if isinstance(said, str) else said
    if not isinstance(groups, list) or not all(isinstance(each, str) for each in groups):
        raise RefusedRequest(
            403, "the provider says your groups as no list of names; tell who runs this"
        )
    if settings.groups is not None:
        groups = [ours for group in groups for ours in settings.groups.get(group, [])]
    if settings.allow is not None and set(settings.allow).isdisjoint(groups):
        todo = "ask who runs the inbox to let you in"
        raise RefusedRequest(403, f"you are in none of the groups that come in here; {todo}")
    return name, groups

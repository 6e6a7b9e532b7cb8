"""Callers of the MCP server: whose runs a client may read, and whose answers in it decide.

A client's answers decide only where the operator trusts it to show approvals to a person: over
standard input and output, the operator names that person; over HTTP, the operator lists clients,
and a token names the client and the person. Nothing else in a request makes a client trusted.
"""

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings

from holdfast.client.errors import explain_settings, wrong_command
from holdfast.runtime.identity.key_sets import OPTION, issuer_warnings, load_key_sets
from holdfast.runtime.settings_files.file_problems import FileProblem
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.run import Principal
from holdfast.schemas.settings.keys import KEY_RIGHTS, KeyRight
from holdfast.web.auth.sessions import BearerTokens, Person
from holdfast.web.http.problems import NotPermittedError, RefusedRequest

logger = logging.getLogger("holdfast")


@dataclass(frozen=True)
class Caller:
    """The owner of a request's runs, their principal, and who decides in a trusted client.

    `may` are the rights of the token's key.
    """

    owner: str = ""
    principal: dict[str, Any] | None = None
    approver: Person | None = None
    may: frozenset[str] = KEY_RIGHTS

    def require(self, right: KeyRight) -> None:
        """Raise `NotPermittedError` without this right."""
        if right not in self.may:
            raise NotPermittedError(f"the key of your token has no right to `{right}`")


@asynccontextmanager
async def open_token_callers(
    keys: str, at: str, trusted: Collection[str]
) -> AsyncIterator[tuple["TokenCallers", AuthSettings]]:
    """Return the senders of tokens for the address `at`, and what the server's metadata states.

    Raises:
        HoldfastError: the keys do not load, or no set names the issuer of its tokens.
    """
    async with httpx.AsyncClient() as http:
        with explain_settings("`--keys`"):
            sets = load_key_sets(keys, http)
        for warning in issuer_warnings(sets):
            logger.warning("%s", warning)
        own = [each for each in sets if "inbox" in each.settings.for_]
        unsure = [
            each.name
            for each in own
            if each.settings.person is None and "decide" in (each.settings.may or KEY_RIGHTS)
        ]
        if trusted and unsure:
            reason = "a program's token of a trusted client decides, unless it has a known mark"
            todo = f"write what makes a person, `person: {{claim: …}}`, in {', '.join(unsure)}"
            logger.warning("%s", FileProblem(OPTION, None, reason, todo))
        issuers = [each.settings.issuer for each in own]
        if not any(issuers):
            todo = "name it in a set that is for `inbox`"
            raise wrong_command("`--keys`: no set has the `issuer` of its tokens", todo)
        metadata = {"issuer_url": next(filter(None, issuers)), "resource_server_url": at}
        # The audience is checked with the signature.
        settings = AuthSettings.model_validate({**metadata, "validate_token_resource": False})
        yield TokenCallers(BearerTokens(TextSealer(), sets, at), trusted), settings


class TokenCallers:
    """The senders of tokens; those of `trusted` clients decide."""

    def __init__(self, tokens: BearerTokens, trusted: Collection[str]) -> None:
        self._tokens, self._trusted = tokens, trusted

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what a token states, or None for one that is rejected; the library calls this.

        Raises `RefusedRequest` while its keys are not available.
        """
        try:
            person, claims = await self._tokens.read(token)
        except RefusedRequest as refused:
            if refused.status != 401:
                raise
            logger.warning("an MCP client's token was rejected: %s", refused.sentence)
            return None
        return AccessToken(
            token=token,
            client_id=str(claims.get("client_id", claims.get("azp", ""))),
            scopes=list(person.scopes),
            expires_at=int(claims["exp"]),
            subject=person.name,
            claims={"iss": claims.get("iss"), "person": person},
        )

    def find(self) -> Caller:
        """Return the sender of the current request."""
        token = get_access_token()
        assert token is not None  # no request is handled without one
        person: Person = (token.claims or {})["person"]
        is_trusted = token.client_id in self._trusted and not person.is_program
        decides = is_trusted and "decide" in person.may
        principal = Principal(id=person.name, scopes=token.scopes).to_json()
        return Caller(person.name, principal, person if decides else None, person.may)

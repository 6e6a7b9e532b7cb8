"""Sign-in with OpenID Connect.

    page ─► sign in ─► provider ─► callback ─► name, groups ─► session ─► page
    metadata ─► provider's page ─► code ─► ID token ─► signature, issuer, audience, dates, nonce

It is the authorization code flow with PKCE, state and nonce. The log has the cause of a failure;
the user reads what to do.
"""

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any, Final
from urllib.parse import quote_plus

import httpx
from jwt.utils import base64url_encode
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.runtime.addresses import AddressError, parse_secure_address
from holdfast.runtime.identity.key_matching import matching_key_set
from holdfast.runtime.identity.key_sets import KeysUnavailableError, UrlKeySet
from holdfast.runtime.identity.tokens import InvalidTokenError, SignedToken
from holdfast.runtime.text_safety import one_line
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.settings.inbox import Oidc
from holdfast.schemas.settings.keys import KeySet
from holdfast.web.auth import sessions, sign_in
from holdfast.web.http.path_prefix import root_of
from holdfast.web.http.problems import RefusedRequest, forbidden

SIGN_IN_SECONDS: Final = 600
_KIND: Final = "going"
_STATE_CHARS: Final = 8
MAX_PENDING: Final = 4
MAX_RETURN_CHARS: Final = 500
METADATA: Final = "/.well-known/openid-configuration"
FRESH_SECONDS: Final = 3600
TIMEOUT_SECONDS: Final = 10
MAX_ANSWER_BYTES: Final = 256 * 1024
_SECRET_METHODS: Final = frozenset({"client_secret_basic", "client_secret_post"})
_SAID_CHARS: Final = 200
_AWAY: Final = "the sign-in provider is not available now; try again in a minute"
_NOT_GOOD: Final = (
    "the ID token of the provider is not valid; try again, or contact the operator of the inbox"
)
_OVERAGE: Final = "you are in too many groups, so that the provider sends none; ask the operator"
_OMITTED: Final = "is left out of the token of a member of too many groups: have Entra send fewer"
_ANOTHER: Final = (
    "this sign-in was not started in this browser, took more than ten minutes, or was completed"
    " already; sign in again"
)

logger = logging.getLogger("holdfast")


@dataclass(frozen=True)
class PendingSignIn:
    """A sign-in that was started: the page to return to, and its secrets."""

    return_path: str
    state: str
    nonce: str
    verifier: str

    @classmethod
    def create(cls, home: str) -> "PendingSignIn":
        path = home if len(home) <= MAX_RETURN_CHARS else sign_in.HOME
        return cls(path, *(secrets.token_urlsafe(32) for _ in range(3)))

    def save(self, answer: Response, request: Request, seal: TextSealer) -> None:
        """Store it in a cookie; each tab has its own, and the newest are kept.

        A proxy in front of the inbox accepts some 8 KB of cookies.
        """
        ages = {
            name: opened.seconds_left if (opened := seal.open(_KIND, sealed)) else 0.0
            for name, sealed in sessions.read_cookies(request, f"{_KIND}_").items()
        }
        for name in sorted(ages, key=ages.__getitem__)[: 1 - MAX_PENDING]:
            sessions.delete_cookie(answer, request, name)
        sealed = seal.seal(_KIND, asdict(self), SIGN_IN_SECONDS)
        # The cookie must be sent when the provider's page redirects the browser back.
        sessions.set_cookie(answer, request, _cookie(self.state), sealed, SIGN_IN_SECONDS, "lax")

    @classmethod
    def find(cls, request: Request, state: str, seal: TextSealer) -> "PendingSignIn | None":
        """Return the sign-in with this state, if this browser started it within the time limit."""
        opened = seal.open(_KIND, sessions.read_cookie(request, _cookie(state)))
        if opened is None:
            return None
        found = cls(**opened.values)
        is_its = hmac.compare_digest(found.state.encode(), state.encode("utf-8", "surrogatepass"))
        return found if is_its else None

    def forget(self, answer: Response, request: Request) -> None:
        sessions.delete_cookie(answer, request, _cookie(self.state))


def _cookie(state: str) -> str:
    return f"{_KIND}_{state[:_STATE_CHARS]}"


class Metadata(BaseModel):
    """The metadata of a provider (OpenID Connect Discovery)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: list[str] = ["client_secret_basic"]
    authorization_response_iss_parameter_supported: bool = False


class OidcProvider:
    """The provider of the settings; `secret` is the client secret."""

    def __init__(self, settings: Oidc, secret: str | None, http: httpx.AsyncClient) -> None:
        self._settings, self._secret, self._http = settings, secret, http
        self._known: tuple[Metadata, UrlKeySet] | None = None
        self._known_at = 0.0

    async def authorization_url(self, pending: PendingSignIn, redirect_uri: str) -> str:
        """Return the address of the provider's page."""
        metadata, _ = await self._current()
        digest = hashlib.sha256(pending.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(dict.fromkeys(["openid", *self._settings.scopes])),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": base64url_encode(digest).decode(),
            "code_challenge_method": "S256",
        }
        return str(httpx.URL(metadata.authorization_endpoint).copy_merge_params(query))

    async def check_issuer(self, issuer: str | None) -> None:
        """Check the `iss` of a response (RFC 9207); it may be missing unless metadata announces it.

        Raises:
            RefusedRequest: another provider may have sent it, or this one is not available.
        """
        metadata, _ = await self._current()
        is_required = metadata.authorization_response_iss_parameter_supported
        if not self._is_issuer(issuer) and (is_required or issuer is not None):
            raise RefusedRequest(400, "the response is from another provider; sign in again")

    async def claims(
        self, code: str, pending: PendingSignIn, redirect_uri: str
    ) -> Mapping[str, Any]:
        """Exchange a code and return the checked claims of the ID token.

        Raises:
            RefusedRequest: the ID token is missing or not valid.
        """
        metadata, keys = await self._current()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": pending.verifier,
        }
        methods, client = metadata.token_endpoint_auth_methods_supported, self._settings.client_id
        auth = None
        if not self._secret:
            form["client_id"] = client
        elif _SECRET_METHODS.intersection(methods) == {"client_secret_post"}:
            form |= {"client_id": client, "client_secret": self._secret}
        else:
            # RFC 6749, section 2.3.1: both are form-encoded first.
            auth = httpx.BasicAuth(quote_plus(client), quote_plus(self._secret))
        answer = await self._request("POST", metadata.token_endpoint, data=form, auth=auth)
        id_token = answer.get("id_token")
        if not isinstance(id_token, str):
            about = answer.get("error_description", "")
            why = f"it answers {answer['error']} {about}" if "error" in answer else "no id token"
            raise _refused(403, _NOT_GOOD, why)
        try:
            token = SignedToken.read(id_token)
            await matching_key_set(token, [keys], "inbox")
            if not self._is_issuer(token.claims.get("iss")):
                raise InvalidTokenError("the token is of another issuer (`iss`)")
            _check_recipient(token.claims, pending.nonce, client)
        except InvalidTokenError as error:
            raise _refused(403, _NOT_GOOD, str(error)) from None
        except KeysUnavailableError:
            raise _refused(503, _AWAY, "its keys are not available") from None
        return token.claims

    async def _current(self) -> tuple[Metadata, UrlKeySet]:
        """Return the metadata of the provider and its keys, at most an hour old."""
        if self._known is not None and monotonic() - self._known_at < FRESH_SECONDS:
            return self._known
        issuer = self._settings.issuer
        response = await self._request("GET", f"{issuer.rstrip('/')}{METADATA}")
        try:
            metadata = Metadata.model_validate(response)
            for url in (metadata.authorization_endpoint, metadata.token_endpoint):
                parse_secure_address(url)
            keys_url = parse_secure_address(metadata.jwks_uri)
        except (ValidationError, AddressError) as error:
            raise _refused(503, _AWAY, f"its metadata is not valid: {error}") from None
        if not self._is_issuer(metadata.issuer):
            called = one_line(metadata.issuer, _SAID_CHARS)
            raise _refused(503, _AWAY, f"its `issuer` is {called}: write that as `issuer`")
        if self._known is not None and self._known[1].settings.url == metadata.jwks_uri:
            keys = self._known[1]
        else:
            audience = self._settings.client_id
            settings = KeySet(url=metadata.jwks_uri, audience=audience, for_=["inbox"])
            keys = UrlKeySet("oidc", settings, keys_url, self._http)
        self._known, self._known_at = (metadata, keys), monotonic()
        return self._known

    def _is_issuer(self, named: str | None) -> bool:
        own = self._settings.issuer
        if self._settings.ignore_issuer_slash and named is not None:
            own, named = own.removesuffix("/"), named.removesuffix("/")
        return named == own

    async def _request(self, method: str, url: str, **body: Any) -> dict[str, Any]:
        """Return the JSON that the provider answers with any status: errors are JSON, too."""
        # A compressed response has no known size.
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        read = bytearray()
        try:
            async with (
                asyncio.timeout(TIMEOUT_SECONDS),
                self._http.stream(method, url, headers=headers, **body) as response,
            ):
                async for chunk in response.aiter_raw():
                    read += chunk
                    if len(read) > MAX_ANSWER_BYTES:
                        raise ValueError(f"it has more than {MAX_ANSWER_BYTES} bytes")
            content = json.loads(read)
        except (TimeoutError, httpx.HTTPError) as error:
            why = f"{type(error).__name__} {error}"
            raise _refused(503, _AWAY, f"it cannot be reached: {why}") from None
        except (ValueError, RecursionError) as error:
            raise _refused(503, _AWAY, f"its answer is no JSON: {error}") from None
        if not isinstance(content, dict):
            raise _refused(503, _AWAY, "its answer is no JSON object")
        return content


def _check_recipient(claims: Mapping[str, Any], nonce: str, client: str) -> None:
    """Accept the claims of a token that was made for this sign-in and this client."""
    nonce_bytes = str(claims.get("nonce", "")).encode("utf-8", "surrogatepass")
    if not hmac.compare_digest(nonce_bytes, nonce.encode()):
        raise InvalidTokenError("the token was made for another sign-in (`nonce`)")
    # A token with several audiences must name this client as the authorized party.
    is_shared = isinstance(claims.get("aud"), list) and len(claims["aud"]) > 1
    if claims.get("azp", None if is_shared else client) != client:
        raise InvalidTokenError("the token was made for another client (`azp`)")


def _refused(status: int, sentence: str, why: str) -> RefusedRequest:
    logger.warning("signing in with OpenID Connect: %s", one_line(why, 5 * _SAID_CHARS))
    return RefusedRequest(status, sentence)


class OidcSignIn:
    """Signs people in with the provider."""

    def __init__(self, seal: TextSealer, settings: Oidc, provider: OidcProvider) -> None:
        self._seal, self._settings, self._provider = seal, settings, provider
        self._sessions = sessions.Sessions(seal, "oidc")
        self.authenticate = self._sessions.authenticate
        self.routes = [
            Route(sign_in.SIGN_IN, self._redirect, methods=["GET"]),
            Route(sign_in.SIGNED_IN, self._callback, methods=["GET"]),
            *sign_in.sign_out_routes(self._sessions),
        ]

    async def _redirect(self, request: Request) -> Response:
        pending = PendingSignIn.create(sign_in.return_path_of(request))
        try:
            page = await self._provider.authorization_url(pending, _callback_of(request))
        except RefusedRequest as refused:
            return self._failed(request, refused, pending.return_path)
        answer = RedirectResponse(page, 303)
        pending.save(answer, request, self._seal)
        return answer

    async def _callback(self, request: Request) -> Response:
        query = request.query_params
        pending = PendingSignIn.find(request, query.get("state", ""), self._seal)
        if pending is None:
            return self._failed(request, RefusedRequest(400, _ANOTHER), sign_in.HOME)
        answer: Response = RedirectResponse(pending.return_path, 303)
        try:
            await self._provider.check_issuer(query.get("iss"))
            if "error" in query:
                why = one_line(query.get("error_description") or query["error"], _SAID_CHARS)
                raise forbidden(f"the provider has not signed you in: {why}")
            code = query.get("code", "")
            claims = await self._provider.claims(code, pending, _callback_of(request))
            self._sessions.start(answer, request, *identity(claims, self._settings))
        except RefusedRequest as refused:
            answer = self._failed(request, refused, pending.return_path)
        pending.forget(answer, request)
        return answer

    def _failed(self, request: Request, refused: RefusedRequest, home: str) -> Response:
        at = httpx.URL(self._settings.issuer).host
        return sign_in.failure_page(
            request, refused, way="oidc", at=at, again=sign_in.sign_in_path(home)
        )


def _callback_of(request: Request) -> str:
    return f"{request.state.origin}{root_of(request)}{sign_in.SIGNED_IN}"


def identity(claims: Mapping[str, Any], settings: Oidc) -> tuple[str, list[str]]:
    """Return the name of a person, and the groups of approvers that they decide for.

    Raises:
        RefusedRequest: a claim is missing or invalid, or no group of theirs may sign in.
    """
    name = claims.get(settings.name_claim)
    if not isinstance(name, str) or not name:
        todo = "contact the operator of the inbox"
        raise forbidden(f"the provider does not send your name (`{settings.name_claim}`); {todo}")
    # Some providers write it as a text. Others, which have none, are trusted to check addresses.
    verified = claims.get("email_verified", True)
    if settings.name_claim == "email" and verified is not True and verified != "true":
        raise forbidden("the provider has not verified your e-mail address; verify it there")
    group_claim = claims.get(settings.groups_claim)
    if group_claim is None:
        # Microsoft Entra ID names the claim elsewhere if the person is in more than 200 groups.
        named = claims.get("_claim_names")
        omitted = {*named} if isinstance(named, dict) else set[str]()
        omitted |= {"groups"} if claims.get("hasgroups") in (True, "true") else set()
        if settings.groups_claim in omitted:
            raise _refused(403, _OVERAGE, f"`{settings.groups_claim}` {_OMITTED}")
        group_claim = []
    groups = [group_claim] if isinstance(group_claim, str) else group_claim
    if not isinstance(groups, list) or not all(isinstance(each, str) for each in groups):
        raise forbidden(
            "the provider does not send your groups as a list of names; contact the operator of"
            " the inbox"
        )
    if settings.groups is not None:
        groups = [ours for group in groups for ours in settings.groups.get(group, [])]
    if settings.allow is not None and set(settings.allow).isdisjoint(groups):
        todo = "ask the operator of the inbox for access"
        raise forbidden(f"you are in no group that may use this inbox; {todo}")
    return name, groups

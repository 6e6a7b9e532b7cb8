"""A provider of OpenID Connect: its metadata, and the checked claims of an ID token.

    metadata ─► provider's page ─► code ─► ID token ─► signature, issuer, audience, dates, nonce

The log has the cause of a failure; the user reads what to do.
"""

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlencode

import httpx
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from holdfast.activities.check_token import matching_key_set
from holdfast.runtime.addresses import AddressError, is_loopback, parse_address
from holdfast.runtime.identity.jws import InvalidTokenError, SignedToken
from holdfast.runtime.identity.key_sets import Clock, KeysUnavailableError, UrlKeySet
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.settings.inbox import Oidc
from holdfast.schemas.settings.keys import KeySet
from holdfast.web.auth.sealed_text import TextSealer
from holdfast.web.auth.sessions import delete_cookie, read_cookie, set_cookie
from holdfast.web.http.refused_request import RefusedRequest

SIGN_IN_SECONDS: Final = 600
_KIND: Final = "going"
_STATE_CHARS: Final = 8

METADATA: Final = "/.well-known/openid-configuration"
FRESH_SECONDS: Final = 3600
TIMEOUT_SECONDS: Final = 10
MAX_ANSWER_BYTES: Final = 256 * 1024
_SAID_CHARS: Final = 200
_FORM: Final = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
_AWAY: Final = "the provider that people sign in with cannot be had now; try again in a minute"
_NOT_GOOD: Final = "what the provider says of you is not valid; try again, or tell who runs this"

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
        """Create one with new secrets."""
        return cls(home, *(secrets.token_urlsafe(32) for _ in range(3)))

    def save(self, answer: Response, request: Request, seal: TextSealer) -> None:
        """Store it in a cookie; each tab has its own."""
        sealed = seal.seal(_KIND, asdict(self), SIGN_IN_SECONDS)
        # The cookie must be sent when the provider's page redirects the browser back.
        set_cookie(answer, request, _cookie(self.state), sealed, SIGN_IN_SECONDS, "lax")

    @classmethod
    def find(cls, request: Request, state: str, seal: TextSealer) -> "PendingSignIn | None":
        """Return the sign-in with this state, if this browser started it within the time limit."""
        opened = seal.open(_KIND, read_cookie(request, _cookie(state)) or "")
        if opened is None:
            return None
        going = cls(**opened.values)
        is_its = hmac.compare_digest(going.state.encode(), state.encode("utf-8", "surrogatepass"))
        return going if is_its else None

    def forget(self, answer: Response, request: Request) -> None:
        """Delete its cookie."""
        delete_cookie(answer, request, _cookie(self.state))


def _cookie(state: str) -> str:
    return f"{_KIND}_{state[:_STATE_CHARS]}"


class Metadata(BaseModel):
    """The metadata of a provider (OpenID Connect Discovery)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: list[str] = ["client_secret_basic"]


class OidcProvider:
    """The provider of the settings; `secret` is the client secret."""

    def __init__(
        self,
        settings: Oidc,
        secret: str | None,
        http: httpx.AsyncClient,
        clock: Clock = time.monotonic,
    ) -> None:
        self._settings, self._secret = settings, secret
        self._http, self._clock = http, clock
        self._known: Metadata | None = None
        self._known_at = 0.0
        self._keys: UrlKeySet | None = None

    async def authorization_url(self, pending: PendingSignIn, redirect_uri: str) -> str:
        """Return the address of the provider's page.

        Raises:
            RefusedRequest: the provider is not available.
        """
        metadata = await self._metadata()
        digest = hashlib.sha256(pending.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(dict.fromkeys(["openid", *self._settings.scopes])),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return str(httpx.URL(metadata.authorization_endpoint).copy_merge_params(query))

    async def claims(
        self, code: str, pending: PendingSignIn, redirect_uri: str
    ) -> Mapping[str, Any]:
        """Exchange a code and return the checked claims of the ID token.

        Raises:
            RefusedRequest: the ID token is missing or not valid.
        """
        metadata = await self._metadata()
        answer = await self._exchanged(metadata, code, pending, redirect_uri)
        said = answer.get("id_token")
        if not isinstance(said, str):
            about = answer.get("error_description", "")
            why = f"it answers {answer['error']} {about}" if "error" in answer else "no id token"
            raise _refused(403, _NOT_GOOD, why)
        try:
            return await self._checked(SignedToken.read(said), metadata, pending)
        except InvalidTokenError as error:
            raise _refused(403, _NOT_GOOD, str(error)) from None
        except KeysUnavailableError:
            raise _refused(503, _AWAY, "its keys cannot be had") from None

    async def _checked(
        self, token: SignedToken, metadata: Metadata, going: PendingSignIn
    ) -> Mapping[str, Any]:
        await matching_key_set(token, [self._keys_at(metadata.jwks_uri)], "principals")
        claims = token.claims
        nonce = str(claims.get("nonce", "")).encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(nonce, going.nonce.encode()):
            raise InvalidTokenError("the token was made for another sign-in (`nonce`)")
        # A token with several audiences must name this client as the authorized party.
        is_shared = isinstance(claims.get("aud"), list) and len(claims["aud"]) > 1
        asked = self._settings.client_id
        if claims.get("azp", None if is_shared else asked) != asked:
            raise InvalidTokenError("the token was made for another client (`azp`)")
        return claims

    def _keys_at(self, url: str) -> UrlKeySet:
        if self._keys is None or self._keys.settings.url != url:
            settings = KeySet(
                url=url,
                issuer=self._settings.issuer,
                audience=self._settings.client_id,
                for_=["principals"],
            )
            self._keys = UrlKeySet("oidc", settings, _address(url), self._http, self._clock)
        return self._keys

    async def _exchanged(
        self, metadata: Metadata, code: str, going: PendingSignIn, back: str
    ) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": going.verifier,
        }
        headers = dict(_FORM)
        methods = metadata.token_endpoint_auth_methods_supported
        client = self._settings.client_id
        if not self._secret:
            form["client_id"] = client
        elif "client_secret_basic" not in methods and "client_secret_post" in methods:
            form |= {"client_id": client, "client_secret": self._secret}
        else:
            text = b64encode(f"{client}:{self._secret}".encode()).decode()
            headers["authorization"] = f"Basic {text}"
        return await self._asked("POST", metadata.token_endpoint, headers, urlencode(form))

    async def _metadata(self) -> Metadata:
        if self._known is not None and self._clock() - self._known_at < FRESH_SECONDS:
            return self._known
        issuer = self._settings.issuer
        said = await self._asked("GET", f"{issuer.rstrip('/')}{METADATA}", {}, None)
        try:
            metadata = Metadata.model_validate(said)
            for url in (
                metadata.authorization_endpoint,
                metadata.token_endpoint,
                metadata.jwks_uri,
            ):
                _address(url)
        except (ValidationError, AddressError) as error:
            raise _refused(503, _AWAY, f"what it says of itself is not good: {error}") from None
        if metadata.issuer != issuer:
            called = one_line(metadata.issuer, _SAID_CHARS)
            raise _refused(503, _AWAY, f"it calls itself {called}: write that as `issuer`")
        self._known, self._known_at = metadata, self._clock()
        return metadata

    async def _asked(
        self, method: str, url: str, headers: Mapping[str, str], body: str | None
    ) -> dict[str, Any]:
        """Return the JSON that the provider answers with any status: errors are JSON, too."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                said = json.loads(await self._answer(method, url, headers, body))
        except (TimeoutError, httpx.HTTPError) as error:
            why = f"{type(error).__name__} {error}"
            raise _refused(503, _AWAY, f"it cannot be reached: {why}") from None
        except (ValueError, RecursionError) as error:
            raise _refused(503, _AWAY, f"its answer is no JSON: {error}") from None
        if not isinstance(said, dict):
            raise _refused(503, _AWAY, "its answer is no JSON object")
        return said

    async def _answer(
        self, method: str, url: str, headers: Mapping[str, str], body: str | None
    ) -> bytes:
        sent = {**headers, "accept-encoding": "identity"}  # a compressed response has no known size
        async with self._http.stream(
            method, url, headers=sent, content=body, follow_redirects=False
        ) as response:
            read = bytearray()
            async for chunk in response.aiter_raw():
                read += chunk
                if len(read) > MAX_ANSWER_BYTES:
                    raise ValueError(f"it has more than {MAX_ANSWER_BYTES} bytes")
        return bytes(read)


def _address(text: str) -> httpx.URL:
    """Parse an address with https, or of this machine.

    Raises:
        AddressError: the address is not valid.
    """
    url = parse_address(text)
    if url.scheme == "http" and not is_loopback(url.host):
        raise AddressError(f"`{text}` can be changed on the way", "have it served by https")
    return url


def _refused(status: int, sentence: str, why: str) -> RefusedRequest:
    logger.warning("signing in with OpenID Connect: %s", one_line(why, 5 * _SAID_CHARS))
    return RefusedRequest(status, sentence)

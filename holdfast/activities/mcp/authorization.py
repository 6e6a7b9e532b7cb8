"""Tokens for requests to an MCP server over HTTP: the worker's own, or those of runs' principals.

A request is sent again at most once, with a new token, and only if the server has refused it for
its token (401). The library's flow would do that by itself, but lets all requests to a server wait
for each other: so it runs beside them, on a request that is never sent.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import jwt
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.utils import extract_field_from_www_auth
from mcp.shared.auth import OAuthToken

from holdfast.providers.transport.error_response import shortened
from holdfast.runtime.mcp.errors import ServerUnreachableError, describe
from holdfast.runtime.secrets import Secrets
from holdfast.schemas.settings.servers import ClientAuth

# A call waits for its token, within its own time.
MAX_TOKEN_SECONDS = 10.0
MAX_URL_CHARACTERS = 300
_HEADER = "Authorization"
_ACTS = re.compile(rb'"(tools/call|tasks/update)"')
_TOKEN = re.compile(r"[!-~]+")
_ERROR = re.compile(rb'"error"\s*:\s*"([a-z_]{1,50})"')  # RFC 6749, section 5.2
# The library logs what servers answer, which may be a secret: in full, and if it is no OAuth.
logging.getLogger("mcp.client").setLevel(logging.INFO)
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


class TokenMemory:
    """The tokens in use by connections, removed from everything that leaves the worker."""

    def __init__(self, secrets: Secrets) -> None:
        self.secrets = secrets
        self._of: dict[object, list[str]] = {}

    def keep(self, owner: object, *values: str) -> None:
        """Have tokens of a connection in place of those before its last; none at its end."""
        former = self._of.pop(owner, [])
        if values:
            self._of[owner] = [*values, *former][: 2 * len(values)]
        used = {value for each in self._of.values() for value in each}
        self.secrets.learn(values, forgotten=set(former) - used)


class PrincipalTokens:
    """The tokens of one principal, in a file that is read for each request."""

    def __init__(self, folder: str, principal: str, memory: TokenMemory) -> None:
        self._file, self._memory = Path(folder, quote(principal, safe="")), memory
        self._token = ""

    def authorize(self, request: httpx2.Request) -> None:
        """Add the token that the file has now; raises `ServerUnreachableError`."""
        token = ""
        with suppress(OSError, ValueError):
            token = self._file.read_text(encoding="utf-8").strip()
        if not _TOKEN.fullmatch(token):
            reason = "`principalTokens` has no file with a token of the run's principal"
            raise ServerUnreachableError(reason)
        if token != self._token:
            self._memory.keep(self, token)
            self._token = token
        request.headers[_HEADER] = f"Bearer {token}"

    async def renew(self, request: httpx2.Request, refusal: httpx2.Response, send: Send) -> bool:
        """Return False: another program renews the file."""
        return False


class _Issuer(str):
    """An issuer; one with a slash at its end has the same metadata (RFC 8414, section 3.1)."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.removesuffix("/") == other.removesuffix("/")

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class _BySecret(ClientCredentialsOAuthProvider):
    async def _perform_authorization(self) -> httpx2.Request:
        """Send the secret in the form if the server takes none in a header."""
        metadata, client = self.context.oauth_metadata, self.context.client_info
        known = metadata and metadata.token_endpoint_auth_methods_supported
        if client and known and "client_secret_basic" not in known:
            client.token_endpoint_auth_method = "client_secret_post"
        return await super()._perform_authorization()


class ClientTokens:
    """The worker's own tokens, by the client credentials grant of its authorization server.

    It is the storage of the library's provider, too.
    """

    def __init__(self, url: str, auth: ClientAuth, secret: str, memory: TokenMemory) -> None:
        self._url, self._auth, self._memory = url, auth, memory
        self._authorization: str | None = None
        self._tokens: OAuthToken | None = None
        self._lock = asyncio.Lock()
        storage: Any = self
        client, issuer = auth.client_id, _Issuer(auth.issuer)
        self._provider: ClientCredentialsOAuthProvider | PrivateKeyJWTOAuthProvider
        if auth.private_key_file is None:
            self._provider = _BySecret(url, storage, client, secret, issuer=issuer)
        else:
            signer = SignedJWTParameters(issuer=client, subject=client, signing_key=secret)
            signer.signing_algorithm = _algorithm(secret)
            sign = signer.create_assertion_provider()
            self._provider = PrivateKeyJWTOAuthProvider(url, storage, client, sign, issuer=issuer)
        self._provider._select_authorization_server = (  # type: ignore[method-assign]
            lambda advertised: issuer if issuer in advertised else advertised[0]
        )

    def authorize(self, request: httpx2.Request) -> None:
        """Add the token, as soon as there is one: until then, the server refuses requests."""
        if self._authorization is not None:
            request.headers[_HEADER] = self._authorization

    async def renew(self, request: httpx2.Request, refusal: httpx2.Response, send: Send) -> bool:
        """Request a token after a refusal, and return whether to send the request again with it.

        A server may refuse a call that lacks a scope (403) after a part of it: the next call has
        the scope, and this one is not sent again. `send` sends the requests for a token.

        Raises:
            ServerUnreachableError: there is none.
        """
        is_unread = refusal.status_code == 401
        if not is_unread and extract_field_from_www_auth(refusal, "error") != "insufficient_scope":
            return False
        try:
            async with asyncio.timeout(MAX_TOKEN_SECONDS), self._lock:
                if self._authorization == request.headers.get(_HEADER):
                    await self._request_token(refusal, send)
        except TimeoutError:
            reason = f"{self._auth.issuer} did not answer within {MAX_TOKEN_SECONDS:g} s"
        except (OAuthFlowError, httpx2.InvalidURL, ValueError) as error:
            # Any other error may quote an answer.
            reason = str(error) if type(error) is OAuthFlowError else "an answer does not fit OAuth"
        else:
            self.authorize(request)
            return is_unread or not _ACTS.search(request.content)
        raise ServerUnreachableError(f"no token: {shortened(reason)}")

    async def _request_token(self, refusal: httpx2.Response, send: Send) -> None:
        """Answer the requests of the library's flow, until its own request has a new token."""
        probe = httpx2.Request("POST", self._url, headers=refusal.request.headers)
        former = probe.headers.pop(_HEADER, None)
        async with aclosing(self._provider.async_auth_flow(probe)) as flow:
            outgoing = await anext(flow)
            with suppress(StopAsyncIteration):
                while outgoing is not probe or probe.headers.get(_HEADER) in (None, former):
                    is_own = outgoing is probe
                    answer = refusal if is_own else await self._answer(outgoing, send)
                    outgoing = await flow.asend(answer)
        self._authorization = probe.headers.get(_HEADER)

    async def _answer(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        """Send a request of the flow, to nowhere but the server and the issuer.

        The issuer's own metadata, which are read from it, name the address of its tokens.
        """
        url, issuer = request.url, self._auth.issuer
        known = [_origin(httpx2.URL(each)) for each in (self._url, issuer)]
        is_post = request.method == "POST"
        if _origin(url) not in known and not (is_post and url.scheme == "https"):
            shown = shortened(str(url), MAX_URL_CHARACTERS)
            raise OAuthFlowError(f"{shown} belongs to another authorization server than {issuer}")
        try:
            answer = await send(request)
        except (httpx2.RequestError, ValueError) as error:
            raise OAuthFlowError(f"{url.host} did not answer: {describe(error)}") from None
        # If a token cannot be refreshed, the flow requests another one.
        if is_post and answer.is_error and b"grant_type=refresh_token" not in request.content:
            code = b"".join(_ERROR.findall(answer.content)[:1]).decode()
            reason = f"{issuer} refused the client `{self._auth.client_id}`"
            raise OAuthFlowError(f"{reason}: HTTP {answer.status_code} {code}".rstrip())
        return answer

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens, in memory alone; the library calls this."""
        self._tokens = tokens
        self._memory.keep(self, tokens.access_token, tokens.refresh_token or "")


Tokens = PrincipalTokens | ClientTokens


def _algorithm(pem: str) -> str:
    for name in ("RS256", "ES256", "EdDSA"):
        with suppress(jwt.PyJWTError, ValueError, TypeError, AttributeError):
            jwt.encode({}, pem, name)
            return name
    kinds = "RSA, P-256 or Ed25519, in PEM and without a password"
    raise ServerUnreachableError(f"no token: its `privateKeyFile` holds no private key: {kinds}")


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port

"""Providers of OpenID Connect: one that others have made, and one that a test sets."""

import asyncio
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.web.http.serving import open_listener, server
from tests.support.identity.signing import Approver
from tests.support.inbox import HOST

CLIENT = "inbox"


class Provider:
    """What it answers: its `metadata`, `keys`, and its `answer` to a code; and how often the first
    two were looked at."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.signer = Approver()
        self.keys = [self.signer]
        self.metadata: Any = {
            "issuer": address,
            "authorization_endpoint": f"{address}/authorize",
            "token_endpoint": f"{address}/token",
            "jwks_uri": f"{address}/jwks",
        }
        self.answer: Any = {}
        self.asked: list[dict[str, str]] = []
        self.looks = self.key_looks = 0

    def claims(self, leaving: str, **claims: Any) -> dict[str, Any]:
        """The claims of a good token of a person who has come from `leaving`, unless changed."""
        [nonce] = parse_qs(urlsplit(leaving).query)["nonce"]
        about = {"iss": self.address, "aud": CLIENT, "sub": "ann", "iat": int(time.time())}
        said = {**about, "nonce": nonce, **claims}
        return {name: value for name, value in said.items() if value is not None}

    def answer_with(self, leaving: str, **claims: Any) -> None:
        self.answer = {"id_token": self.signer.token(**self.claims(leaving, **claims))}

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._metadata),
                Route("/jwks", self._jwks),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    async def _metadata(self, request: Request) -> Response:
        self.looks += 1
        return self.metadata if isinstance(self.metadata, Response) else JSONResponse(self.metadata)

    async def _jwks(self, request: Request) -> Response:
        self.key_looks += 1
        return JSONResponse({"keys": [signer.public() for signer in self.keys]})

    async def _token(self, request: Request) -> Response:
        form = await request.form()
        said = {name: str(value) for name, value in form.items()}
        self.asked.append({**said, "authorization": request.headers.get("authorization", "")})
        return self.answer if isinstance(self.answer, Response) else JSONResponse(self.answer)


@contextmanager
def others_provider(name: str, **claims: Any) -> Iterator[str]:
    with warnings.catch_warnings():
        # It uses of its own library what will go.
        warnings.simplefilter("ignore", DeprecationWarning)
        from oidc_provider_mock import User, run_server_in_thread

        known = [User(sub=name, claims=claims)]
        with run_server_in_thread(user_claims=known, require_nonce=True) as serving:
            yield f"http://localhost:{serving.server_port}"


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    with open_listener(HOST, 0) as listening:
        made = Provider(f"http://{HOST}:{listening.getsockname()[1]}")
        serving = server(made.app())
        task = asyncio.create_task(serving.serve([listening]))
        try:
            yield made
        finally:
            serving.should_exit = True
            await task

"""An MCP server that requires tokens, with its authorization server, as an ASGI application."""

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import jwt
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

CLIENT, SECRET = "holdfast", "cs-planted-41e07b9d53"
_RESOURCE = "/.well-known/oauth-protected-resource"
_SERVER = "/.well-known/oauth-authorization-server"


class Guard:
    """Passes requests with a valid token on to `app`.

    `tokens` are valid, `lost` is where accepted calls have no answer, and `scope` is what they
    need. `received` are the tokens of requests for tools' calls, `grants` the forms of requests
    for tokens.
    """

    def __init__(self, app: Callable[..., Any], public_key: Any = None) -> None:
        self.app, self.public_key = app, public_key
        self.metadata: dict[str, str] = {}  # `resource`, `issuer`, `listed`, if not the true ones
        self.tokens: dict[str, str] = {}  # with their scopes
        self.scope = "read"
        self.is_deaf = False
        self.received: list[str] = []
        self.grants: list[dict[str, str]] = []
        self.refresh = "rt-planted-9c2f6e18a4"
        self.expires_in = 3600
        self.methods = ["client_secret_basic"]
        self.is_closed = False  # it issues no more tokens, and calls need a new one
        self.is_silent = False  # it takes requests for tokens, and answers none
        self.all: list[str] = []  # tokens ever

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        root = f"{request.url.scheme}://{request.url.netloc}"
        issuer = self.metadata.get("issuer", root)
        answer: Response
        match request.url.path:
            case "/mcp":
                await self._guard(request, root, send)
                return
            case path if path.startswith(_RESOURCE):
                resource = self.metadata.get("resource", f"{root}/mcp")
                listed = [self.metadata.get("listed", issuer)]
                body: Any = {"resource": resource, "authorization_servers": listed}
                answer = JSONResponse(body)
            case path if path == _SERVER:
                at = {"authorization_endpoint": f"{root}/authorize"}
                methods = {"token_endpoint_auth_methods_supported": self.methods}
                known = {"issuer": issuer, "token_endpoint": f"{root}/token"}
                answer = JSONResponse({**known, **at, **methods})
            case "/token":
                answer = await self._grant(request, root)
            case _:
                answer = JSONResponse({}, 404)
        await answer(scope, receive, send)

    async def _guard(self, request: Request, root: str, send: Any) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        is_call = request.headers.get("mcp-method") == "tools/call"
        if is_call:
            self.received.append(token)
        challenge = f'Bearer resource_metadata="{root}{_RESOURCE}/mcp"'
        refusal: Response | None = None
        if token not in self.tokens or (is_call and self.is_closed):
            refusal = Response(status_code=401, headers={"WWW-Authenticate": challenge})
        elif is_call and self.scope not in self.tokens[token].split():
            challenge += f', error="insufficient_scope", scope="{self.scope}"'
            refusal = Response(status_code=403, headers={"WWW-Authenticate": challenge})
        if refusal is not None:
            await refusal(request.scope, request.receive, send)
            return

        async def lose(message: Any) -> None:
            if message["type"] == "http.response.start":
                await Response(status_code=502)(request.scope, request.receive, send)

        await self.app(request.scope, request.receive, lose if is_call and self.is_deaf else send)

    async def _grant(self, request: Request, issuer: str) -> Response:
        form = {key: value[0] for key, value in parse_qs((await request.body()).decode()).items()}
        self.grants.append(form)
        if self.is_silent:
            await request.receive()  # the client's disconnect
        if self.is_closed or not self._is_client(
            form, request.headers.get("authorization", ""), issuer
        ):
            return JSONResponse({"error": "invalid_client", "error_description": SECRET}, 401)
        token = f"at-planted-{len(self.grants)}-b7d05e1f"
        self.all.append(token)
        self.tokens[token] = form.get("scope") or "read"
        more = {"refresh_token": self.refresh, "expires_in": self.expires_in}
        return JSONResponse({"access_token": token, "token_type": "Bearer", **more})

    def _is_client(self, form: dict[str, str], header: str, issuer: str) -> bool:
        if form["grant_type"] == "refresh_token":
            return form["refresh_token"] == self.refresh
        if "client_assertion" in form:
            try:
                claims = jwt.decode(
                    form["client_assertion"],
                    self.public_key,
                    algorithms=["RS256", "ES256", "EdDSA"],
                    audience=[issuer, f"{issuer}/"],
                )
            except jwt.InvalidTokenError:
                return False
            return bool(claims["iss"] == claims["sub"] == CLIENT)
        if self.methods == ["client_secret_post"]:
            return not header and (form["client_id"], form["client_secret"]) == (CLIENT, SECRET)
        return header == f"Basic {_basic(CLIENT, SECRET)}"


def _basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()

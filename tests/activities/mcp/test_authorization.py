"""Tokens for MCP servers: requested, renewed, and those of principals."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

from holdfast.activities.mcp import authorization
from holdfast.activities.mcp import servers as servers_module
from holdfast.activities.mcp.servers import McpServers
from holdfast.runtime.mcp.errors import ServerUnreachableError
from holdfast.runtime.secrets import Secrets
from holdfast.schemas import names
from holdfast.schemas.settings.servers import Server
from holdfast.schemas.tool import McpCall
from tests.activities.mcp.conftest import serving
from tests.activities.mcp.servers import shop
from tests.activities.mcp.servers.guard import CLIENT, SECRET, Guard
from tests.support.eventually import eventually

ENVIRON = {"SHOP_SECRET": SECRET, "OTHER_SECRET": "cs-wrong-5d1c", "LISTING": "Bearer lister"}


class Home:
    """The servers of one worker, with the server `shop` behind a guard."""

    def __init__(self, servers: McpServers, guard: Guard, url: str, secrets: Secrets) -> None:
        self.servers, self.guard, self.url, self.secrets = servers, guard, url, secrets

    async def call(self, order: str, principal: str | None = None, tool: str = "refund") -> str:
        call = McpCall(idempotency_key=f"run/{order}", principal=principal)
        meta: Any = {names.MCP_IDEMPOTENCY_KEY: call.idempotency_key}
        params = CallToolRequestParams(name=tool, arguments={"order_id": order}, meta=meta)

        async def send(client: Client) -> CallToolResult:
            return await client.session.send_request(CallToolRequest(params=params), CallToolResult)

        return str(await self.servers.request("shop", call, 30, send))


@asynccontextmanager
async def opened(
    guard: Guard, protocol: str = "auto", slash: str = "", **auth: Any
) -> AsyncIterator[Home]:
    """A worker's servers, with `auth` as the server's; an issuer is the guard's own."""
    async with serving(guard) as url:
        written: dict[str, Any] = {"url": url, "protocol": protocol}
        if "principal_tokens" in auth:
            written |= {**auth, "headers_env": {"Authorization": "LISTING"}}
        else:
            issuer = url.removesuffix("/mcp") + slash
            written["auth"] = {"issuer": issuer, "client_id": CLIENT, **auth}
        server, secrets = Server.model_validate(written), Secrets()
        servers = McpServers({"shop": server}, ENVIRON, secrets)
        async with servers.running():
            yield Home(servers, guard, url, secrets)


@pytest.fixture
def guard() -> Guard:
    return Guard(shop.shop.streamable_http_app())


async def test_a_token_is_requested_and_renewed(guard: Guard) -> None:
    full, short = "client_credentials", "refresh_token"
    async with opened(guard, client_secret_env="SHOP_SECRET") as home:
        assert "refunded a1" in await home.call("a1")
        guard.tokens.clear()
        guard.expires_in = -1
        assert "refunded a2" in await home.call("a2")
        assert guard.grants[0]["resource"] == home.url
        # The server has received the second call twice, and refused it once.
        assert guard.received == ["at-planted-1-b7d05e1f"] * 2 + ["at-planted-2-b7d05e1f"]
        assert [each for each in shop.effects() if " a" in each] == [
            "refund a1 run/a1",
            "refund a2 run/a2",
        ]
        for token in (*guard.tokens, guard.refresh):
            assert home.secrets.clean(f"it is {token}") == "it is [secret]"
        for order, guard.refresh, guard.expires_in in (
            ("a3", "rt-planted-another-7", -1),  # the one before is refused
            ("a4", "rt-planted-another-7", 60),
        ):
            guard.tokens.clear()
            assert f"refunded {order}" in await home.call(order)
        assert [each["grant_type"] for each in guard.grants] == [full, full, short, full, short]


async def test_a_secret_is_sent_in_the_form_if_no_header_is_accepted(guard: Guard) -> None:
    guard.methods = ["client_secret_post"]
    async with opened(guard, client_secret_env="SHOP_SECRET") as home:
        assert "refunded post" in await home.call("post")


@pytest.mark.parametrize("slashes", ["/..", "./.", "../", "//.", "/./", ".//"])
async def test_the_slash_at_the_end_of_an_issuer_is_ignored(guard: Guard, slashes: str) -> None:
    own, listed, issuer = (each.strip(".") for each in slashes)
    async with opened(guard, client_secret_env="SHOP_SECRET", slash=own) as home:
        written = home.url.removesuffix("/mcp")
        guard.metadata = {"listed": written + listed, "issuer": written + issuer}
        assert "refunded slash" in await home.call("slash")


KEYS: dict[str, Any] = {
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


@pytest.mark.parametrize("kind", KEYS)
async def test_a_private_key_proves_the_client(guard: Guard, tmp_path: Path, kind: str) -> None:
    key = KEYS[kind]()
    guard.public_key, file = key.public_key(), tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    async with opened(guard, private_key_file=str(file)) as home:
        assert f"refunded {kind}" in await home.call(kind)
        line = file.read_text().splitlines()[1]
        assert home.secrets.clean(line) == "[secret]"


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_calls_do_not_wait_for_each_other(protocol: str) -> None:
    made, both = MCPServer("meeting"), asyncio.Barrier(2)

    @made.tool(structured_output=False)
    async def refund(order_id: str) -> str:
        await both.wait()
        return f"met {order_id}"

    guard = Guard(made.streamable_http_app())
    async with opened(guard, protocol, client_secret_env="SHOP_SECRET") as home:
        met = await asyncio.gather(home.call("b1"), home.call("b2"))
    assert "met b1" in met[0]
    assert "met b2" in met[1]
    assert len(guard.grants) == 1


async def test_a_call_that_was_accepted_is_not_sent_again(guard: Guard) -> None:
    """Also where it was refused before, and where it is refused since it lacks a scope."""
    async with opened(guard, client_secret_env="SHOP_SECRET") as home:
        await home.servers.list_tools(["shop"])
        guard.tokens.clear()
        guard.is_deaf = True
        with pytest.raises(ConnectionResetError, match="HTTP 502"):
            await home.call("c1")
        assert len(guard.received) == 2
        assert [each for each in shop.effects() if " c1 " in each] == ["refund c1 run/c1"]
        guard.is_deaf, guard.scope = False, "write"
        with pytest.raises(ServerUnreachableError, match="HTTP 403"):
            await home.call("c2")
        assert len(guard.received) == 3
        assert "refunded c3" in await home.call("c3")  # with the scope
    assert guard.grants[-1]["scope"] == "write"


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "secret": (
        {"client_secret_env": "OTHER_SECRET"},
        {},
        "no token: {issuer} refused the client `holdfast`: HTTP 401 invalid_client",
    ),
    "variable": (
        {"client_secret_env": "NO_SECRET"},
        {},
        "the environment variable NO_SECRET is not set",
    ),
    "key file": (
        {"private_key_file": "/nowhere.pem"},
        {},
        "its `privateKeyFile` cannot be read",
    ),
    "key": (
        {"private_key_file": __file__},
        {},
        "no token: its `privateKeyFile` holds no private key: RSA, P-256 or Ed25519",
    ),
    "another issuer": (
        {"client_secret_env": "SHOP_SECRET"},
        {"issuer": "http://127.0.0.1:1"},
        "no token: http://127.0.0.1:1/.well-known/oauth-authorization-server"
        " belongs to another authorization server than {issuer}",
    ),
    "issuer of the metadata": (
        {"client_secret_env": "SHOP_SECRET", "issuer": "http://127.0.0.1:1"},
        {},
        "no token: Authorization server metadata issuer mismatch",
    ),
    "resource": (
        {"client_secret_env": "SHOP_SECRET"},
        {"resource": "https://other.example/mcp"},
        "no token: Protected resource https://other.example/mcp does not match expected {url}",
    ),
    "silent issuer": (
        {"client_secret_env": "SHOP_SECRET", "issuer": "http://127.0.0.1:1"},
        {"issuer": "http://127.0.0.1:1"},
        "no token: 127.0.0.1 did not answer: All connection attempts failed",
    ),
}


@pytest.mark.parametrize("case", WRONG)
async def test_an_unavailable_token_has_one_line(
    guard: Guard, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    auth, guard.metadata, text = WRONG[case]
    async with opened(guard, **auth) as home:
        with pytest.raises(ServerUnreachableError) as failed:
            await home.call("never")
    issuer = home.url.removesuffix("/mcp")
    assert text.format(issuer=issuer, url=home.url) in str(failed.value)
    assert "never" not in str(shop.effects())
    assert SECRET not in str(failed.value)
    assert "Traceback" not in caplog.text


async def test_a_silent_authorization_server_makes_no_unknown_outcome(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(guard, client_secret_env="SHOP_SECRET") as home:
        await home.servers.list_tools(["shop"])
        guard.tokens.clear()
        guard.is_silent = True
        with monkeypatch.context() as patch:
            patch.setattr(authorization, "MAX_TOKEN_SECONDS", 0.3)
            with pytest.raises(ServerUnreachableError, match="did not answer within"):
                await home.call("silent")
        guard.is_silent = False
        assert "refunded spoken" in await home.call("spoken")
    assert "silent" not in str(shop.effects())


async def test_a_call_carries_the_token_of_its_principal(guard: Guard, tmp_path: Path) -> None:
    guard.tokens = {"lister": "read", **{f"pt-{name}-1": "read" for name in ("ann", "bob", "ann2")}}
    (tmp_path / "ann").write_text("pt-ann-1\n")
    (tmp_path / "b%2Fob%40acme").write_text("pt-bob-1")
    async with opened(guard, principal_tokens=str(tmp_path)) as home:
        assert len((await home.servers.list_tools(["shop"]))["shop"]) > 1  # with the headers' own
        await home.call("d1", "ann")
        await home.call("d2", "b/ob@acme")
        (tmp_path / "ann").write_text("pt-ann2-1")
        await home.call("d3", "ann")
        assert guard.received == ["pt-ann-1", "pt-bob-1", "pt-ann2-1"]
        for principal in ("eve", "..", "../ann", ""):
            with pytest.raises(ServerUnreachableError, match="no file with a token"):
                await home.call("d4", principal)
        with pytest.raises(ServerUnreachableError, match="the run acts for none"):
            await home.call("d4")
        assert len(guard.received) == 3
        assert home.secrets.clean("pt-ann2-1 pt-bob-1") == "[secret] [secret]"


async def test_principals_have_a_bounded_number_of_connections(
    guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers_module, "MAX_PRINCIPALS", 1)
    for name in ("ann", "bob", "cid"):
        (tmp_path / name).write_text(f"pt-{name}-1")
        guard.tokens[f"pt-{name}-1"] = "read"
    async with opened(guard, principal_tokens=str(tmp_path)) as home:
        for name in ("ann", "bob", "ann", "cid"):
            assert "refunded e" in await home.call("e", name)

        async def forgotten() -> bool:
            return home.secrets.clean("pt-bob-1") == "pt-bob-1"

        await eventually(forgotten)
        assert home.secrets.clean("pt-ann-1 pt-cid-1") == "[secret] [secret]"

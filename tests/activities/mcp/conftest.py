"""MCP servers of a test, over HTTP on loopback and as programs, and workers with them."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from temporalio.client import Client

from tests.activities.mcp.servers import shop
from tests.support.backend import Backend, backend
from tests.support.model_server import Answer

TOKEN = "sk-planted-8f3a91c2d7e64b05"
FREE = ("draw", "fail", "pid", "survey")
STDIO: dict[str, Any] = {
    "command": sys.executable,
    "args": [shop.__file__],
    "envFrom": [shop.TOKEN, shop.LEDGER],
    "overrides": {name: {"_sideEffects": False} for name in FREE},
}
App = Callable[..., Any]
# A worker with this server, `shop`, and a model that gives the answers.
Open = Callable[..., AbstractAsyncContextManager[Backend]]


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of the module's files; the environment names the ledger and a token."""
    folder = tmp_path_factory.mktemp("mcp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(shop.LEDGER, str(folder / "effects"))
        patch.setenv(shop.TOKEN, TOKEN)
        yield folder


@pytest.fixture(scope="module")
def open_worker(folder: Path, client: Client, forking: str) -> Open:
    """Return a function that starts a worker."""

    @asynccontextmanager
    async def open_(
        server: dict[str, Any], answers: list[Answer] | None = None, **more: Any
    ) -> AsyncIterator[Backend]:
        file = folder / "servers.yaml"
        # The library of MCP takes most of a second to import.
        program = {"command": forking} if server.get("command") == sys.executable else {}
        file.write_text(yaml.safe_dump({"shop": {**server, **program}}))
        settings = {"servers": file, "cached_runs": 10, **more}
        async with backend(client, folder, answers or [Answer("done")], **settings) as made:
            yield made

    return open_


@asynccontextmanager
async def serving(app: App) -> AsyncIterator[str]:
    """Serve an ASGI application on loopback; its address."""
    with socket.socket() as at:
        at.bind(("127.0.0.1", 0))
        at.listen()  # who connects before it serves waits for it
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[at]))
        try:
            yield f"http://127.0.0.1:{at.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await task

"""The server that the suite tests: its fixture tools as tools of a catalog, on a worker.

The suite sends no tokens, so everything that reaches the server is of a client that is trusted.
"""

import asyncio
import logging
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from bench.server import embedded
from holdfast.catalog.loader import load_catalog
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.web.auth.sessions import Person
from holdfast.web.mcp.callers import Caller
from holdfast.web.mcp.offered_tools import offered_tools
from holdfast.web.mcp.server import McpHandlers
from holdfast.web.services import Services
from tests.support.backend import backend

DESK = Path(__file__).with_name("desk")
TOOLS = str(DESK / "fixtures.py")
TRUSTED = Caller(approver=Person("suite"))


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    """Serve the fixtures on loopback; the address."""
    logging.disable()  # calls fail on purpose
    catalog = load_catalog(DESK, [TOOLS], endpoints=None, read_definition=activity_definition)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        temporal = await stack.enter_async_context(embedded())
        more: dict[str, Any] = {"catalog": DESK, "tools": [TOOLS], "cached_runs": 100}
        worker = backend(temporal.client, folder, [], **more)
        desk = await stack.enter_async_context(worker)
        services = Services(HoldfastClient(desk.client, desk.task_queue))
        handlers = McpHandlers(services, offered_tools(catalog), lambda: TRUSTED)
        server = handlers.server("1", [os.urandom(32)])
        with socket.socket() as at:
            at.bind(("127.0.0.1", 0))
            port = at.getsockname()[1]
            own = [f"127.0.0.1:{port}", f"localhost:{port}"]
            allowed = TransportSecuritySettings(
                allowed_hosts=own, allowed_origins=[f"http://{each}" for each in own]
            )
            app = server.streamable_http_app(stateless_http=True, transport_security=allowed)
            served = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
            task = asyncio.create_task(served.serve(sockets=[at]))
            try:
                yield f"http://localhost:{port}/mcp"
            finally:
                served.should_exit = True
                await task

"""A worker with two agents, and MCP clients of servers for it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as McpClient
from mcp_types import CallToolResult, TextContent
from temporalio.client import Client

from holdfast.catalog.loader import Catalog, load_catalog
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.web.mcp.callers import Caller
from holdfast.web.mcp.offered_tools import offered_tools
from holdfast.web.mcp.server import McpHandlers
from holdfast.web.services import Services
from tests.support import tools
from tests.support.backend import TOOLS, Backend, Run, backend
from tests.support.model_server import Answer, call

KEYS = [b"1" * 32]
LOCAL = Caller()
INBOX = "https://inbox.example"
PAYS = [Answer(calls=[call("pay", amount=5)]), Answer("Paid.")]
MODEL = "instructions: Pay.\nmodel: {endpoint: fake, name: fake}\ntools: [pay]\n"
TELLER = """\
description: Pays a sum.
input: {type: object, properties: {sum: {type: number}}, required: [sum]}
output:
  type: object
  properties: {paid: {$ref: "#/$defs/money"}}
  $defs: {money: {type: number}}
calls: [{_tool: pay, amount: †input.sum}]
"""
SPEND = """\
_activity: pay
_sideEffects: true
_approval: {approvers: [finance]}
properties: {amount: {type: number}}
"""
PERSON = """\
description: Have a person choose a size.
_person: true
_output:
  type: object
  properties: {size: {type: string, enum: [s, m], pattern: "[a-z]"}, count: {type: integer}}
  required: [size]
"""

# An MCP client of a server for the worker.
Open = Callable[..., AbstractAsyncContextManager[McpClient]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalog, with the ledger of effects."""
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "agents").mkdir()
    (folder / "agents" / "clerk.yaml").write_text(MODEL)
    (folder / "agents" / "teller.yaml").write_text(TELLER)
    (folder / "agents" / "wait_run.yaml").write_text(MODEL)
    halts = "output: {type: object}\ncalls: [{_tool: stops}]\n"
    (folder / "agents" / "halts.yaml").write_text(halts)
    (folder / "tools").mkdir()
    (folder / "tools" / "choose.yaml").write_text(PERSON)
    (folder / "tools" / "errand.yaml").write_text("_delegate: clerk\n")
    (folder / "tools" / "spend.yaml").write_text(SPEND)
    return folder


@pytest.fixture(scope="module")
async def desk(client: Client, folder: Path) -> AsyncIterator[Backend]:
    """A worker with the catalog."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(tools.LEDGER, str(folder / "ledger"))
        async with backend(client, folder, PAYS, catalog=folder, cached_runs=100) as made:
            yield made


@pytest.fixture(scope="module")
def catalog(folder: Path) -> Catalog:
    """The catalog, as the server reads it."""
    return load_catalog(folder, [str(TOOLS)], endpoints=None, read_definition=activity_definition)


@pytest.fixture(scope="module")
def open_client(desk: Backend, catalog: Catalog) -> Open:
    """Return a function that connects a client with a server of its own, in this process."""

    @asynccontextmanager
    async def open_(caller: Caller = LOCAL, **options: Any) -> AsyncIterator[McpClient]:
        services = Services(HoldfastClient(desk.client, desk.task_queue))
        handlers = McpHandlers(services, offered_tools(catalog), lambda: caller, INBOX)
        async with McpClient(handlers.server("1", KEYS), **options) as made:
            yield made

    return open_


def run_of(desk: Backend, result: Any) -> Run:
    """The run of a result."""
    return Run(desk.client.get_workflow_handle(run_id(result)), desk.client)


def run_id(result: Any) -> str:
    """The id of the run of a result."""
    found: str = result.meta["dev.holdfast/run"]
    return found


def text(result: CallToolResult) -> str:
    """The text of a result."""
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent))

"""What MCP clients accept and send: names, schemas, spellings, requests that cannot be parsed."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as McpClient
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from holdfast.catalog.loader import load_catalog
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.web.mcp import offered_tools, run_results
from holdfast.web.mcp.server import McpHandlers, accepting, parsed_messages
from holdfast.web.services import Services
from tests.support.backend import TOOLS, Backend
from tests.web.mcp.conftest import KEYS, LOCAL, run_id, text

TOOL = "_activity: echo\n_sideEffects: false\nproperties: {x: {type: string}, y: {type: array}}\n"
AT_TOP = {"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const", "$ref"}
AGENT = "instructions: Pay.\nmodel: {endpoint: fake, name: fake}\n"


def test_names_and_schemas_are_those_that_every_model_takes(tmp_path: Path) -> None:
    """Clients send them to their model's provider as they are."""
    files = {
        "tools/dotted.yaml": f"_tool: rag.query.v2\n{TOOL}",
        "tools/plain.yaml": f"_tool: rag_query_v2\n{TOOL}",
        "tools/long.yaml": f"_tool: {'a' * 120}\n{TOOL}anyOf: [{{required: [x]}}]\n",
        "tools/cond.yaml": f"{TOOL}if: {{required: [x]}}\nthen: {{required: [y]}}\n",
        "agents/Ask.Me.yaml": AGENT,
        "agents/wait_run.yaml": f"{AGENT}input: {{type: object, oneOf: [{{required: [a]}}]}}\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    catalog = load_catalog(
        tmp_path, [str(TOOLS)], endpoints=None, read_definition=activity_definition
    )
    found = offered_tools.offered_tools(catalog)
    own = {each.definition.name: name for name, each in found.items()}
    assert own.keys() >= {"rag.query.v2", "rag_query_v2", "Ask.Me", "cond", "wait_run", "a" * 120}
    for name, each in found.items():
        assert name == each.listed.name
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)
        schema = each.listed.input_schema
        assert (schema["type"], AT_TOP & schema.keys()) == ("object", set()), name
    cond = found["cond"].listed
    assert '{"if": {"required": ["x"]}' in (cond.description or "")
    assert cond.input_schema["properties"]["y"]["items"] == {}


class StandardStreams:
    """The two directions of a standard input and output."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.sent = lines, list[Any]()

    async def read(self) -> AsyncIterator[Any]:
        for line in self.lines:
            try:
                yield SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValidationError as problem:
                yield problem

    async def send(self, item: SessionMessage) -> None:
        assert isinstance(item.message, JSONRPCError)
        self.sent.append((item.message.id, item.message.error.code))


async def test_a_request_that_cannot_be_parsed_has_an_answer() -> None:
    ping = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    wire = StandardStreams(
        *(ping, "hello world\n", "\n", f"[{ping}]\n"),
        *('{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": 5}', '{"id": "a"}'),
        r'{"jsonrpc": "2.0", "id": 8, "method": "ping", "params": {"x": "\ud83d"}}',
    )
    messages = [each async for each in parsed_messages(wire.read(), wire)]
    assert len(messages) == 1
    assert wire.sent == [(None, -32700), (None, -32600), (7, -32600), ("a", -32600), (8, -32600)]


async def test_a_path_may_end_with_a_slash_and_media_types_are_of_any_case() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["path"], scope["headers"]))

    headers = [(b"content-type", b"Application/JSON"), (b"authorization", b"Bearer A")]
    for path in ("/mcp/", "/mcp", "/"):
        await accepting(app)({"type": "http", "path": path, "headers": headers}, app, app)  # type: ignore[arg-type]
    lower = [(b"content-type", b"application/json"), (b"authorization", b"Bearer A")]
    assert seen == [("/mcp", lower), ("/mcp", lower), ("/", lower)]


async def test_a_run_without_a_worker_names_its_task_queue(
    desk: Backend, catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offered_tools, "MAX_WAIT_SECONDS", 0.2)
    monkeypatch.setattr(run_results, "_STATE_SECONDS", 0.2)
    services = Services(HoldfastClient(desk.client, "nobody-here"))
    handlers = McpHandlers(services, offered_tools.offered_tools(catalog), lambda: LOCAL)
    async with McpClient(handlers.server("1", KEYS)) as mcp:
        result = await mcp.call_tool("echo", {"text": "a"})
        shown = await mcp.call_tool("show_run", {"run": run_id(result)})
    for each in (result, shown):
        assert "no worker answers queries on task queue nobody-here; start one" in text(each)

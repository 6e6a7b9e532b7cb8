"""Servers that flood a worker, hang, or write to its terminal."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from mcp import MCPError
from mcp.client.streamable_http import StreamableHTTPTransport
from mcp.shared._context_streams import create_context_streams

from holdfast.activities.mcp import call_tool, http_client, servers
from holdfast.activities.mcp.http_client import McpHttpClient
from holdfast.activities.mcp.servers import McpServers
from holdfast.catalog.mcp_tools import ListedTool, lock_problems
from holdfast.runtime.secrets import Secrets
from holdfast.runtime.settings_files.file_problems import FileProblem


async def test_an_answer_is_measured_as_it_unpacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_ANSWER_BYTES", 100_000)

    def answer(request: httpx2.Request) -> httpx2.Response:
        packed = gzip.compress(b'"jsonrpc"' + b"0" * json.loads(request.content)["zeros"])
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        return httpx2.Response(200, headers=headers, content=packed)

    transport = httpx2.MockTransport(answer)
    async with McpHttpClient(transport=transport) as http:
        http.is_open = True
        small = await http.post("http://shop.example", json={"zeros": 9})
        assert small.content == b'"jsonrpc"' + b"0" * 9
        large = await http.post("http://shop.example", json={"zeros": 100_000})
        assert "more than 100000 bytes" in large.json()["error"]["message"]


async def test_a_server_that_ends_its_stream_at_once_is_sent_one_request_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, gets = [100.0], list[float]()

    async def sleep(seconds: float) -> None:
        now[0] += max(seconds, 0)

    def answer(request: httpx2.Request) -> httpx2.Response:
        gets.append(now[0])
        headers = {"content-type": "text/event-stream"}
        status = 200 if len(gets) < 5 else 405  # the library stops after two refusals
        return httpx2.Response(status, headers=headers, text="id: 1\nretry: 0\ndata:\n\n")

    monkeypatch.setattr(http_client, "sleep", sleep)
    monkeypatch.setattr(http_client, "monotonic", lambda: now[0])
    library = StreamableHTTPTransport("http://shop.example")
    library.session_id = "s"
    transport, (send, receive) = httpx2.MockTransport(answer), create_context_streams[Any](1)
    async with McpHttpClient(transport=transport) as http, send, receive:
        await library.handle_get_stream(http, send)
    assert gets == [100, 101, 102, 103, 104, 105]


def test_an_interval_that_is_no_number_is_none() -> None:
    made = call_tool.TaskResult(result_type="task", task_id="t", poll_interval_ms=float("nan"))
    assert made.task.poll_ms == 0


async def test_a_listing_that_hangs_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "MAX_LISTING_SECONDS", 0.01)
    replies: list[Callable[[], Awaitable[list[Any]]]] = [asyncio.Event().wait]  # type: ignore[list-item]

    async def request(self: McpServers, at: Any, send: Any) -> list[Any]:
        return await replies.pop()() if replies else []

    monkeypatch.setattr(McpServers, "_request", request)
    shop = McpServers({}, {}, Secrets([]))
    async with shop.running():
        expected = "MCP server `shop`: it did not answer within 0.01 s"
        assert await shop.list_tools(["shop"]) == {"shop": expected}
        assert await shop.list_tools(["shop"]) == {"shop": []}


async def test_what_a_server_writes_moves_no_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    async def request(self: McpServers, at: Any, send: Any) -> list[Any]:
        raise MCPError(-1, "\x1b[2Jall \x9b1mlocked" + "!" * 5_000)

    monkeypatch.setattr(McpServers, "_request", request)
    shop = McpServers({}, {}, Secrets([]))
    async with shop.running():
        reason = str((await shop.list_tools(["shop"]))["shop"])
    assert reason.startswith("MCP server `shop`: all locked!!!")
    assert len(reason) < 1_100
    unlocked = lock_problems("shop", [ListedTool("pay\x1b[2J\u202e")], {})["pay\x1b[2J\u202e"]
    shown = str(FileProblem("mcp.lock.json", None, unlocked.reason, unlocked.fix))
    assert "tool `pay` is not locked" in shown

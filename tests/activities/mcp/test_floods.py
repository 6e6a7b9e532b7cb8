"""Servers that flood a worker, or hang, in one process."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from holdfast.activities.mcp import http_client, server_tasks, servers
from holdfast.activities.mcp.http_client import McpHttpClient
from holdfast.activities.mcp.servers import McpServers
from holdfast.runtime.secrets import Secrets


async def test_an_answer_is_measured_as_it_unpacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_ANSWER_BYTES", 100_000)

    def answer(request: httpx2.Request) -> httpx2.Response:
        packed = gzip.compress(b'"jsonrpc"' + b"0" * int(request.content))
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        return httpx2.Response(200, headers=headers, content=packed)

    transport = httpx2.MockTransport(answer)
    async with McpHttpClient(transport=transport) as http:
        http.is_open = True
        small = await http.post("http://shop.example", content="9")
        assert small.content == b'"jsonrpc"' + b"0" * 9
        large = await http.post("http://shop.example", content="100000")
        assert "more than 100000 bytes" in large.json()["error"]["message"]


def test_an_interval_that_is_no_number_is_none() -> None:
    made = server_tasks.TaskResult(result_type="task", task_id="t", poll_interval_ms=float("nan"))
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

"""Servers that keep less of the protocol than others."""

import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.activities.mcp import servers
from holdfast.catalog.mcp_tools import Listing
from tests.activities.mcp.conftest import Open
from tests.activities.mcp.servers import odd
from tests.support.backend import Backend

TOKEN = "sk-planted-77a1c04e9b52d318"
STDIO: dict[str, Any] = {
    "command": sys.executable,
    "args": [odd.__file__],
    "envFrom": [odd.SECRET],
    "timeout": "8s",
    "overrides": {
        **{name: {"_sideEffects": False} for name in odd.RESULTS},
        **{name: {"_approval": {"require": "never"}} for name in ("hang", "cut")},
    },
}


@pytest.fixture(scope="module")
async def home(open_worker: Open, folder: Path) -> AsyncIterator[Backend]:
    """A worker with the program `odd.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(odd.SECRET, TOKEN)
        async with open_worker(STDIO) as made:
            yield made


async def output(home: Backend, tool: str) -> Any:
    return (await (await home.call(f"mcp:shop/{tool}")).result())["output"]


async def test_an_object_alone_is_the_result(home: Backend) -> None:
    assert await output(home, "object") == {"answer": 42}
    assert await output(home, "both") == "42"
    assert '{"code": 7}' in (await (await home.call("mcp:shop/failure")).failure()).message


async def test_a_failure_with_a_picture_is_its_text(home: Backend) -> None:
    failure = await (await home.call("mcp:shop/picture")).failure()
    assert failure.message == "no ink\n[image, not shown]"


async def test_lines_of_its_own_end_no_call_and_are_in_no_log(
    home: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert await output(home, "junk") == "after lines of its own"
    assert "MCP server `shop` writes lines that are no messages" in caplog.text
    assert "started with" not in caplog.text


async def test_an_answer_that_does_not_fit_ends_its_call(
    home: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [each["text"] for each in await output(home, "half")]
    assert texts == ["half \ufffd", "[video of unknown type, not shown]"]
    malformed = await (await home.call("mcp:shop/malformed")).failure()
    assert "tool `malformed`: `inputSchema`: Field required" in malformed.message
    refusal = await (await home.call("mcp:shop/refuse")).failure()
    assert refusal.message == "MCP server `shop`, tool `refuse`: out of stock"
    cut = await home.call("mcp:shop/cut")
    [question] = await cut.waiting()
    assert "its answer cannot be read" in question["question"]
    await cut.decide("t1c1", "give_up")
    assert "MCP server `shop`: an answer does not fit JSON-RPC" in caplog.text


async def test_a_program_that_hangs_is_started_again(
    home: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "KEPT_SECONDS", 0)
    monkeypatch.setattr(servers, "MAX_LISTING_SECONDS", 8.0)
    first = await output(home, "pid")
    hung = await home.call("mcp:shop/hang")
    await hung.waiting()
    await hung.decide("t1c1", "give_up")
    assert await output(home, "pid") != first


async def test_a_slow_first_listing_is_no_long_workflow_task(
    open_worker: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is awaited between workflow tasks, by a timer (TMPRL1104 of Temporal's SDK)."""
    monkeypatch.setenv(odd.SECRET, TOKEN)
    listing, is_late = servers.McpServers.list_in_thread, [True]

    def list_in_thread(self: servers.McpServers, names: list[str]) -> Listing:
        if is_late and is_late.pop():
            raise TimeoutError
        return listing(self, names)

    monkeypatch.setattr(servers.McpServers, "list_in_thread", list_in_thread)
    async with open_worker(STDIO) as made:
        run = await made.call("mcp:shop/both")
        assert (await run.result())["output"] == "42"
    timers = [each for each in await run.history() if each.HasField("timer_fired_event_attributes")]
    assert timers

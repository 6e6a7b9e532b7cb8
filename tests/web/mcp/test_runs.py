"""Runs that MCP clients start and follow, and what they learn of them."""

import os
import sys
import uuid
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client as McpClient
from mcp import MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from temporalio.client import Client

from holdfast.schemas.run import Principal
from holdfast.web.mcp import offered_tools, server
from holdfast.web.mcp.callers import Caller
from tests.support import tools
from tests.support.backend import TOOLS, Backend
from tests.web.mcp.conftest import INBOX, Open, run_id, run_of, text

KEY = server.KEY_META
EMPTY: Any = {KEY: ""}


async def test_agents_and_tools_are_listed_with_their_schemas(open_client: Open) -> None:
    async with open_client() as mcp:
        listed = {each.name: each for each in (await mcp.list_tools()).tools}
    assert {"clerk", "teller", "agent_wait_run", "pay", "start_run", "wait_run"} <= listed.keys()
    assert listed["clerk"].input_schema["required"] == ["input"]
    assert listed["teller"].input_schema["required"] == ["sum"]
    assert listed["teller"].description == "Pays a sum."
    hints = listed["pay"].annotations
    assert hints is not None
    assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (
        *(False, True),
        False,
    )
    assert listed["pay"].title == "Pay"
    hints = listed["echo"].annotations
    assert hints is not None
    assert hints.read_only_hint
    assert listed["errand"].annotations is None  # its agent may pay


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_that_needs_no_approval_returns_its_result(
    open_client: Open, mode: str
) -> None:
    seen: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message or "")

    async with open_client(mode=mode) as mcp:
        arguments = {"text": "a", "times": 3}
        result = await mcp.call_tool("echo", arguments, progress_callback=progress)
        failed = await mcp.call_tool("echo", {})
    assert (text(result), result.is_error) == ("aaa", False)
    assert any("echo" in each for each in seen)
    assert failed.is_error
    assert "invalid_arguments" in text(failed)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_approval_is_a_link_and_the_wait_continues(
    open_client: Open, desk: Backend, mode: str
) -> None:
    async with open_client(mode=mode) as mcp:
        first = await mcp.call_tool("teller", {"sum": 5})
        run = run_of(desk, first)
        shown = await mcp.call_tool("show_run", {"run": run.id})
        early = await mcp.call_tool("wait_run", {"run": run.id, "seconds": 0.2})
        before = tools.read()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.decide, "t1c1", "approve")
            ended = await mcp.call_tool("wait_run", {"run": run.id})
        again = await mcp.call_tool("show_run", {"run": run.id})
    link = f"{INBOX}/waiting/{run.id}/t1c1"
    for each in (first, early, shown):
        assert link in text(each)
        assert each.structured_content is not None
        assert each.structured_content["status"] == "awaiting_approval"
    assert "call t1c1 Pay amount=5" in text(shown)
    assert f"pay 5 {run.id}/t1c1" not in before
    assert ended.structured_content == again.structured_content == {"paid": 5}
    assert tools.read().count(f"pay 5 {run.id}/t1c1") == 1


async def test_what_a_tool_has_stopped_fits_the_schema_of_its_agent(open_client: Open) -> None:
    async with open_client() as mcp:
        schema = {each.name: each for each in (await mcp.list_tools()).tools}["halts"].output_schema
        result = await mcp.call_tool("halts", {"input": "go"})  # which the client validates
    assert schema is not None
    state = {"run": run_id(result), "status": "stopped", "output": "enough"}
    assert (text(result), result.structured_content) == ("enough", state)


async def test_a_picture_is_one_in_the_result(open_client: Open) -> None:
    picture = {"type": "image", "mediaType": "image/png", "data": "iVBORw=="}
    async with open_client() as mcp:
        both = await mcp.call_tool("says", {"result": [{"type": "text", "text": "a dot"}, picture]})
        other = await mcp.call_tool("says", {"result": [picture, 1]})
    assert [each.type for each in both.content] == ["text", "image"]
    assert [each.type for each in other.content] == ["text"]


async def test_a_denied_call_is_an_error_with_one_line(open_client: Open, desk: Backend) -> None:
    async with open_client() as mcp:
        first = await mcp.call_tool("pay", {"amount": 7})
        await run_of(desk, first).decide("t1c1", "deny", reason="too much")
        ended = await mcp.call_tool("wait_run", {"run": run_id(first)})
    assert ended.is_error
    assert "denied: too much" in text(ended)


async def test_a_key_starts_one_run(open_client: Open) -> None:
    meta: Any = {KEY: uuid.uuid4().hex}
    async with open_client() as mcp, open_client(Caller("eve")) as other:
        first = await mcp.call_tool("echo", {"text": "a"}, meta=meta)
        again = await mcp.call_tool("echo", {"text": "a"}, meta=meta)
        reused = await mcp.call_tool("echo", {"text": "b"}, meta=meta)
        anothers = await other.call_tool("echo", {"text": "a"}, meta=meta)
        with pytest.raises(MCPError, match="is no text of 1 to 200"):
            await mcp.call_tool("echo", {"text": "a"}, meta=EMPTY)
    assert run_id(first) == run_id(again)
    assert "was sent with another call" in text(reused)
    assert run_id(anothers) != run_id(first)


async def test_a_run_is_its_owners_alone(open_client: Open, desk: Backend) -> None:
    ann = Caller("ann", Principal(id="ann", scopes=["pay"]).to_json())
    async with open_client(ann) as mcp, open_client(Caller("eve")) as other:
        first = await mcp.call_tool("start_run", {"tool": "clerk", "arguments": {"input": "go"}})
        for name in ("show_run", "wait_run"):
            refused = await other.call_tool(name, {"run": run_id(first)})
            assert text(refused).startswith(f"there is no run {run_id(first)};")
        payroll = await desk.client.start_workflow("Payroll", id="payroll", task_queue="payroll")
        await payroll.terminate()
        foreign = await other.call_tool("show_run", {"run": "payroll"})
        assert text(foreign).startswith("there is no run payroll;")
    start = (await run_of(desk, first).history())[0]
    request = start.workflow_execution_started_event_attributes.input.payloads[0].data
    assert b'"principal":{"id":"ann","scopes":["pay"]}' in request


async def test_what_is_wrong_is_one_line(open_client: Open) -> None:
    async with open_client() as mcp:
        for name, arguments, line in (
            ("clerk", {}, "there is nothing to do; write the task as `input`"),
            ("wait_run", {"run": "none"}, "there is no run none; holdfast list shows the runs"),
            ("wait_run", {"run": "a", "seconds": 60}, "that is no call: `seconds`: "),
            ("show_run", {}, "that is no call: `run`"),
        ):
            result = await mcp.call_tool(name, arguments)
            assert result.is_error
            assert text(result).startswith(line)
        with pytest.raises(MCPError, match="there is no tool `nothing`"):
            await mcp.call_tool("nothing", {})


async def test_a_wait_ends_in_time_and_when_it_is_cancelled(
    open_client: Open, desk: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offered_tools, "MAX_WAIT_SECONDS", 0.3)
    async with open_client() as mcp:
        slow = await mcp.call_tool("held", {"name": uuid.uuid4().hex})
        with anyio.move_on_after(0.2):
            await mcp.call_tool("wait_run", {"run": run_id(slow)})
        shown = await mcp.call_tool("show_run", {"run": run_id(slow)})
    assert slow.structured_content is not None
    assert slow.structured_content["status"] == "running"
    assert "has not finished: running" in text(shown)
    await run_of(desk, slow).handle.cancel()


async def test_a_program_serves_standard_input(client: Client, desk: Backend, folder: Path) -> None:
    words = ("mcp", "--catalog", str(folder), "--tools", str(TOOLS), "--inbox-url", INBOX)
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "holdfast", *words, "--task-queue", desk.task_queue],
        env={
            "TEMPORAL_ADDRESS": client.service_client.config.target_host,
            "TEMPORAL_NAMESPACE": client.namespace,
            "TEMPORAL_CONFIG_FILE": os.devnull,
        },
    )
    async with McpClient(stdio_client(program)) as mcp:
        assert text(await mcp.call_tool("echo", {"text": "a"})) == "a"
        first = await mcp.call_tool("pay", {"amount": 9})
        assert f"{INBOX}/waiting/{run_id(first)}/t1c1" in text(first)

"""A run driven by Temporal's own command line: nothing of ours stands on that side."""

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.hosting.dev_server import temporal_binary
from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import house
from tests.support.model_server import Answer, call


class Cli:
    """`temporal …` against the tests' server."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def __call__(self, *arguments: str) -> Any:
        """Run a command; its JSON output. A refusal is an exit code that is not 0."""
        process = await asyncio.create_subprocess_exec(
            str(temporal_binary()),
            *arguments,
            *("--address", self._address, "--output", "json"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return json.loads(out or b"null")


async def test_start_look_decide_and_read(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tools.LEDGER, str(tmp_path / "ledger"))
    cli = Cli(client.service_client.config.target_host)
    run = f"cli-{uuid.uuid4().hex[:8]}"
    answers = [Answer(calls=[call("pay", amount=5), call("pay", amount=6)]), Answer("paid")]
    async with house(client, tmp_path, answers) as open_:
        agent = {"name": "payer", "model": {"endpoint": "fake"}, "tools": ["pay"]}
        request = json.dumps({"agent": agent, "input": "pay"})
        start = ("workflow", "start", "--type", "AgentWorkflow", "--task-queue", open_.task_queue)
        await cli(*start, "--workflow-id", run, "--input", request)

        async def waiting() -> Any:
            answer = await cli("workflow", "query", "--workflow-id", run, "--name", "approvals")
            [found] = answer["queryResult"]
            return found if found and len(found) == 2 else None

        first, second = await eventually(waiting)
        approve = json.dumps({"callId": first["callId"], "decision": "approve", "by": "ada"})
        await cli(
            "workflow", "signal", "--workflow-id", run, "--name", "approve", "--input", approve
        )
        deny = json.dumps({"callId": second["callId"], "decision": "deny", "reason": "no"})
        update = ("workflow", "update", "execute", "--workflow-id", run, "--name", "decide")
        await cli(*update, "--input", deny)
        result = await cli("workflow", "result", "--workflow-id", run)
    assert result["status"] == "COMPLETED"
    assert result["result"]["output"] == "paid"
    assert tools.read() == [f"pay 5 {run}/t1c1"]

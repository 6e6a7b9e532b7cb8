"""Calls that only a person can answer: by a client, by the `temporal` command, and no other way."""

import asyncio
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client

from holdfast.hosting.dev_server import temporal_binary
from tests.support.backend import Launch, Run
from tests.support.model_server import Answer, call, serve
from tests.support.process import WorkerProcess

ESCALATE: dict[str, Any] = {
    "_tool": "escalate",
    "_person": True,
    "_label": "Ask for help",
    "properties": {
        "reason": {"type": "string"},
        "severity": {"enum": ["low", "medium", "high", "critical"], "default": "high"},
    },
    "required": ["reason"],
    "_output": {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
    },
}
ASKS = Answer(calls=[call("escalate", reason="May she return it?")])


async def temporal(client: Client, *words: str) -> str:
    """What the `temporal` command prints; it has to end well."""
    process = await asyncio.create_subprocess_exec(
        str(temporal_binary()),
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ | {"TEMPORAL_ADDRESS": client.service_client.config.target_host},
    )
    printed = (await process.communicate())[0].decode()
    assert process.returncode == 0, printed
    return printed


async def details(run: Run) -> str:
    """What Temporal's UI shows under "User Metadata"."""
    metadata: WorkflowMetadata = await run.handle.query("__temporal_workflow_metadata")
    return metadata.current_details


async def test_a_signal_of_the_temporal_command_answers_it(launch: Launch, client: Client) -> None:
    run = await (await launch([ASKS, Answer("done")])).start([ESCALATE])
    await run.waiting()
    words = ("workflow", "signal", "--workflow-id", run.id, "--name", "approve", "--input")
    wrong = {"callId": "t1c1", "decision": "respond", "result": {"yes": True}}
    await temporal(client, *words, json.dumps(wrong))
    await temporal(client, *words, json.dumps({**wrong, "result": {"answer": "No."}}))

    await run.result()
    assert await run.results() == {"t1c1": '{"answer": "No."}'}
    ignored = [entry["ignored"] for entry in await run.context() if "ignored" in entry]
    assert len(ignored) == 1
    assert "does not fit the tool's `_output`" in ignored[0]


@pytest.mark.usefixtures("quick_starts")
async def test_it_is_answered_once_whatever_becomes_of_the_worker(
    client: Client, tmp_path: Path
) -> None:
    endpoints, queue = tmp_path / "endpoints.yaml", tmp_path.name
    (tmp_path / "agents").mkdir()
    agent = {"model": {"endpoint": "fake", "name": "fake"}, "tools": [ESCALATE]}
    (tmp_path / "agents/desk.json").write_text(json.dumps(agent))
    with serve([ASKS, Answer("done")]) as model:
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}'}}\n")
        files = ("--catalog", str(tmp_path), "--endpoints", str(endpoints), "--task-queue", queue)
        worker = WorkerProcess(client.service_client.config.target_host, *files)
        with worker:
            handle = await client.start_workflow(
                "AgentWorkflow",
                {"agent": "desk", "input": "go"},
                id=f"run-{queue}",
                task_queue=queue,
                task_timeout=timedelta(seconds=2),
            )
            run = Run(handle, client)
            await run.waiting()
            worker.kill()
            await run.signal("t1c1", "respond", result={"answer": "Yes."}, by="ada")
            await run.signal("t1c1", "respond", result={"answer": "No."}, by="bob")
            worker.start()

            assert (await run.result())["output"] == "done"
            assert await run.results() == {"t1c1": '{"answer": "Yes."}'}
            assert len(model.requests) == 2

"""Runs, with Temporal's own retries, whose model is a server that others wrote and that fails."""

import json
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.hosting.worker import WorkerSettings, build_worker
from tests.foreign.conftest import PROVIDERS, Mock
from tests.support.backend import TOOLS, Run

ECHO = {"name": "echo", "arguments": {"text": "coffee", "times": 2}}
# With a text before it, so that every format has something to cut.
CALL = {"type": "reply", "text": "Let me say it.", "tool_calls": [ECHO]}


class FormatWorker:
    """A worker with an endpoint for each format of the server."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue

    async def start(self, provider: str, model: str) -> Run:
        """Start a run of an agent with a tool."""
        agent = {
            "name": "tester",
            "instructions": "Test.",
            "model": {"endpoint": provider, "name": model},
            "tools": ["echo"],
        }
        handle = await self._client.start_workflow(
            "AgentWorkflow",
            {"agent": agent, "input": "Say coffee twice."},
            id=f"foreign-{uuid.uuid4().hex[:12]}",
            task_queue=self._task_queue,
        )
        return Run(handle)


@pytest.fixture(scope="module")
async def desk(
    client: Client, mock: Mock, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[FormatWorker]:
    endpoints = tmp_path_factory.mktemp("desk") / "endpoints.yaml"
    urls = {name: {"provider": name, "baseUrl": mock.base_url(name)} for name in PROVIDERS}
    endpoints.write_text(json.dumps(urls))  # JSON is YAML
    settings = WorkerSettings(
        tools=[str(TOOLS)],
        endpoints=endpoints,
        task_queue=f"foreign-{uuid.uuid4().hex[:8]}",
        heartbeat_timeout=timedelta(seconds=30),
    )
    async with build_worker(client, settings):
        yield FormatWorker(client, settings.task_queue)


def faults_for(provider: str) -> list[dict[str, Any]]:
    """What the server does to the two runs in a provider's format, by the models they ask."""
    cut, broken = {"model": f"{provider}-cut"}, {"model": f"{provider}-broken"}
    return [
        {**CALL, "times": 2, "match": cut},
        {"type": "fail", "status": 429, "retry_after": 0.3, "match": cut},
        {"type": "stream_fault", "kind": "truncate", "match": cut},
        {"type": "tool_fault", "kind": "malformed_arguments", "match": broken},
    ]


async def check_ends_well(run: Run) -> None:
    """The run has its tool called once and gives an output."""
    result = await run.result()
    assert (result["status"], result["turns"], result["calls"]) == ("completed", 2, 1)
    assert result["output"]
    assert result["usage"]["inputTokens"] > 0


async def test_runs_in_each_format_end_well_and_the_server_reports_no_complaint(
    desk: FormatWorker, mock: Mock
) -> None:
    mock.plan(*(fault for provider in PROVIDERS for fault in faults_for(provider)))
    cut = [await desk.start(provider, f"{provider}-cut") for provider in PROVIDERS]
    broken = [await desk.start(provider, f"{provider}-broken") for provider in PROVIDERS]
    for run in (*cut, *broken):
        await check_ends_well(run)
    assert [await run.results() for run in cut] == [{"t1c1": "coffeecoffee"}] * len(PROVIDERS)
    assert {(await run.error())["code"] for run in broken} == {"invalid_arguments"}
    assert mock.is_done()
    assert len(mock.requests()) == 6 * len(PROVIDERS)
    report = mock.report()
    assert "PASS" in report.stdout
    assert report.returncode == 0, report.stdout

"""History of a run against its turns: this engine beside a plain workflow that passes the messages.

Both run in one worker on one server, interleaved, against one fake model over HTTP, with the same
tool and the same answers.
"""

import statistics
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from temporalio.client import Client
from temporalio.worker import Worker

from bench.plain import PlainWorkflow
from bench.plain_model import PlainActivities
from bench.tools import read_record
from tests.support.model_server import Answer, ModelServer, call, serve
from worker import Settings, build_worker

RESULT_BYTES = 2_000
TOOL = "read_record"
OFFER = {
    "type": "function",
    "function": {
        "name": TOOL,
        "parameters": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}


@dataclass(frozen=True)
class Figure:
    """One run, measured: its history as the server counts it, and its time."""

    engine: str
    turns: int
    history_bytes: int
    events: int
    wall_seconds: float
    cpu_seconds: float


def answers(turns: int) -> Any:
    """A model that makes a call each turn, and answers in the last."""

    def answer(turn: int, _: object) -> Answer:
        if turn >= turns:
            return Answer("done")
        return Answer(calls=[call(TOOL, name=f"r{turn}", size=RESULT_BYTES)])

    return answer


@asynccontextmanager
async def workers(client: Client, model: ModelServer) -> AsyncIterator[tuple[str, str]]:
    """Both engines at work; their task queues."""
    queue = f"bench-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory() as folder:
        endpoints = Path(folder) / "endpoints.yaml"
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}'}}\n")
        tools = str(Path(__file__).with_name("tools.py"))
        settings = Settings(tools=[tools], endpoints=endpoints, task_queue=queue)
        async with httpx.AsyncClient(timeout=60) as http:
            plain = Worker(
                client,
                task_queue=f"{queue}-plain",
                workflows=[PlainWorkflow],
                activities=[PlainActivities(http).ask, read_record],
            )
            async with await build_worker(client, settings), plain:
                yield queue, f"{queue}-plain"


async def measure(client: Client, turns: int, repeats: int) -> list[Figure]:
    """Run both engines in turn; every figure."""
    figures = []
    with serve(answers(turns)) as model:
        async with workers(client, model) as (ours, plain):
            for _ in range(repeats):
                figures.append(await _run(client, "holdfast", turns, ours, _request(turns)))
                request = {"input": "go", "url": model.url, "tools": [OFFER]}
                figures.append(await _run(client, "plain", turns, plain, request))
    return figures


def median(figures: list[Figure], engine: str, what: str) -> float:
    """The median of one figure of one engine."""
    return float(statistics.median(getattr(one, what) for one in figures if one.engine == engine))


def _request(turns: int) -> dict[str, Any]:
    budget = {"maxTurns": turns + 1, "maxIterations": turns + 1, "maxCalls": turns + 1}
    agent = {"name": "bench", "model": {"endpoint": "fake"}, "tools": [TOOL], "budget": budget}
    return {"agent": agent, "input": "go"}


async def _run(client: Client, engine: str, turns: int, queue: str, request: Any) -> Figure:
    workflow = "AgentWorkflow" if engine == "holdfast" else "PlainWorkflow"
    wall, cpu = time.perf_counter(), time.process_time()
    handle = await client.start_workflow(
        workflow, request, id=f"{engine}-{uuid.uuid4().hex[:8]}", task_queue=queue
    )
    await handle.result()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    described = await handle.describe()
    info = described.raw_description.workflow_execution_info
    return Figure(engine, turns, info.history_size_bytes, info.history_length, wall, cpu)

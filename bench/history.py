"""History of a run against its turns: this engine beside a plain workflow that passes the messages.

Both run in one worker on one server, interleaved, against one fake model over HTTP, with the same
tool and the same answers.
"""

import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from temporalio.client import Client
from temporalio.worker import Worker

from bench.house import at_work
from bench.measured import Measured, measured, shown
from bench.plain import PlainWorkflow
from bench.plain_model import PlainActivities
from bench.tools import RESULT_BYTES, read_record
from tests.support.model_server import Answer, ModelServer, call, serve

TURNS = (10, 50, 100)
REPEATS = 3
WHAT = {
    "history_bytes": "history, KB",
    "events": "events",
    "wall_seconds": "wall time, s",
    "cpu_seconds": "CPU time of worker and model, s",
}
TOOL = "read_record"
OFFER = {
    "type": "function",
    "function": {
        "name": TOOL,
        "parameters": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}


async def table(client: Client) -> str:
    """The figures as a Markdown table: medians, and ours divided by the plain workflow's."""
    rows = [
        "| turns | figure | holdfast | plain workflow | ratio |",
        "| ---: | --- | ---: | ---: | ---: |",
    ]
    for turns in TURNS:
        ours, plain = await measure(client, turns, REPEATS)
        for what, title in WHAT.items():
            scale = 1000 if what == "history_bytes" else 1
            a, b = (median(runs, what) / scale for runs in (ours, plain))
            rows.append(f"| {turns} | {title} | {shown(a)} | {shown(b)} | {a / b:.3f} |")
    return "\n".join(rows)


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
    async with at_work(client, model) as queue, httpx.AsyncClient(timeout=60) as http:
        plain = Worker(
            client,
            task_queue=f"{queue}-plain",
            workflows=[PlainWorkflow],
            activities=[PlainActivities(http).ask, read_record],
        )
        async with plain:
            yield queue, f"{queue}-plain"


async def measure(
    client: Client, turns: int, repeats: int
) -> tuple[list[Measured], list[Measured]]:
    """Run both engines in turn; every run of ours, and of the plain workflow."""
    ours, plain = list[Measured](), list[Measured]()
    with serve(answers(turns)) as model:
        async with workers(client, model) as (our_queue, plain_queue):
            asked = {"input": "go", "url": model.url, "tools": [OFFER]}
            for _ in range(repeats):
                ours.append(await measured(client, "AgentWorkflow", our_queue, _request(turns)))
                plain.append(await measured(client, "PlainWorkflow", plain_queue, asked))
    return ours, plain


def median(runs: list[Measured], what: str) -> float:
    """The median of one figure."""
    return float(statistics.median(getattr(run, what) for run in runs))


def _request(turns: int) -> dict[str, Any]:
    budget = {"maxTurns": turns + 1, "maxIterations": turns + 1, "maxCalls": turns + 1}
    agent = {"name": "bench", "model": {"endpoint": "fake"}, "tools": [TOOL], "budget": budget}
    return {"agent": agent, "input": "go"}

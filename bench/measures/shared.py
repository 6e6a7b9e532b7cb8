"""What requests cost that any worker may take: queries, history and time, with and without a store.

Two workers, each a process of its own, share an endpoint with a rate limit that holds nothing up.
"""

import asyncio
import tempfile
import time
import uuid
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bench.counters import ACTIONS
from bench.engines import ENGINES
from bench.measures.measured import measured, shown
from bench.process import fake_model, our_worker
from bench.programs.work import Work
from bench.server import Server

WORKERS = 2
RUNS_AT_ONCE = 4
WORK = Work(turns=10)
LIMIT = ", maxRequestsPerMinute: 60000"
QUERIES = (ACTIONS, "grpc_QueryWorkflow")


@dataclass(frozen=True)
class Cost:
    """What the runs took, for each of their requests."""

    queries: float
    history_bytes: float
    events: float
    wall_seconds: float


async def table(server: Server) -> str:
    """The figures as a Markdown table."""
    with tempfile.TemporaryDirectory() as folder:
        without, stored = await measure(server, "none"), await measure(server, folder)
    rows = ["| for each request | without a store | with one |", "| --- | ---: | ---: |"]
    rows += [
        f"| queries | {shown(without.queries)} | {shown(stored.queries)} |",
        f"| history, bytes | {without.history_bytes:.0f} | {stored.history_bytes:.0f} |",
        f"| events | {shown(without.events)} | {shown(stored.events)} |",
        f"| wall time, ms | {1000 * without.wall_seconds:.0f} | {1000 * stored.wall_seconds:.0f} |",
    ]
    return "\n".join(rows)


async def measure(server: Server, store: str) -> Cost:
    """Several runs at once on the workers with this store."""
    queue = f"shared-{uuid.uuid4().hex[:8]}"
    address = server.client.service_client.config.target_host
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(fake_model())
        for _ in range(WORKERS):
            worker = our_worker(address, queue, model, "--store", store, endpoint=LIMIT)
            await stack.enter_async_context(worker)
        before, began = await server.counters.settled(), time.perf_counter()
        ours = ENGINES["holdfast"]
        arguments = (ours.workflow, queue, *ours.arguments(WORK))
        runs = await asyncio.gather(
            *(measured(server.client, *arguments) for _ in range(RUNS_AT_ONCE))
        )
        wall_seconds = time.perf_counter() - began
        counts: Counter[tuple[str, str]] = await server.counters.settled() - before
    requests = RUNS_AT_ONCE * WORK.turns
    assert [run.result["turns"] for run in runs] == [WORK.turns] * RUNS_AT_ONCE
    return Cost(
        counts[QUERIES] / requests,
        sum(run.history_bytes for run in runs) / requests,
        sum(run.events for run in runs) / requests,
        wall_seconds / requests,
    )

"""Workers that have nothing in memory: what runs cost there, and that the same comes of them.

One run is carried out in several ways: by one worker; by one that keeps no run in memory, so that
each workflow task replays the history and each request reads the conversation anew; by two workers
that share a task queue; by two that keep nothing; and by a worker that is started halfway, after
the first was killed. Each time, the result and the digest of the run's log are to be the same: what
the model was sent is checked against it by the activity that sends it.
"""

import statistics
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from temporalio.client import Client, WorkflowHandle

from bench.measures.measured import shown
from bench.process import Program, fake_model, our_worker
from bench.programs.work import TOOL, Work
from holdfast.schemas import names
from tests.support.eventually import eventually

REPEATS = 3
TURNS = (20, 100)
NOTHING_KEPT = ("--cached-runs", "0")


@dataclass(frozen=True)
class Way:
    """How many workers, with which options; `halfway`: the next one takes over in the middle."""

    title: str
    workers: int = 1
    options: Sequence[str] = ()
    halfway: bool = False


WAYS = (
    Way("one worker"),
    Way("one worker, cache off", options=NOTHING_KEPT),
    Way("two workers", workers=2),
    Way("two workers, cache off", workers=2, options=NOTHING_KEPT),
    Way("a new worker halfway, after `kill -9`", workers=2, halfway=True),
)


@dataclass(frozen=True)
class Run:
    """What a run took, and what came of it."""

    wall_seconds: float
    cpu_seconds: float
    result: Any
    digest: str


async def table(client: Client) -> str:
    """The figures as a Markdown table: medians, and each divided by that of one worker."""
    rows = [
        "| turns | run by | wall time, s | ratio | CPU time, s | ratio |",
        "| ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    async with fake_model() as model:
        for turns in TURNS:
            runs = await _measured(client, model, Work(turns))
            first_wall, first_cpu = _medians(runs[WAYS[0].title])
            for title, each in runs.items():
                wall, cpu = _medians(each)
                cells = [shown(wall), shown(wall / first_wall), shown(cpu), shown(cpu / first_cpu)]
                rows.append(f"| {turns} | {title} | {' | '.join(cells)} |")
        rows += ["", await _cold_start(client, model)]
    return "\n".join(rows)


def _medians(runs: list[Run]) -> tuple[float, float]:
    wall = statistics.median(run.wall_seconds for run in runs)
    return wall, statistics.median(run.cpu_seconds for run in runs)


async def _measured(client: Client, model: str, work: Work) -> dict[str, list[Run]]:
    """Have the work done each way in turn.

    Raises:
        RuntimeError: something else came of it one way than another.
    """
    runs: dict[str, list[Run]] = {way.title: [] for way in WAYS}
    for _ in range(REPEATS):
        for way in WAYS:
            runs[way.title].append(await run(client, model, work, way))
    kept = [(each.result, each.digest) for way in runs.values() for each in way]
    if any(each != kept[0] for each in kept):
        raise RuntimeError(f"not the same came of it each way: {kept}")
    return runs


async def run(client: Client, model: str, work: Work, way: Way) -> Run:
    """Have the work done one way; no worker has done anything before."""
    queue = f"cold-{uuid.uuid4().hex[:8]}"
    address = client.service_client.config.target_host
    async with AsyncExitStack() as stack:

        async def started() -> Program:
            worker = our_worker(address, queue, model, *way.options)
            return await stack.enter_async_context(worker)

        workers = [await started() for _ in range(way.workers - way.halfway)]
        spent = sum(worker.cpu_seconds for worker in workers)
        wall = perf_counter()
        handle = await _start(client, queue, work)
        if way.halfway:
            await eventually(lambda: _at(handle, work.turns // 2))
            spent -= workers[0].cpu_seconds
            await workers.pop().kill()
            workers.append(await started())
            spent += workers[0].cpu_seconds
        result = await handle.result()
        wall = perf_counter() - wall
        spent = sum(worker.cpu_seconds for worker in workers) - spent
        status = await handle.query(names.STATUS)
    return Run(wall, spent, result, status["log"]["digest"])


async def _start(client: Client, queue: str, work: Work) -> WorkflowHandle[Any, Any]:
    budget = {f"max{each}": work.turns + 1 for each in ("Turns", "Iterations", "Calls")}
    agent = {"name": "bench", "model": {"endpoint": "fake"}, "tools": [TOOL], "budget": budget}
    request = {"agent": agent, "input": work.prompt}
    return await client.start_workflow(
        names.AGENT_WORKFLOW, request, id=f"{queue}-run", task_queue=queue
    )


async def _at(handle: WorkflowHandle[Any, Any], turn: int) -> bool:
    return bool((await handle.query(names.STATUS))["turn"] >= turn)


async def _cold_start(client: Client, model: str) -> str:
    """How soon a worker takes work, from the start of its process."""
    address = client.service_client.config.target_host
    took = []
    for _ in range(REPEATS):
        began = perf_counter()
        async with our_worker(address, f"cold-{uuid.uuid4().hex[:8]}", model) as worker:
            took.append((perf_counter() - began, worker.cpu_seconds))
    wall, cpu = (statistics.median(each) for each in zip(*took, strict=True))
    return f"From the start of a worker's process to its first poll: {wall:.2f} s, CPU {cpu:.2f} s."

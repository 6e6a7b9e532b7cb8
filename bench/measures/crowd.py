"""How many runs an engine's workers finish in a second, so many at a time."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from bench.engines import ENGINES
from bench.programs.work import Work
from bench.stage import Stage, told

WORK = Work(turns=10)
MAX_SECONDS = 900


@dataclass(frozen=True)
class Way:
    """How many runs at a time, on how many workers."""

    at_a_time: int
    workers: int


async def measure(
    stage: Stage, ways: Sequence[Way], runs: int, repeats: int
) -> list[dict[str, Any]]:
    """Each engine in turn, again and again; a row for each time."""
    rows = []
    for repeat in range(1, repeats + 1):
        for way in ways:
            for name in stage.names(repeat):
                told(f"{way}: {ENGINES[name].title}, {repeat} of {repeats}")
                rows.append(await _row(stage, name, way, max(runs, way.at_a_time)))
    return rows


async def _row(stage: Stage, name: str, way: Way, runs: int) -> dict[str, Any]:
    room = asyncio.Semaphore(way.at_a_time)

    async def one() -> None:
        async with room:
            await stage.run_unseen(name, WORK, timeout_seconds=MAX_SECONDS)

    async with AsyncExitStack() as stack:
        workers = [stage.workers[name]]
        workers[0].forget_peak()
        workers += [
            await stack.enter_async_context(stage.another_worker(name))
            for _ in range(way.workers - 1)
        ]
        wall, cpu = time.perf_counter(), sum(worker.cpu_seconds for worker in workers)
        await asyncio.gather(*(one() for _ in range(runs)))
        wall = time.perf_counter() - wall
        cpu = sum(worker.cpu_seconds for worker in workers) - cpu
    return {
        "engine": name,
        "at_a_time": way.at_a_time,
        "workers": way.workers,
        "runs_per_second": runs / wall,
        "cpu_seconds_per_run": cpu / runs,
        "peak_bytes": stage.workers[name].peak_bytes,
    }

"""How many runs an engine's one worker carries out in a second, so many at a time."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from bench.engines import ENGINES
from bench.programs.work import Work
from bench.stage import Stage, told

WORK = Work(turns=10)
MAX_SECONDS = 900


async def measure(
    stage: Stage, concurrency: Sequence[int], runs: int, repeats: int
) -> list[dict[str, Any]]:
    """Each engine in turn, again and again; a row for each time."""
    rows = []
    for repeat in range(1, repeats + 1):
        for at_a_time in concurrency:
            for name in stage.workers:
                told(f"{at_a_time} at a time: {ENGINES[name].title}, {repeat} of {repeats}")
                rows.append(await _row(stage, name, at_a_time, max(runs, at_a_time)))
    return rows


async def _row(stage: Stage, name: str, at_a_time: int, runs: int) -> dict[str, Any]:
    worker = stage.workers[name]
    worker.forget_peak()
    room = asyncio.Semaphore(at_a_time)

    async def one() -> None:
        async with room:
            await stage.run_unseen(name, WORK, timeout_seconds=MAX_SECONDS)

    wall, cpu = time.perf_counter(), worker.cpu_seconds
    await asyncio.gather(*(one() for _ in range(runs)))
    wall, cpu = time.perf_counter() - wall, worker.cpu_seconds - cpu
    return {
        "engine": name,
        "at_a_time": at_a_time,
        "runs_per_second": runs / wall,
        "cpu_seconds_per_run": cpu / runs,
        "peak_bytes": worker.peak_bytes,
    }

"""This engine beside its peers and a plain workflow: the same agent, tool, model and server.

Every figure is taken from outside, alike for all: history and events as the server counts them,
time and memory of the worker's process as the system counts them. The rows of all runs are kept in
`bench/results.json`, from which `bench/report.py` makes tables and curves.
"""

import json
import os
import platform
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.client import Client

from bench import crowd, limits, replays, report, turns
from bench.engines import ENGINES
from bench.stage import Stage, staged
from bench.work import Work

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Sizes:
    """How much is measured, and where the rows are kept."""

    turns: Sequence[int] = (10, 20, 50, 100, 200)
    repeats: int = 3
    at_a_time: Sequence[int] = (16, 64)
    runs: int = 64
    limits: Sequence[Work] = (Work(1_000), Work(200, result_bytes=20_000), Work(100, calls=4))
    replayed: Sequence[int] = (100, 200)
    results: Path = report.RESULTS
    images: Path = report.IMAGES


FULL = Sizes()
# Enough to see that everything works.
QUICK = Sizes(
    turns=(5, 10),
    repeats=1,
    at_a_time=(4,),
    runs=8,
    limits=(Work(20), Work(5, calls=4)),
    replayed=(10,),
    results=Path("build/bench/results.json"),
    images=Path("build/bench"),
)


async def table(client: Client, sizes: Sizes = FULL) -> str:
    """Measure everything; the figures as Markdown tables, ours divided by theirs in brackets."""
    figures: dict[str, Callable[[Stage], Awaitable[Rows]]] = {
        "turns": lambda stage: turns.measure(stage, sizes.turns, sizes.repeats),
        "crowd": lambda stage: crowd.measure(stage, sizes.at_a_time, sizes.runs, sizes.repeats),
        "replay": lambda stage: replays.measure(stage, sizes.replayed, sizes.repeats),
        "limits": lambda stage: limits.measure(stage, sizes.limits),
    }
    results: dict[str, Any] = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "titles": {name: engine.title for name, engine in ENGINES.items()},
    }
    sizes.results.parent.mkdir(parents=True, exist_ok=True)
    for figure, measure in figures.items():
        # New workers for each figure, so that none begins with what the one before has left.
        async with staged(client, list(ENGINES)) as stage:
            results["versions"] = {name: ENGINES[name].versions() for name in ENGINES}
            results[figure] = await measure(stage)
        text = json.dumps(results, indent=1, ensure_ascii=False)
        sizes.results.write_text(f"{text}\n", encoding="utf-8")
    report.draw(results, sizes.images)
    return report.tables(results)


async def quick(client: Client) -> str:
    """The same with little of everything, kept apart from the real figures."""
    return await table(client, QUICK)

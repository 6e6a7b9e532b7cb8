"""This engine beside its peers and a plain workflow: the same agent, tool, model and server.

Every figure is taken from outside, alike for all: history and events as the server counts them,
time and memory of the worker's process as the system counts them. The rows of all runs are kept in
`bench/results.json`, from which `bench/report.py` makes tables and curves.
"""

import json
import os
import platform
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import report
from bench.engines import ENGINES
from bench.measures import crowd, limits, replays, turns
from bench.programs.work import Work
from bench.server import server
from bench.stage import Stage, staged

Rows = list[dict[str, Any]]
Measure = Callable[[Stage], Awaitable[Rows]]


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


async def table(sizes: Sizes = FULL) -> str:
    """Measure everything; the figures as Markdown tables, ours divided by theirs in brackets."""
    results: dict[str, Any] = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "titles": {name: engine.title for name, engine in ENGINES.items()},
    }
    sizes.results.parent.mkdir(parents=True, exist_ok=True)
    for figure, measure in _figures(sizes):
        rows = await staged_anew(measure)
        results["versions"] = {name: ENGINES[name].versions() for name in ENGINES}
        results[figure] = [*results.get(figure, []), *rows]
        text = json.dumps(results, indent=1, ensure_ascii=False)
        sizes.results.write_text(f"{text}\n", encoding="utf-8")
    report.draw(results, sizes.images)
    return report.tables(results)


async def staged_anew(measure: Measure) -> Rows:
    """Measure with a new server and new workers, so that nothing is left of what was before."""
    async with server() as client, staged(client, list(ENGINES)) as stage:
        return await measure(stage)


def _figures(sizes: Sizes) -> Iterator[tuple[str, Measure]]:
    """What is measured, in pieces that a server can keep in memory."""
    yield "turns", lambda stage: turns.measure(stage, sizes.turns, sizes.repeats)
    yield "crowd", lambda stage: crowd.measure(stage, sizes.at_a_time, sizes.runs, sizes.repeats)
    yield "replay", lambda stage: replays.measure(stage, sizes.replayed, sizes.repeats)
    for work in sizes.limits:
        yield "limits", partial(limits.measure, work=work)


async def quick() -> str:
    """The same with little of everything, kept apart from the real figures."""
    return await table(QUICK)

"""This engine beside its peers and a plain workflow: the same agent, tool, model and server.

Every figure is taken from outside, alike for all: history and events as the server counts them,
time and memory of the worker's process as the system counts them. The rows of all runs are kept in
`bench/results.json` with the commits that they were measured at, from which `bench/report.py` makes
tables and curves; measured in a tree with changes, in `build/bench`.
"""

import json
import os
import platform
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import report
from bench.engines import ENGINES
from bench.measures import crowd, limits, replays, turns
from bench.programs.work import Work
from bench.published import clean_commit
from bench.server import Start, embedded
from bench.stage import Stage, staged

Rows = list[dict[str, Any]]
Measure = Callable[[Stage], Awaitable[Rows]]


@dataclass(frozen=True)
class Sizes:
    """How much is measured, and where the rows are kept."""

    turns: Sequence[int] = (10, 20, 50, 100, 200)
    repeats: int = 5
    at_a_time: Sequence[int] = (16, 64, 256)
    runs: int = 64
    workers: Sequence[int] = ()
    limits: Sequence[Work] = (
        Work(1_000),
        Work(200, result_bytes=20_000),
        Work(20, result_bytes=1_900_000),
        Work(100, calls=4),
    )
    replayed: Sequence[int] = (100, 200)
    name: str = "bench"
    results: Path = report.RESULTS["bench"]
    images: Path = report.IMAGES


# What results have beside the rows of figures.
_ABOUT = ("titles", "versions", "machine", "python")
FULL = Sizes()
NOTHING = Sizes(turns=(), at_a_time=(), limits=(), replayed=())
TURNS = replace(NOTHING, turns=FULL.turns)
CROWD = replace(NOTHING, at_a_time=FULL.at_a_time)
GROWTH = replace(NOTHING, limits=FULL.limits)
REPLAY = replace(NOTHING, replayed=FULL.replayed)
# On a cluster, whose services share the machine with the workers: counts, which no repeat changes.
CLUSTER = replace(NOTHING, name="cluster", results=report.RESULTS["cluster"])
CLUSTER_TURNS = replace(CLUSTER, turns=(10, 100), repeats=1)
CLUSTER_CROWD = replace(CLUSTER, workers=(1, 2))
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


async def table(start: Start = embedded, sizes: Sizes = FULL) -> str:
    """Measure; what was measured as Markdown tables, ours divided by theirs in brackets."""
    commit = clean_commit()
    is_published = bool(commit) and sizes.results in report.RESULTS.values()
    if not is_published:
        sizes = replace(sizes, results=QUICK.results, images=QUICK.images)
    results: dict[str, Any] = {
        **(report.read(sizes.results) if sizes.results.exists() else {}),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "titles": {name: engine.title for name, engine in ENGINES.items()},
    }
    sizes.results.parent.mkdir(parents=True, exist_ok=True)
    figures = dict(_figures(sizes))
    for figure, measures in figures.items():
        results[figure] = []
        results["commits"] = {**results.get("commits", {}), figure: commit, "versions": commit}
        for measure in measures:
            results[figure] += await staged_anew(start, measure)
            results["versions"] = {name: ENGINES[name].versions() for name in ENGINES}
            text = json.dumps(results, indent=1, ensure_ascii=False)
            sizes.results.write_text(f"{text}\n", encoding="utf-8")
    report.draw(results, sizes.images, sizes.name)
    if is_published:
        report.publish(results, sizes.name)
    return report.tables({name: results[name] for name in (*_ABOUT, *figures)})


async def staged_anew(start: Start, measure: Measure) -> Rows:
    """Measure with a new server and new workers, so that nothing is left of what was before."""
    async with start() as server, staged(server, list(ENGINES)) as stage:
        return await measure(stage)


def _figures(sizes: Sizes) -> Iterator[tuple[str, list[Measure]]]:
    """What is measured, in pieces that a server can keep in memory."""
    repeats = sizes.repeats
    if sizes.turns:
        yield "turns", [lambda stage: turns.measure(stage, sizes.turns, repeats)]
    if sizes.at_a_time:
        ways = [crowd.Way(number, 1) for number in sizes.at_a_time]
        yield "crowd", [lambda stage: crowd.measure(stage, ways, sizes.runs, repeats)]
    if sizes.workers:
        shared = [crowd.Way(sizes.runs, workers) for workers in sizes.workers]
        yield "workers", [lambda stage: crowd.measure(stage, shared, sizes.runs, repeats)]
    if sizes.replayed:
        yield "replay", [lambda stage: replays.measure(stage, sizes.replayed, repeats)]
    if sizes.limits:
        yield "limits", [partial(limits.measure, work=work) for work in sizes.limits]

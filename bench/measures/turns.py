"""What a run takes, against its turns: history, events, Actions, requests to the database, time."""

from collections.abc import Sequence
from typing import Any

from bench.counters import ACTIONS, PERSISTENCE, total
from bench.engines import ENGINES
from bench.measures.ending import Stopped
from bench.programs.work import Work
from bench.stage import Stage, told

MAX_SECONDS = 900


async def measure(stage: Stage, turns: Sequence[int], repeats: int) -> list[dict[str, Any]]:
    """Each engine in turn, again and again; a row for each run.

    An engine that did not get to the end of one is not asked for as many turns again.
    """
    rows: list[dict[str, Any]] = []
    for repeat in range(1, repeats + 1):
        for wanted in turns:
            told(f"turns: {wanted}, {repeat} of {repeats}")
            given_up = {(row["engine"], row["turns"]) for row in rows if "stopped" in row}
            names = [name for name in stage.names(repeat) if (name, wanted) not in given_up]
            rows += [await _row(stage, name, wanted) for name in names]
    return rows


async def _row(stage: Stage, name: str, turns: int) -> dict[str, Any]:
    row: dict[str, Any] = {"engine": name, "turns": turns}
    before = await stage.counters.settled()
    stage.workers[name].forget_peak()
    try:
        run = await stage.run(name, Work(turns), timeout_seconds=MAX_SECONDS)
    except Stopped as stopped:
        told(f"{ENGINES[name].title}, {turns} turns: {stopped}")
        return {**row, "stopped": str(stopped)}
    peak = stage.workers[name].peak_bytes
    counts = await stage.counters.settled() - before
    return {
        **row,
        "history_bytes": run.history_bytes,
        "events": run.events,
        "actions": total(counts, ACTIONS),
        "persistence_requests": total(counts, PERSISTENCE),
        "cpu_seconds": run.cpu_seconds,
        "wall_seconds": run.wall_seconds,
        "peak_bytes": peak,
    }

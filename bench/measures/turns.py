"""What a run takes, against its turns: history, events, processor time, wall time, memory."""

from collections.abc import Sequence
from typing import Any

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
            names = [name for name in stage.workers if (name, wanted) not in given_up]
            rows += [await _row(stage, name, wanted) for name in names]
    return rows


async def _row(stage: Stage, name: str, turns: int) -> dict[str, Any]:
    row: dict[str, Any] = {"engine": name, "turns": turns}
    stage.workers[name].forget_peak()
    try:
        run = await stage.run(name, Work(turns), timeout_seconds=MAX_SECONDS)
    except Stopped as stopped:
        told(f"{ENGINES[name].title}, {turns} turns: {stopped}")
        return {**row, "stopped": str(stopped)}
    return {
        **row,
        "history_bytes": run.history_bytes,
        "events": run.events,
        "cpu_seconds": run.cpu_seconds,
        "wall_seconds": run.wall_seconds,
        "peak_bytes": stage.workers[name].peak_bytes,
    }

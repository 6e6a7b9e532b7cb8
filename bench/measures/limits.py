"""Where each engine stops: work that is long, or whose results are large, or with many calls.

Of a run are told how far it came, and whether its history grew as fast in its end as in its
beginning.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from temporalio.client import WorkflowHistory

from bench.engines import ENGINES
from bench.measures.ending import Stopped
from bench.measures.measured import parts
from bench.process import last_turn
from bench.programs.work import Work
from bench.stage import Stage, told

MAX_SECONDS = 1800
# How much of a run is its beginning, and its end.
END_SHARE = 0.1


async def measure(stage: Stage, work: Work) -> list[dict[str, Any]]:
    """Each engine once with the work; a row for each run."""
    rows = []
    for name in stage.workers:
        rows.append(await _row(stage, name, work))
        told(f"limits: {rows[-1]}")
    return rows


async def _row(stage: Stage, name: str, work: Work) -> dict[str, Any]:
    row: dict[str, Any] = {"engine": name, **asdict(work)}
    worker = stage.workers[name]
    worker.forget_peak()
    began_bytes = worker.memory_bytes
    try:
        run = await stage.run(name, work, timeout_seconds=MAX_SECONDS)
    except Stopped as stopped:
        return {**row, "stopped": str(stopped), "at_turn": await last_turn(stage.model_url)}
    grew_bytes = worker.peak_bytes - began_bytes
    chain = parts(stage.client, run.id, run.first_run_id)
    histories = [await part.fetch_history() async for part in chain]
    return {
        **row,
        "parts": run.parts,
        "history_bytes": run.history_bytes,
        "wall_seconds": run.wall_seconds,
        "cpu_seconds": run.cpu_seconds,
        "memory_grew_bytes": grew_bytes,
        **_grown(histories, ENGINES[name].asks),
    }


def _grown(histories: Sequence[WorkflowHistory], asks: str) -> dict[str, float]:
    """The largest event, and the bytes of a turn's events in the beginning and in the end.

    They are medians: the turn after which a run continues as new is no turn like the others.
    """
    turns, largest = [0], 0
    for event in (event for history in histories for event in history.events):
        size = event.ByteSize()
        if event.activity_task_scheduled_event_attributes.activity_type.name == asks:
            turns.append(0)
        turns[-1] += size
        largest = max(largest, size)
    share = max(1, int(len(turns) * END_SHARE))
    # Not the first: that is what comes before the model is asked for the first time.
    first, last = turns[1 : 1 + share], turns[-1 - share : -1]
    return {
        "largest_event_bytes": largest,
        "first_turn_bytes": statistics.median(first),
        "last_turn_bytes": statistics.median(last),
    }

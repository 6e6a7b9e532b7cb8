"""What a replay of a long run takes, each engine's by its own replayer in its own environment."""

import asyncio
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.engines import ENGINES
from bench.measures.ending import Stopped
from bench.measures.measured import Measured, parts
from bench.process import ROOT, environment
from bench.programs.work import Work
from bench.stage import Stage, told

MAX_SECONDS = 900


async def measure(stage: Stage, turns: Sequence[int], repeats: int) -> list[dict[str, Any]]:
    """Have each engine do runs, and replay each; a row for each replay."""
    rows = []
    for wanted in turns:
        for name in stage.workers:
            told(f"replay: {ENGINES[name].title}, {wanted} turns")
            rows += await _rows(stage, name, wanted, repeats)
    return rows


async def _rows(stage: Stage, name: str, turns: int, repeats: int) -> list[dict[str, Any]]:
    row: dict[str, Any] = {"engine": name, "turns": turns}
    try:
        run = await stage.run(name, Work(turns), timeout_seconds=MAX_SECONDS)
    except Stopped as stopped:
        return [{**row, "stopped": str(stopped)}]
    seconds = await _replayed(stage, name, run, repeats)
    return [{**row, "cpu_seconds": each} for each in seconds]


async def _replayed(stage: Stage, name: str, run: Measured, repeats: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        files: list[Path] = []
        async for part in parts(stage.client, run.id, run.first_run_id):
            history = await part.fetch_history()
            files.append(Path(folder) / f"{len(files)}.json")
            files[-1].write_text(history.to_json(), encoding="utf-8")
        return await asyncio.to_thread(_in_its_environment, name, repeats, files)


def _in_its_environment(name: str, repeats: int, files: list[Path]) -> list[float]:
    engine = ENGINES[name]
    # Without the folder of the program, whose files are not for every engine to find.
    command = [
        engine.python,
        "-P",
        "bench/programs/replaying.py",
        str(engine.replayed),
        str(repeats),
    ]
    environ = environment({"OPENAI_API_KEY": "-"})
    if engine.folder is None:
        environ["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [*command, *map(str, files)], cwd=ROOT, env=environ, capture_output=True, text=True
    )
    if done.returncode:
        why = f"exit code {done.returncode}: {done.stderr[-2000:]}"
        raise RuntimeError(f"the history of {name} does not replay: {why}")
    # Temporal's own core says things on standard output too.
    [said] = [line for line in done.stdout.splitlines() if line.startswith("[")]
    seconds: list[float] = json.loads(said)
    return seconds

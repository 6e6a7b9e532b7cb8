"""The way to the first approved side effect, in Python: ours and two peers, side by side.

Each program is the least that its project's pages have a user write: `approval.py`, beside the
scripted answers of its model. `python approval.py worker` and `python approval.py` run in two
terminals: the second one starts a run, shows the call that needs an approval, reads the answer of a
person, and prints a field of the run's typed result.
"""

import ast
import asyncio
import statistics
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from bench.engines import ENGINES, made
from bench.measures.measured import shown
from bench.process import ROOT, environment
from bench.server import embedded

FOLDERS: Final = {
    "holdfast": ROOT / "bench/programs/first_approval",
    "pydantic_ai": ROOT / "bench/peers/pydantic_ai",
    "openai_agents": ROOT / "bench/peers/openai_agents",
}
REPEATS = 3
WAIT_SECONDS = 60
POLL_SECONDS = 0.005
Ways = list[tuple[float, float]]
_PROGRAM: Final = "approval.py"
_MODEL: Final = ("scripted_model.py", "endpoints.yaml", "script.yaml")
_OF_NO_ENGINE: Final = {*sys.stdlib_module_names, "pydantic", "scripted_model"}


async def table(repeats: int = REPEATS) -> str:
    """Measure, as a Markdown table: medians of interleaved runs, a column for each engine."""
    await made([ENGINES[name] for name in FOLDERS])
    plain, killed = defaultdict[str, Ways](list), defaultdict[str, Ways](list)
    for _ in range(repeats):
        for name in FOLDERS:
            plain[name].append(await _way(name, killed=False))
            killed[name].append(await _way(name, killed=True))
    programs = [folder / _PROGRAM for folder in FOLDERS.values()]
    models = [[folder / file for file in _MODEL] for folder in FOLDERS.values()]
    rows: dict[str, Sequence[float]] = {
        "lines of the program": [_lines(program) for program in programs],
        "lines of the scripted model": [sum(map(_lines, files)) for files in models],
        "names imported": [_names(program) for program in programs],
        "from the first command to the question, s": [_median(plain[name], 0) for name in FOLDERS],
        "from the answer to the refund, s": [_median(plain[name], 1) for name in FOLDERS],
        "the same, if the worker was killed before, s": [
            _median(killed[name], 1) for name in FOLDERS
        ],
    }
    titles = [ENGINES[name].title for name in FOLDERS]
    lines = [f"| to an approved refund | {' | '.join(titles)} |"]
    lines.append(f"| --- |{' ---: |' * len(titles)}")
    lines += (f"| {row} | {' | '.join(map(shown, cells))} |" for row, cells in rows.items())
    return "\n".join(lines)


async def quick() -> str:
    """The same of one run each."""
    return await table(1)


def _median(ways: Ways, step: int) -> float:
    return statistics.median(way[step] for way in ways)


async def _way(name: str, *, killed: bool) -> tuple[float, float]:
    """Go it once, on a server of its own; the seconds to the question, and from its answer.

    With `killed`, the worker is killed at the question, and restarted just before the answer.

    Raises:
        RuntimeError: the refund was not made once, or its run came to another result.
    """
    async with AsyncExitStack() as stack:
        temporal = (await stack.enter_async_context(embedded())).client
        log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "worker.log"

        async def start(*arguments: str, **pipes: Any) -> Process:
            process = await asyncio.create_subprocess_exec(
                ROOT / ENGINES[name].python,
                _PROGRAM,
                *arguments,
                cwd=FOLDERS[name],
                env=environment({"TEMPORAL_ADDRESS": temporal.service_client.config.target_host}),
                **pipes,
            )
            stack.push_async_callback(_kill, process)
            return process

        async def start_worker() -> Process:
            with log.open("a") as output:
                return await start("worker", stdout=output, stderr=output)

        began = perf_counter()
        worker = await start_worker()
        await _until(log, "ready")
        person = await start(stdin=PIPE, stdout=PIPE)
        assert person.stdin is not None
        assert person.stdout is not None
        async with asyncio.timeout(WAIT_SECONDS):
            await person.stdout.readuntil(b"? ")
        asked = perf_counter()
        if _count(log, "refunded"):
            raise RuntimeError(f"{name} refunded before the approval")
        if killed:
            await _kill(worker)
            await start_worker()
        answered = perf_counter()
        person.stdin.write(b"y\n")
        await _until(log, "refunded")
        refunded = perf_counter()
        async with asyncio.timeout(WAIT_SECONDS):
            result = (await person.stdout.read()).decode().strip()
        if (result, _count(log, "refunded")) != ("R-7", 1):
            raise RuntimeError(f"{name} refunded otherwise than once, or answered `{result}`")
        return asked - began, refunded - answered


async def _until(log: Path, text: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not _count(log, text):
            await asyncio.sleep(POLL_SECONDS)


def _count(log: Path, text: str) -> int:
    return log.read_text(encoding="utf-8").count(text)


async def _kill(process: Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()


def _lines(file: Path) -> int:
    """Count the lines of a file that are neither blank, nor a comment, nor its module's header."""
    if not file.exists():
        return 0
    text = file.read_text(encoding="utf-8")
    header = ast.parse(text).body[0].end_lineno if file.suffix == ".py" else 0
    lines = [line.strip() for line in text.splitlines()[header:]]
    return sum(bool(line) and not line.startswith("#") for line in lines)


def _names(program: Path) -> int:
    """Count the names that a program imports from an engine and from Temporal."""
    tree = ast.parse(program.read_text(encoding="utf-8"))
    return sum(
        len(node.names)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        if node.module.split(".")[0] not in _OF_NO_ENGINE
    )

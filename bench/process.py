"""The programs of the bench, each a process of its own, and what each of them takes.

A program says a line with `ready` in it when it is at work. Its processor time and its memory are
read from outside, as Linux has them, alike for all.
"""

import asyncio
import os
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[1]
START_TIMEOUT_SECONDS = 120
STOP_TIMEOUT_SECONDS = 15
_MAX_QUOTED_CHARS = 2_000
_KIB = 1024


@dataclass(frozen=True)
class Program:
    """A program at work: its process, the line with which it was ready, where its errors go."""

    process: Process
    said: str
    log: Path

    @property
    def cpu_seconds(self) -> float:
        """The processor time that all its threads have taken."""
        # What clock_getcpuclockid(3) makes of a process id.
        return time.clock_gettime((~self.process.pid << 3) | 2)

    @property
    def memory_bytes(self) -> int:
        """What it holds in memory."""
        return self._status("VmRSS")

    @property
    def peak_bytes(self) -> int:
        """The most that it held in memory since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        """Let the peak begin with what it holds now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def errors(self) -> str:
        """The end of what it said on standard error."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-_MAX_QUOTED_CHARS:]

    async def kill(self) -> None:
        """End it as a crash does."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    def _status(self, key: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        [line] = [line for line in status.splitlines() if line.startswith(f"{key}:")]
        return int(line.split()[1]) * _KIB


@asynccontextmanager
async def running(
    command: Sequence[str | Path], environ: Mapping[str, str] | None = None
) -> AsyncIterator[Program]:
    """A program at work, and stopped in the end.

    Raises:
        RuntimeError: it ended, or was not ready in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "errors.log"
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=ROOT,
                env=environment(environ or {}),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=errors,
            )
        program = Program(process, "", log)
        try:
            said = await _until_ready(program, str(command[1]))
            draining = asyncio.create_task(_drain(process))
            yield Program(process, said, log)
            draining.cancel()
        finally:
            await _stop(process)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """What a program of the bench has for its environment, besides `more`."""
    # Without what Python has compiled, a run's beginning costs three times as much.
    kept = {name: of for name, of in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **more}


async def _until_ready(program: Program, name: str) -> str:
    assert program.process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT_SECONDS):
            async for line in program.process.stdout:
                if b"ready" in line:
                    return line.decode().strip()
    except TimeoutError:
        late = f"{name} was not ready in {START_TIMEOUT_SECONDS} s: {program.errors()}"
        raise RuntimeError(late) from None
    raise RuntimeError(f"{name} did not start: {program.errors()}")


async def _drain(process: Process) -> None:
    """Read what it says, so that it is never held up by a full pipe."""
    assert process.stdout is not None
    while await process.stdout.read(1 << 16):
        pass


async def _stop(process: Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


@asynccontextmanager
async def fake_model() -> AsyncIterator[str]:
    """A model that answers at once; its base URL."""
    async with running([sys.executable, "-m", "bench.programs.model"]) as program:
        yield program.said.split()[-1]


async def last_turn(model_url: str) -> int:
    """The furthest turn that a model was asked for since this was last called."""
    async with httpx.AsyncClient() as http:
        return int((await http.get(f"{model_url}/turn")).json())


@asynccontextmanager
async def our_worker(
    address: str, queue: str, model_url: str, *options: str, endpoint: str = "", **environ: str
) -> AsyncIterator[Program]:
    """Our worker, as an operator starts it, with the tools of the bench; `endpoint` adds fields."""
    with tempfile.TemporaryDirectory() as folder:
        endpoints = Path(folder) / "endpoints.yaml"
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model_url}'{endpoint}}}\n")
        command = [sys.executable, "worker.py", "--tools", "bench/programs/tools.py", *options]
        command += ["--endpoints", str(endpoints), "--task-queue", queue]
        async with running(command, {"TEMPORAL_ADDRESS": address, **environ}) as program:
            yield program

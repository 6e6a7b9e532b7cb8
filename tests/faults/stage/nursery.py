"""The harness's side of the zygote: workers are born, and their deaths are heard of."""

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
END_TIMEOUT_SECONDS = 10


class Life:
    """One worker process. `ended` is its wait status, once it has one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if not self.ended.done():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def kill(self) -> None:
        """End it as a crash does."""
        self.send(signal.SIGKILL)
        await asyncio.wait_for(asyncio.shield(self.ended), END_TIMEOUT_SECONDS)


class Nursery:
    """Where workers are born."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = itertools.count()
        self._born: dict[int, asyncio.Future[Life]] = {}
        self._lives: dict[int, Life] = {}

    async def bear(self, orders: dict[str, Any]) -> Life:
        """A worker that begins to carry out these orders."""
        number = next(self._ids)
        born = self._born[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, **orders}).encode() + b"\n")
        await self._process.stdin.drain()
        life: Life = await born
        return life

    async def listen(self) -> None:
        """Hear of births and deaths, for as long as the zygote lives."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            if "id" in told:
                life = self._lives[told["pid"]] = Life(told["pid"])
                self._born.pop(told["id"]).set_result(life)
            else:
                self._lives.pop(told["pid"]).ended.set_result(told["status"])


@asynccontextmanager
async def nursery() -> AsyncIterator[Nursery]:
    """A zygote that has imported everything, and goes with its workers at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.stage.zygote"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    made = Nursery(process)
    listening = asyncio.create_task(made.listen())
    try:
        yield made
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await listening

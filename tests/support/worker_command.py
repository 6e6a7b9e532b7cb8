"""`python worker.py …` as a process: what it says, and how it ends."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOBODY = "127.0.0.1:1"


class Command:
    """`python worker.py …` and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[str] = []

    async def until(self, beginning: str) -> str:
        """The next line that begins so."""
        assert self._process.stdout is not None
        async with asyncio.timeout(40):
            while line := (await self._process.stdout.readline()).decode().rstrip("\n"):
                self.lines.append(line)
                if line.startswith(beginning):
                    return line
        raise AssertionError(f"it ended: {self.lines}, {await self.end()}")

    def signal(self) -> None:
        """Ask it to stop."""
        self._process.send_signal(signal.SIGTERM)

    async def end(self) -> tuple[int | None, list[str]]:
        """Its exit code, and the lines on standard error."""
        out, err = await self._process.communicate()
        self.lines += out.decode().splitlines()
        return self._process.returncode, err.decode().splitlines()


@asynccontextmanager
async def command(*arguments: str, address: str = NOBODY, **more: str) -> AsyncIterator[Command]:
    """Run the command in this process's folder, with no settings but these."""
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(ROOT / "worker.py"), *arguments),
        env={**kept, "TEMPORAL_ADDRESS": address, **more},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Command(process)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.communicate()

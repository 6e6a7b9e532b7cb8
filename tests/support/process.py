"""The worker and the inbox as people run them: processes, which can be killed."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
# Python itself, also where the fixture `quick_starts` has commands forked.
PYTHON = sys.executable


class Process:
    """`python …` in the folder of the project; `ready` begins the line that reports that it is."""

    def __init__(self, ready: str, *command: str, **environment: str) -> None:
        self._ready = ready
        self._command = [sys.executable, *command]
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start it, and wait until it is ready; what it prints then."""
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(self._ready):
                return line.removeprefix(self._ready).strip()
        ended = f"{self._command[1]} ended with {self._process.wait()} before it was ready"
        raise RuntimeError(ended)

    def kill(self) -> None:
        """Kill the process, as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the process, as an operator does."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.wait(120)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.kill()


READY = "holdfast worker ready"
# A worker that names an inbox as its viewer sends it live text.
VIEWERS = {"HOLDFAST_VIEWERS_KEY": "a-key-of-workers-and-inboxes"}


class WorkerProcess(Process):
    """`python worker.py …`."""

    def __init__(self, address: str, *options: str) -> None:
        script = str(ROOT / "worker.py")
        super().__init__(READY, script, *options, TEMPORAL_ADDRESS=address, **VIEWERS)


INBOX_READY = "inbox ready: "
# What keeps those signed in who were, through any end of the process.
SECRET = "a-secret-that-all-instances-share"


class InboxProcess(Process):
    """`holdfast inbox`; `link` is what it prints to sign in by."""

    def __init__(self, address: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        super().__init__(
            INBOX_READY,
            *("-m", "holdfast", "inbox", "--port", str(port), "--by", "ann"),
            TEMPORAL_ADDRESS=address,
            HOLDFAST_INBOX_SECRET=SECRET,
            **VIEWERS,
        )
        self.url = f"http://127.0.0.1:{port}"
        self.link = ""

    def start(self) -> str:
        """Start it, and wait until it answers; its link."""
        self.link = super().start()
        return self.link


NO_SERVER = "127.0.0.1:1"


class Command:
    """`python worker.py …` and what it has printed so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[str] = []

    async def until(self, beginning: str) -> str:
        """The next line that begins so."""
        assert self._process.stdout is not None
        async with asyncio.timeout(120):
            while line := (await self._process.stdout.readline()).decode().rstrip("\n"):
                self.lines.append(line)
                if line.startswith(beginning):
                    return line
        raise AssertionError(f"it ended: {self.lines}, {await self.end()}")

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to stop."""
        self._process.send_signal(number)

    async def end(self) -> tuple[int | None, list[str]]:
        """Its exit code, and the lines on standard error."""
        out, err = await self._process.communicate()
        self.lines += out.decode().splitlines()
        return self._process.returncode, err.decode().splitlines()


@asynccontextmanager
async def command(*arguments: str, address: str = NO_SERVER, **more: str) -> AsyncIterator[Command]:
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

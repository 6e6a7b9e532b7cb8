"""A command as people run it: a process that says when it is ready, and can be killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]


class Process:
    """`python …` in the folder of the project; `ready` begins the line that says that it is."""

    def __init__(self, ready: str, *command: str, **environment: str) -> None:
        self._ready = ready
        self._command = [sys.executable, *command]
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start it, and wait until it is ready; what it says then."""
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
        """End it as a crash does: at once, with nothing told to anybody."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an operator does."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.wait(30)
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

"""A worker as people run it: a process, which can be killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[2]
READY = "holdfast worker ready"


class WorkerProcess:
    """`python worker.py …` in a process group of its own."""

    def __init__(self, address: str, *options: str) -> None:
        self._command = [sys.executable, str(ROOT / "worker.py"), *options]
        self._environment = {**os.environ, "TEMPORAL_ADDRESS": address, "PYTHONUNBUFFERED": "1"}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it takes work."""
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(READY):
                return
        raise RuntimeError(f"the worker ended with {self._process.wait()} before it was ready")

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

    def __enter__(self) -> "WorkerProcess":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.kill()

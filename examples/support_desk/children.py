"""A process that the demonstration starts, and stops again."""

import asyncio
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

_POLL_SECONDS = 0.05
# A worker gives its activities ten seconds to finish.
_STOP_SECONDS = 20.0


class NotReadyError(Exception):
    """A process ended, or took too long, before it said that it is ready."""


class Child:
    """A process whose output goes to the end of the file `log`.

    Used as a context manager, it is stopped when the block ends. Ctrl-C in the terminal does not
    reach it: who started it decides when it stops.
    """

    def __init__(self, command: Sequence[str], *, log: Path, env: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as output:
            self._said_before_bytes = output.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def ready(self, beginning: str, timeout_seconds: float) -> str:
        """Wait until the process has written a line with this beginning, and give the rest of it.

        Raises:
            NotReadyError: it has ended, or the time is over.
        """
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            ended = self._process.poll() is not None
            for line in self._said():
                if line.startswith(beginning):
                    return line.removeprefix(beginning)
            if ended:
                raise NotReadyError(self._reason())
            await asyncio.sleep(_POLL_SECONDS)
        raise NotReadyError(f"not within {timeout_seconds:.0f} s; see {self.log}")

    def kill(self) -> None:
        """End the process at once, as `kill -9` does."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask the process to stop, and kill it if it has not after 20 s."""
        try:
            self._process.terminate()
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def _said(self) -> list[str]:
        with self.log.open("rb") as log:
            log.seek(self._said_before_bytes)
            return log.read().decode(errors="replace").splitlines()

    def _reason(self) -> str:
        """Why it ended, in a line: a program says first what is wrong, a traceback last."""
        said = [line.strip() for line in self._said() if line.strip() and " WARNING " not in line]
        if not said:
            return f"it ended with code {self._process.returncode}"
        if any(line.startswith("Traceback") for line in said):
            return said[-1]
        return said[0] if len(said) == 1 else f"{said[0]} (and more in {self.log})"

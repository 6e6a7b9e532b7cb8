"""A server process that can be killed and started again, and that ends with this process."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bench.process import environment
from holdfast.hosting import parent_watchdog

_MAX_QUOTED_CHARS = 2_000


class Daemon:
    """A program, its environment, and the file that its output is appended to."""

    def __init__(
        self, command: Sequence[str | Path], log: Path, environ: Mapping[str, str]
    ) -> None:
        self._command, self._environ = command, environ
        self.log = log
        self._process: Process | None = None

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it; it may take a while until it answers."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", parent_watchdog.__file__, *self._command),
                cwd=self.log.parent,
                env=environment(self._environ),
                stdin=PIPE,  # the watchdog ends the program when this process dies
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for this process, which still needs it
            )

    async def kill(self) -> None:
        """End it and all its processes at once, as a power cut does."""
        if self._process is None or not self.runs:
            return
        # The watchdog ends after its program, so that its end is that of the program.
        watchdog, *program = _descendants(self._process.pid)
        for pid in program or [watchdog]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await self._process.wait()

    def output(self) -> str:
        """The end of what it has written."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-_MAX_QUOTED_CHARS:]


def _descendants(pid: int) -> list[int]:
    """A process, and those that it and they have started."""
    found = [pid]
    with suppress(FileNotFoundError, ProcessLookupError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        for child in children.split():
            found += _descendants(int(child))
    return found

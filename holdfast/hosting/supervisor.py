"""Run several worker processes from one command: `holdfast worker --processes N`.

The supervisor is the command's own process: it checks all that the settings name and connects to
Temporal once, has the signals, the probes and the embedded server of `--dev`, and runs no worker.

- Before all processes are ready, the end of one ends the command, with its exit code.
- Afterwards, one that ends is started again after a pause. Unless it is ready for STEADY_SECONDS,
  the next pause is twice as long; after MAX_RESTARTS in a row the command ends.
- The command's first signal lets all processes stop as a worker does. At a second one, or if one
  does not stop in time, all are killed.

A process has a socket to the supervisor as its standard input. It sends a line when it is ready,
and then, for each line that it receives, its answer to `/ready` in JSON. When the supervisor closes
the socket, or is killed, it stops as after SIGTERM.
"""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any, Final, Self

from holdfast.hosting.dev_server import terminate_dev_servers
from holdfast.hosting.monitoring.probes import (
    ALIVE,
    ASK_TIMEOUT_SECONDS,
    STARTING,
    STOPPING,
    Health,
    ProbeAnswer,
)
from holdfast.hosting.process_exit import CUT_OFF, STOPPED, print_error

MAX_RESTARTS: Final = 5
FIRST_PAUSE_SECONDS: Final = 1.0
STEADY_SECONDS: Final = 60.0
# A process asks Temporal for its answer.
ANSWER_TIMEOUT_SECONDS: Final = ASK_TIMEOUT_SECONDS + 1
# The address of Temporal, for a process.
_VARIABLE: Final = "HOLDFAST_SUPERVISED"
_ATTRIBUTES: Final = "OTEL_RESOURCE_ATTRIBUTES"

_SILENT: Final = ProbeAnswer(False, "the worker does not answer")
logger = logging.getLogger("holdfast")


class SupervisorLink:
    """In a process of a supervisor, the connection to it; `address` is that of Temporal."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(fileno=os.dup(0))
        # The programs that tools start inherit standard input: it has ended for them.
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)

    @classmethod
    def of_this_process(cls) -> Self | None:
        """Return the connection, once, or None in a process without a supervisor."""
        address = os.environ.pop(_VARIABLE, None)
        return None if address is None else cls(address)

    async def open(self, health: Health) -> None:
        """Answer the supervisor from now on; stop this process when it closes the socket."""
        reader, self._writer = await asyncio.open_connection(sock=self._socket)
        self._answering = asyncio.create_task(self._answer(reader, health))

    def report_ready(self) -> None:
        """Let the supervisor know that the worker polls for tasks."""
        self._writer.write(b"\n")

    async def _answer(self, reader: asyncio.StreamReader, health: Health) -> None:
        with suppress(ConnectionError):
            while await reader.readline():
                self._writer.write(json.dumps(await health.ready()).encode() + b"\n")
        os.kill(os.getpid(), signal.SIGTERM)


class WorkerProcess:
    """A process of the supervisor, and the connection to it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader, self._writer = reader, writer
        self._is_ready = False
        self._answer: asyncio.Task[Any] | None = None

    @classmethod
    async def start(cls, number: int, words: Sequence[str], address: str) -> Self:
        """Start a process with these options, whose embedded server is at the address."""
        # Series of two processes with the same labels would replace each other.
        instance, named = r"(\bservice\.instance\.id *=[^,]*)", os.environ.get(_ATTRIBUTES, "")
        numbered = {_ATTRIBUTES: re.sub(instance, rf"\g<1>-{number}", named)} if named else {}
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                # `-P`: as for `holdfast worker`, this folder is not the first that is searched.
                *(sys.executable, "-P", "-m", "holdfast.hosting.worker", *words, "--processes=1"),
                stdin=theirs.fileno(),
                env={**os.environ, **numbered, _VARIABLE: address},
                start_new_session=True,  # Ctrl-C in the terminal is for the supervisor
            )
        return cls(process, *await asyncio.open_connection(sock=ours))

    async def ended(self) -> int:
        """Wait until the process has ended; return its exit code, or a signal as -9."""
        return await self._process.wait()

    async def became_ready(self) -> bool:
        """Wait until it is ready; return False if it ends before."""
        with suppress(OSError):
            self._is_ready = bool(await self._reader.readline())
        return self._is_ready

    async def health(self) -> ProbeAnswer:
        """Return whether it is ready, or that it does not answer."""
        if not self._is_ready:
            return STARTING
        if self._answer is None or self._answer.done():
            self._writer.write(b"\n")
            self._answer = asyncio.create_task(self._reader.readline())
        with suppress(TimeoutError, OSError, ValueError):
            async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                return ProbeAnswer(*json.loads(await asyncio.shield(self._answer)))
        return _SILENT

    def stop(self) -> None:
        """Let the process stop, without waiting."""
        self._writer.close()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()


class Supervisor:
    """The processes of one command; for its probes, their health."""

    def __init__(self, words: Sequence[str], count: int) -> None:
        self.exit_code = STOPPED
        self._words = words
        self._ready = {number: asyncio.Event() for number in range(1, count + 1)}
        self._processes: dict[int, WorkerProcess] = {}
        self._is_stopping = False

    @asynccontextmanager
    async def running(self, address: str) -> AsyncIterator[None]:
        """Run the processes, with the embedded server at the address; yield when all are ready."""
        async with asyncio.TaskGroup() as group:
            try:
                for number in self._ready:
                    group.create_task(self._keep_running(number, address))
                for each in self._ready.values():
                    await each.wait()
                yield
            finally:
                self._is_stopping = True

    def abandon(self) -> None:
        """Kill the processes and the embedded server, without waiting."""
        for process in [*self._processes.values()]:  # from another thread
            process.kill()
        terminate_dev_servers()

    async def live(self) -> ProbeAnswer:
        """Return whether each process answers that has become ready."""
        answers = (await self._answers()).items()
        silent = [f"process {number}: {each.text}" for number, each in answers if each is _SILENT]
        return ProbeAnswer(False, "; ".join(silent)) if silent else ALIVE

    async def ready(self) -> ProbeAnswer:
        """Return whether all processes are ready, with the answer of each."""
        answers = await self._answers()
        text = "; ".join(f"process {number}: {each.text}" for number, each in answers.items())
        is_ok = all(each.is_ok for each in answers.values())
        return STOPPING if self._is_stopping else ProbeAnswer(is_ok, text)

    async def _answers(self) -> dict[int, ProbeAnswer]:
        asked = {} if self._is_stopping else {**self._processes}
        answers = await asyncio.gather(*(process.health() for process in asked.values()))
        return dict.fromkeys(self._ready, STARTING) | dict(zip(asked, answers, strict=True))

    async def _keep_running(self, number: int, address: str) -> None:
        """Run a process, and another one whenever it has ended, within the bound."""
        restarts = 0
        while True:
            code, ready_seconds = await self._run_process(number, address)
            restarts = restarts + 1 if ready_seconds < STEADY_SECONDS else 1
            how = f"code {code}" if code >= 0 else f"signal {-code}"
            is_start = not all(each.is_set() for each in self._ready.values())
            if is_start or restarts > MAX_RESTARTS:
                break
            pause = FIRST_PAUSE_SECONDS * 2 ** (restarts - 1)
            text = "worker process %s ended with %s; it is started again in %g s"
            logger.warning(text, number, how, pause)
            await asyncio.sleep(pause)
        when = "before all were ready" if is_start else f"{restarts} times, soon after each start"
        print_error(f"holdfast: worker process {number} ended with {how} {when}; see the log above")
        if self.exit_code == STOPPED:  # no other one has ended the command
            self.exit_code = max(code, CUT_OFF)
            os.kill(os.getpid(), signal.SIGTERM)

    async def _run_process(self, number: int, address: str) -> tuple[int, float]:
        """Run one process until it has ended.

        Returns:
            Its exit code, or a signal as -9, and for how many seconds it was ready.
        """
        try:
            process = await WorkerProcess.start(number, self._words, address)
        except OSError as error:
            logger.warning("worker process %s cannot be started: %s", number, error)
            return CUT_OFF, 0.0
        self._processes[number] = process
        try:
            if not await process.became_ready():
                return await process.ended(), 0.0
            since = monotonic()
            self._ready[number].set()
            return await process.ended(), monotonic() - since
        finally:
            process.stop()
            if await process.ended() and self._is_stopping:
                self.exit_code = self.exit_code or CUT_OFF
            del self._processes[number]

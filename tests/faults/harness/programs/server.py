"""A Temporal server for cases: one that stays, or one that can be killed, with its data in a file.

Killed and started again it has what it had, as a real one does whose database lives on.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from holdfast.hosting import parent_watchdog
from holdfast.hosting.dev_server import CONFIG_OPTIONS, HOST, free_port, temporal_binary
from holdfast.hosting.temporal import usable_search_attributes
from holdfast.runtime.data_converter import data_converter
from tests.support.eventually import eventually

NAMESPACE = "default"
START_TIMEOUT_SECONDS = 30
_ANSWER_TIMEOUT_SECONDS = 2
_LEASH = parent_watchdog.__file__


class Server:
    """Temporal's dev server, in a process group of its own."""

    def __init__(self, folder: Path) -> None:
        self._database = folder / "temporal.db"
        self._log = folder / "temporal.log"
        self._port = free_port()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        """Where it is, whether it runs or not."""
        return f"{HOST}:{self._port}"

    async def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            RuntimeError: it ended instead.
        """
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", str(_LEASH), str(temporal_binary())),
                *("server", "start-dev", "--headless"),
                *("--ip", HOST, "--port", str(self._port), "--namespace", NAMESPACE),
                *("--db-filename", str(self._database), "--log-level", "error", *CONFIG_OPTIONS),
                stdin=asyncio.subprocess.PIPE,  # Its end, when this process dies, ends the server.
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        await eventually(self._answers, START_TIMEOUT_SECONDS)

    async def kill(self) -> None:
        """End it as a power cut does, as far as a process can: at once, with nothing finished."""
        if self._process is not None:
            with suppress(ProcessLookupError):  # it ended by itself
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            self._process = None
            # That was the leash: the server itself may take a moment longer.
            await eventually(self._is_free)

    async def _is_free(self) -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind((HOST, self._port))
                return True
        return False

    async def _answers(self) -> bool:
        if self._process is None or self._process.returncode is not None:
            raise RuntimeError(f"the server ended: {self._log.read_text(errors='replace')}")
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_SECONDS):
                await Client.connect(self.address)
        except (TimeoutError, RuntimeError):
            return False
        return True


# By itself the server deals out so few tasks a second that it would hold up everything.
QUICK = ("--dynamic-config-value", "history.transferProcessorMaxPollRPS=10000")


class Ground:
    """A server and a client of it. The data of one that can be killed are in a file."""

    def __init__(self, client: Client, server: Server | None = None) -> None:
        self.client = client
        self._server = server

    @property
    def address(self) -> tuple[str, int]:
        """Where the server is."""
        host, _, port = self.client.service_client.config.target_host.rpartition(":")
        return host, int(port)

    async def inflict(self, kind: str) -> Callable[[], Awaitable[None]]:
        """Have the server die; what has it there again, with what it had."""
        assert self._server is not None  # the ground is frail
        await self._server.kill()
        return self._server.start


@asynccontextmanager
async def firm() -> AsyncIterator[Ground]:
    """A server that stays."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(temporal_binary()),
        dev_server_extra_args=(*CONFIG_OPTIONS, *QUICK),
        dev_server_log_level="never",
        data_converter=data_converter,
    ) as environment:
        await usable_search_attributes(environment.client)
        yield Ground(environment.client)


@asynccontextmanager
async def frail() -> AsyncIterator[Ground]:
    """A server that can be killed, and started again on what it had."""
    with TemporaryDirectory(prefix="holdfast-") as folder:
        server = Server(Path(folder))
        try:
            await server.start()
            client = await Client.connect(server.address, data_converter=data_converter)
            await usable_search_attributes(client)
            yield Ground(client, server)
        finally:
            await server.kill()

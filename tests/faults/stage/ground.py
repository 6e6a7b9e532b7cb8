"""What cases stand on: a Temporal server, of one's own where it is to die."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from holdfast.hosting.dev_server import CONFIG_OPTIONS, temporal_binary
from holdfast.hosting.temporal import data_converter, usable_search_attributes
from tests.faults.stage.server import Server

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

    async def kill(self) -> None:
        """Have the server die."""
        assert self._server is not None  # the ground is frail
        await self._server.kill()

    async def start(self) -> None:
        """Have the server there again, with what it had."""
        assert self._server is not None  # the ground is frail
        await self._server.start()


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
        async with Server(Path(folder)) as server:
            yield Ground(await server.client(), server)

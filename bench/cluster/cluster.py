"""Temporal as it runs in production: a process for each of its services, on PostgreSQL.

The services read the environment variables of the server's own container image. Everything is on
loopback, on free ports, in a folder of its own.
"""

import asyncio
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from google.protobuf.duration_pb2 import Duration
from temporalio import workflow
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from bench.cluster.daemon import Daemon
from bench.cluster.postgresql import PLUGIN, USER, Postgresql
from bench.cluster.programs import Programs, programs
from bench.counters import Counters
from bench.server import TASK_BATCHES, TASK_BATCHES_PER_SECOND, Server
from holdfast.hosting.dev_server import HOST, free_port
from tests.support.eventually import eventually

SERVICES = ("history", "matching", "frontend", "worker")
NAMESPACE = "default"
# The number of shards cannot change later. Production clusters have hundreds.
SHARDS = 4
START_TIMEOUT_SECONDS = 120
_WORKFLOW_TIMEOUT_SECONDS = 10
T = TypeVar("T")
_RETENTION = Duration(seconds=24 * 3600)


@workflow.defn(sandboxed=False)
class Ready:
    """Ends at once: where it runs, the cluster is ready."""

    @workflow.run
    async def run(self) -> bool:
        """Its end."""
        return True


class Cluster:
    """A PostgreSQL server, the services of a Temporal server, and a client of them."""

    def __init__(
        self, programs: Programs, folder: Path, database_settings: Sequence[str] = ()
    ) -> None:
        self.postgresql = Postgresql(programs, folder, database_settings)
        ports = {name: free_port() for name in SERVICES}
        metrics_ports = {name: free_port() for name in SERVICES}
        self._first_port = ports[SERVICES[0]]
        self.address = f"{HOST}:{ports['frontend']}"
        self.counters = Counters(
            [f"http://{HOST}:{port}/metrics" for port in metrics_ports.values()], NAMESPACE
        )
        settings = folder / "dynamic_config.yaml"
        settings.write_text(f"{TASK_BATCHES}: [{{value: {TASK_BATCHES_PER_SECOND}}}]\n")
        environ = {
            "DB": PLUGIN,
            "POSTGRES_SEEDS": HOST,
            "DB_PORT": str(self.postgresql.port),
            "POSTGRES_USER": USER,
            "NUM_HISTORY_SHARDS": str(SHARDS),
            "BIND_ON_IP": HOST,
            "TEMPORAL_BROADCAST_ADDRESS": HOST,
            "DYNAMIC_CONFIG_FILE_PATH": str(settings),
            "LOG_LEVEL": "error",
            "FRONTEND_HTTP_PORT": str(free_port()),
            **{f"{name.upper()}_GRPC_PORT": str(port) for name, port in ports.items()},
            **{f"{name.upper()}_MEMBERSHIP_PORT": str(free_port()) for name in SERVICES},
        }
        self.services = {
            name: Daemon(
                [programs.temporal / "server", "start", "--service", name],
                folder / f"{name}.log",
                {**environ, "PROMETHEUS_ENDPOINT": f"{HOST}:{port}"},
            )
            for name, port in metrics_ports.items()
        }

    @property
    def daemons(self) -> list[Daemon]:
        """Its processes, in the order in which they start."""
        return [self.postgresql.daemon, *self.services.values()]

    async def start(self, data_converter: DataConverter) -> Client:
        """Start everything on a new database, and run a first workflow.

        Raises:
            RuntimeError: a process ended instead.
            TimeoutError: no workflow was run in time.
        """
        await asyncio.to_thread(self.postgresql.create)
        await self.postgresql.daemon.start()
        await self._until(self.postgresql.answers)
        await asyncio.to_thread(self.postgresql.create_databases)
        # The first service writes the cluster's metadata: two at once would be in conflict.
        first, *others = self.services.values()
        await first.start()
        await self._until(lambda: _listens(self._first_port))
        for daemon in others:
            await daemon.start()
        client = await self._until(lambda: self._connected(data_converter))
        await self._until(lambda: _has_namespace(client))
        await self._until(lambda: runs_workflows(client))
        return client

    async def kill(self) -> None:
        """End everything: its data is not needed again."""
        for daemon in reversed(self.daemons):
            await daemon.kill()

    async def _until(self, condition: Callable[[], Awaitable[T | None]]) -> T:
        started = [daemon for daemon in self.daemons if daemon.runs]

        async def held() -> T | None:
            for daemon in started:
                if not daemon.runs:
                    raise RuntimeError(f"{daemon.log.stem} ended: {daemon.output()}")
            return await condition()

        return await eventually(held, START_TIMEOUT_SECONDS)

    async def _connected(self, data_converter: DataConverter) -> Client | None:
        try:
            return await Client.connect(self.address, data_converter=data_converter)
        except RuntimeError:  # it does not answer yet
            return None


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True


async def _has_namespace(client: Client) -> bool:
    request = RegisterNamespaceRequest(
        namespace=NAMESPACE, workflow_execution_retention_period=_RETENTION
    )
    try:
        await client.workflow_service.register_namespace(request)
    except RPCError as error:
        return error.status == RPCStatusCode.ALREADY_EXISTS
    return True


async def runs_workflows(client: Client) -> bool:
    """Whether a workflow runs, from its start to its end."""
    queue = f"ready-{uuid.uuid4().hex[:8]}"
    try:
        async with (
            asyncio.timeout(_WORKFLOW_TIMEOUT_SECONDS),
            Worker(client, task_queue=queue, workflows=[Ready]),
        ):
            return await client.execute_workflow(Ready.run, id=queue, task_queue=queue)
    except (RPCError, RuntimeError, TimeoutError):
        return False


@asynccontextmanager
async def cluster() -> AsyncIterator[Server]:
    """A cluster on a new database, as a server of the bench.

    Raises:
        Unavailable: Go or PostgreSQL is missing.
    """
    found = await asyncio.to_thread(programs)
    with tempfile.TemporaryDirectory(prefix="holdfast-cluster-") as folder:
        started = Cluster(found, Path(folder))
        try:
            yield Server(await started.start(pydantic_data_converter), started.counters)
        finally:
            await started.kill()

"""A Temporal server for a part of the bench: of its own, since it keeps all histories in memory."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from bench.counters import Counters
from holdfast.hosting.dev_server import CONFIG_OPTIONS, HOST, free_port, temporal_binary

# A shard hands out 20 batches of tasks a second, one every 50 ms. Production clusters have hundreds
# of shards; with the few of a bench, wall times would be this limit's, and the same for all.
TASK_BATCHES = "history.transferProcessorMaxPollRPS"
TASK_BATCHES_PER_SECOND = 10_000


@dataclass(frozen=True)
class Server:
    """A server: a client of it, and what it counts."""

    client: Client
    counters: Counters


Start = Callable[[], AbstractAsyncContextManager[Server]]


@asynccontextmanager
async def embedded() -> AsyncIterator[Server]:
    """The embedded server, in memory."""
    metrics_port = free_port()
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(temporal_binary()),
        dev_server_startup_timeout=timedelta(minutes=1),
        data_converter=pydantic_data_converter,
        dev_server_log_level="error",
        dev_server_extra_args=[
            *CONFIG_OPTIONS,
            f"--dynamic-config-value={TASK_BATCHES}={TASK_BATCHES_PER_SECOND}",
            f"--metrics-port={metrics_port}",
        ],
    ) as environment:
        yield Server(environment.client, Counters([f"http://{HOST}:{metrics_port}/metrics"]))

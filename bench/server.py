"""A Temporal server for a part of the bench: of its own, since it keeps all histories in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from holdfast.hosting.dev_server import CONFIG_OPTIONS, temporal_binary

# The development server hands out 20 tasks a second, one every 50 ms, which no other server does:
# so wall times would be the server's, and the same for whatever runs on it.
LIFTED = ("--dynamic-config-value", "history.transferProcessorMaxPollRPS=10000")


@asynccontextmanager
async def server() -> AsyncIterator[Client]:
    """The embedded server, in memory; a client of it."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(temporal_binary()),
        data_converter=pydantic_data_converter,
        dev_server_log_level="error",
        dev_server_extra_args=[*CONFIG_OPTIONS, *LIFTED],
    ) as environment:
        yield environment.client

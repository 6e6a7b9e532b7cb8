"""What the whole suite shares: one real server, and a client of it."""

import gc
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from holdfast.hosting.dev_server import CONFIG_OPTIONS, temporal_binary
from holdfast.hosting.process_exit import exit_process
from holdfast.hosting.temporal import usable_search_attributes
from holdfast.runtime.data_converter import data_converter
from tests.support.fixtures import (
    default_ports,
    forking,
    holdfast,
    launch,
    ledger,
    quick_starts,
)
from tests.support.watchdog.plugin import Watchdog

__all__ = ["default_ports", "forking", "holdfast", "launch", "ledger", "quick_starts"]

# The same examples each time, however slow the machine is: `make test-fuzz` makes up others.
TOO_MUCH = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
COMMON = settings(deadline=None, suppress_health_check=TOO_MUCH)
settings.register_profile("same", COMMON, derandomize=True, max_examples=25)
settings.register_profile("long", COMMON, max_examples=5_000)
settings.load_profile("same")

STATUS = pytest.StashKey[int]()
# A run that continues as new is kept for a second otherwise: chains are made of many. One that
# has just closed is deleted when its tasks are known to be done, half a minute later.
AT_ONCE = (
    *("--dynamic-config-value", 'history.workflowIdReuseMinimalInterval="1ms"'),
    *("--dynamic-config-value", 'history.transferProcessorUpdateAckInterval="1s"'),
    *("--dynamic-config-value", 'history.visibilityProcessorUpdateAckInterval="1s"'),
)


# What is imported and collected stays: half a million objects. Looking for garbage among them takes
# a sixth of the collection, and half a second of a workflow or a test that is timed.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    """Limit the time of each test as a whole."""
    config.pluginmanager.register(Watchdog())


def pytest_collection_finish() -> None:
    """Exempt what was collected from garbage collection."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep the result of the session, for its very end."""
    session.config.stash[STATUS] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End as the worker does: Python's clearing up is aborted by Temporal's client now and then."""
    if STATUS in config.stash:
        exit_process(config.stash[STATUS])


@pytest.fixture(scope="session")
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """A dev server for the session, as `--dev` starts it, with the search attributes that a worker
    registers."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(temporal_binary()),
        dev_server_extra_args=[*CONFIG_OPTIONS, *AT_ONCE],
        dev_server_startup_timeout=timedelta(minutes=5),
        data_converter=data_converter,
    ) as environment:
        await usable_search_attributes(environment.client)
        yield environment


@pytest.fixture(scope="session")
def client(temporal: WorkflowEnvironment) -> Client:
    """A client of the session's server."""
    return temporal.client

"""What the whole suite shares: one real server, and a client of it."""

import fcntl
import gc
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

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
COLLECTING = pytest.StashKey[TextIO]()
# A run that continues as new is kept for a second otherwise: chains are made of many. One that
# has just closed is deleted when its tasks are known to be done, half a minute later. A connection
# is closed after five minutes: a request of then is cancelled, unless it is sent with `retry=True`.
SERVER_OPTIONS = (
    *("--dynamic-config-value", 'history.workflowIdReuseMinimalInterval="1ms"'),
    *("--dynamic-config-value", 'history.transferProcessorUpdateAckInterval="1s"'),
    *("--dynamic-config-value", 'history.visibilityProcessorUpdateAckInterval="1s"'),
    *("--dynamic-config-value", 'frontend.keepAliveMaxConnectionAge="24h"'),
)


# What is imported and collected stays: half a million objects. Looking for garbage among them takes
# a sixth of the collection, and half a second of a workflow or a test that is timed.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    """Limit the time of each test as a whole."""
    config.pluginmanager.register(Watchdog())


# A fresh checkout is compiled by the first of several processes alone: it takes each as long as
# all of the collection, and they would all do so at once.


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Lock the collection for all processes but the first."""
    config.stash[COLLECTING] = Path(__file__).open()  # noqa: SIM115  # closed by what unlocks
    fcntl.flock(config.stash[COLLECTING], fcntl.LOCK_EX)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Wait for the first process, which has the number 0."""
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
        with Path(__file__).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """Unlock the collection: the first process has finished it."""
    node.config.stash[COLLECTING].close()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Unlock the collection: the first process may have ended before."""
    node.config.stash[COLLECTING].close()


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
        dev_server_extra_args=[*CONFIG_OPTIONS, *SERVER_OPTIONS],
        dev_server_startup_timeout=timedelta(minutes=5),
        data_converter=data_converter,
    ) as environment:
        await usable_search_attributes(environment.client)
        yield environment


@pytest.fixture(scope="session")
def client(temporal: WorkflowEnvironment) -> Client:
    """A client of the session's server."""
    return temporal.client

"""Fixtures of every test that needs them: a ledger, a worker, the command."""

import fcntl
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests.support import command, tools
from tests.support.backend import Answers, Backend, Launch, backend
from tests.support.forking.fork_server import forking_python


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which the test's tools record their effects."""
    path = tmp_path / "ledger"
    monkeypatch.setenv(tools.LEDGER, str(path))
    return path


@asynccontextmanager
async def backends(client: Client, folder: Path, **defaults: Any) -> AsyncIterator[Launch]:
    """Yield a function that starts backends with these settings; stop them at the end."""
    async with AsyncExitStack() as stack:

        async def open_(answers: Answers, **settings: Any) -> Backend:
            started = backend(
                settings.pop("client", client), folder, answers, **defaults | settings
            )
            return await stack.enter_async_context(started)

        yield open_
        tools.write(tools.RELEASE)


@pytest.fixture
async def launch(client: Client, tmp_path: Path, ledger: Path) -> AsyncIterator[Launch]:
    """Yield a function that starts a worker with these answers; it caches no workflow."""
    async with backends(client, tmp_path) as open_:
        yield open_


@pytest.fixture
def holdfast(client: Client, monkeypatch: pytest.MonkeyPatch) -> command.Holdfast:
    """Return the command; its environment names the server, as for every Temporal program."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", client.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", client.namespace)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
    return command.holdfast


@pytest.fixture(scope="session")
def forking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield an interpreter that forks commands of Holdfast; coverage follows no fork."""
    if "COVERAGE_PROCESS_CONFIG" in os.environ:
        yield sys.executable
        return
    with forking_python(tmp_path_factory.mktemp("python")) as python:
        yield str(python)


@pytest.fixture
def quick_starts(forking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the commands of Holdfast that this process starts forked."""
    monkeypatch.setattr(sys, "executable", forking)


@pytest.fixture
def default_ports() -> Iterator[None]:
    """Have Temporal's default ports alone: a server that starts answers there a second later."""
    with Path(tempfile.gettempdir(), "holdfast-tests-ports.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

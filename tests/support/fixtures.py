"""Fixtures for tests with a worker: the ledger of its tools, and a way to start workers."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests.support import tools
from tests.support.backend import Answers, Backend, Launch, backend


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the test's tools record their effects."""
    path = tmp_path / "ledger"
    monkeypatch.setenv(tools.LEDGER, str(path))
    return path


@asynccontextmanager
async def backends(client: Client, folder: Path, **defaults: Any) -> AsyncIterator[Launch]:
    """Start backends with these settings by default, and stop them at the end."""
    async with AsyncExitStack() as stack:

        async def open_(answers: Answers, **settings: Any) -> Backend:
            started = backend(
                settings.pop("client", client), folder, answers, **defaults | settings
            )
            return await stack.enter_async_context(started)

        yield open_
        tools.write(tools.RELEASE)


@pytest.fixture
async def launch(client: Client, tmp_path: Path) -> AsyncIterator[Launch]:
    """Start a worker with these answers of the model; it caches no workflow."""
    async with backends(client, tmp_path) as open_:
        yield open_

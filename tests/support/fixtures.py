"""Fixtures for tests with a worker: the ledger of its tools, and a way to start workers."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests.support import tools
from tests.support.house import Answers, House, OpenHouse, house


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the test's tools record their effects."""
    path = tmp_path / "ledger"
    monkeypatch.setenv(tools.LEDGER, str(path))
    return path


@asynccontextmanager
async def houses(client: Client, folder: Path, **defaults: Any) -> AsyncIterator[OpenHouse]:
    """Start houses with these settings by default, and stop them at the end."""
    async with AsyncExitStack() as stack:

        async def open_(answers: Answers, **settings: Any) -> House:
            started = house(settings.pop("client", client), folder, answers, **defaults | settings)
            return await stack.enter_async_context(started)

        yield open_
        tools.write(tools.RELEASE)


@pytest.fixture
async def open_house(client: Client, tmp_path: Path) -> AsyncIterator[OpenHouse]:
    """Start a worker with these answers of the model; it caches no workflow."""
    async with houses(client, tmp_path) as open_:
        yield open_

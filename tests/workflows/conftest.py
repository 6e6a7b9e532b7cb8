"""A worker for each test, and a ledger of what its tools did."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests.support import tools
from tests.support.house import Answers, House, OpenHouse, house


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the test's tools write down what they did."""
    path = tmp_path / "ledger"
    monkeypatch.setenv(tools.LEDGER, str(path))
    return path


@pytest.fixture
async def open_house(client: Client, tmp_path: Path) -> AsyncIterator[OpenHouse]:
    """Open a house with these answers of the model: a worker of its own, its cache off."""
    async with AsyncExitStack() as stack:

        async def open_(answers: Answers, **settings: Any) -> House:
            return await stack.enter_async_context(house(client, tmp_path, answers, **settings))

        yield open_
        tools.write(tools.RELEASE)

"""What tests of the inbox share: a clock, a client that asks nobody, and what is closed in time."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from temporalio.client import Client


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        """What it shows."""
        return self.seconds


@pytest.fixture
async def nowhere() -> Client:
    """A client that has no server: who comes in is known without one."""
    return await Client.connect("127.0.0.1:1", lazy=True)


@pytest.fixture
def clock() -> Clock:
    """The clock of seals and secrets."""
    return Clock()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """What is closed when the test is over."""
    async with AsyncExitStack() as stack:
        yield stack

"""Waiting on a condition, never on the clock."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

# Between two looks: what takes long is looked at less often.
FIRST_SECONDS, LONGEST_SECONDS, GROWTH = 0.02, 0.25, 1.25


async def eventually(
    condition: Callable[[], Awaitable[T | None]], timeout_seconds: float = 120
) -> T:
    """Return the first true value of the condition.

    Raises:
        TimeoutError: the condition was not true in time.
    """
    pause = FIRST_SECONDS
    async with asyncio.timeout(timeout_seconds):
        while not (found := await condition()):
            await asyncio.sleep(pause)
            pause = min(pause * GROWTH, LONGEST_SECONDS)
    return found

"""Waiting on a condition, never on the clock."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

BETWEEN_SECONDS = 0.02


async def eventually(
    condition: Callable[[], Awaitable[T | None]], timeout_seconds: float = 30
) -> T:
    """Return the first true value of the condition.

    Raises:
        TimeoutError: the condition was not true in time.
    """
    async with asyncio.timeout(timeout_seconds):
        while not (found := await condition()):
            await asyncio.sleep(BETWEEN_SECONDS)
    return found

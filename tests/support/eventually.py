"""Waiting on a condition, never on the clock."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

BETWEEN_SECONDS = 0.02


async def eventually(
    condition: Callable[[], Awaitable[T | None]], timeout_seconds: float = 30
) -> T:
    """What the condition gives, once it gives something that is true.

    Raises:
        TimeoutError: it did not in time.
    """
    async with asyncio.timeout(timeout_seconds):
        while not (found := await condition()):
            await asyncio.sleep(BETWEEN_SECONDS)
    return found

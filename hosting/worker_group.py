"""A group of Temporal workers that start, fail and stop together."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Self

from temporalio.worker import Worker


class WorkerGroup:
    """A main worker, other workers beside it, and a context around all of them.

    `around` is entered before the first worker starts, and left after the last has stopped: their
    activities can use it until they end.
    """

    def __init__(
        self, main: Worker, others: Sequence[Worker], around: AbstractAsyncContextManager[Any]
    ) -> None:
        self.main = main
        self.others = others
        self._around = around
        self._stack = AsyncExitStack()

    @property
    def is_running(self) -> bool:
        """Return whether every worker accepts work."""
        return all(worker.is_running for worker in self._all)

    @property
    def _all(self) -> list[Worker]:
        return [self.main, *self.others]

    async def __aenter__(self) -> Self:
        """Start every worker."""
        async with AsyncExitStack() as starting:
            await starting.enter_async_context(self._around)
            for worker in self._all:
                await starting.enter_async_context(worker)
            self._stack = starting.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> bool | None:
        """Stop the workers together: their activities have the same time to finish."""
        await asyncio.gather(*(worker.shutdown() for worker in self._all))
        return await self._stack.__aexit__(kind, error, at)

"""The activity slots of a worker: how many are taken, and how many by outlived attempts.

An attempt that Temporal has given up is cancelled, and the worker waits for its end for a bounded
time (`auto_heartbeat.py`). Its function may run on: a thread cannot be interrupted. It counts as
taking a slot, since it holds a thread or memory of the worker.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager


class ActivitySlots:
    """Counts what runs.

    Args:
        size: how many activities the worker runs at a time.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._attempts = 0
        self._outlived: set[asyncio.Future[None]] = set()
        self._full_since: float | None = None

    @property
    def outlived(self) -> int:
        """Return how many functions run on after their attempts."""
        return len(self._outlived)

    @property
    def full_seconds(self) -> float:
        """Return for how long no slot has been free; 0 while one is."""
        return 0.0 if self._full_since is None else time.monotonic() - self._full_since

    @contextmanager
    def take(self) -> Iterator[None]:
        """Take a slot for an attempt."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def outlive(self, function: asyncio.Future[None]) -> None:
        """Count a function that runs on after its attempt, until it ends."""
        self._outlived.add(function)
        function.add_done_callback(self._forget)
        self._count(0)

    def _forget(self, function: asyncio.Future[None]) -> None:
        if not function.cancelled():
            function.exception()  # no one else reads it
        self._outlived.discard(function)
        self._count(0)

    def _count(self, change: int) -> None:
        self._attempts += change
        if self._attempts + self.outlived < self.size:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = time.monotonic()

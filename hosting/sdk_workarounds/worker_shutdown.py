"""Notice the shutdown of a worker when it begins, which the SDK reports to activities alone.

Private: `Worker._shutdown_event`. Without it, the beginning of a shutdown is never noticed.
"""

import asyncio

from temporalio.worker import Worker


async def shutdown_requested(worker: Worker) -> None:
    """Wait until the shutdown of the worker begins."""
    await getattr(worker, "_shutdown_event", asyncio.Event()).wait()

"""The beginning of a worker's shutdown, which the SDK reports to activities alone, and its end.

`async with` waits for the end, which never comes if a plugin raises before the worker starts.

Private: `Worker._shutdown_event`, `Worker._shutdown_complete_event`. Without the first, the
beginning is never noticed; without the second, such a worker hangs.
"""

import asyncio

from temporalio.worker import Worker


async def shutdown_requested(worker: Worker) -> None:
    await getattr(worker, "_shutdown_event", asyncio.Event()).wait()


def end_shutdown(worker: Worker) -> None:
    """Let the shutdown of the worker end, perhaps before it started."""
    getattr(worker, "_shutdown_complete_event", asyncio.Event()).set()

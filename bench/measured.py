"""One run, measured from outside: its history as the server counts it, its time, its result."""

import time
import uuid
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client


@dataclass(frozen=True)
class Measured:
    """What one run took, and what came of it."""

    history_bytes: int
    events: int
    wall_seconds: float
    cpu_seconds: float
    result: Any


async def measured(client: Client, workflow: str, queue: str, request: dict[str, Any]) -> Measured:
    """Have a workflow carried out by a worker of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    handle = await client.start_workflow(
        workflow, request, id=f"{workflow}-{uuid.uuid4().hex[:8]}", task_queue=queue
    )
    result = await handle.result()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    described = await handle.describe()
    info = described.raw_description.workflow_execution_info
    return Measured(info.history_size_bytes, info.history_length, wall, cpu, result)


def shown(number: float) -> str:
    """A figure as a table has it: four digits, or all that stand before the point."""
    return f"{number:.4g}" if number < 10_000 else f"{number:,.0f}"

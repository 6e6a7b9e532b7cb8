"""One run, measured from outside: its history as the server counts it, its time, its result."""

import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client, WorkflowHandle, WorkflowHistoryEventFilterType

from bench.measures.ending import result_of

ONE_HOUR_SECONDS = 3600.0


@dataclass(frozen=True)
class Measured:
    """What one run took, and what came of it. One that continues as new is a chain of `parts`."""

    id: str
    first_run_id: str
    parts: int
    history_bytes: int
    events: int
    wall_seconds: float
    cpu_seconds: float
    result: Any


async def measured(
    client: Client,
    workflow: str,
    queue: str,
    *arguments: Any,
    cpu: Callable[[], float] = time.process_time,
    timeout_seconds: float = ONE_HOUR_SECONDS,
) -> Measured:
    """Have a workflow carried out; `cpu` tells the processor time of whoever does that.

    Raises:
        Stopped: it failed, or does not get on.
    """
    wall, spent = time.perf_counter(), cpu()
    handle = await client.start_workflow(
        workflow, args=arguments, id=f"{workflow}-{uuid.uuid4().hex[:8]}", task_queue=queue
    )
    result = await result_of(client, handle, timeout_seconds)
    wall, spent = time.perf_counter() - wall, cpu() - spent
    first = handle.first_execution_run_id or ""
    infos = [await _described(part) async for part in parts(client, handle.id, first)]
    size = sum(info.history_size_bytes for info in infos)
    events = sum(info.history_length for info in infos)
    return Measured(handle.id, first, len(infos), size, events, wall, spent, result)


async def parts(
    client: Client, id: str, first_run_id: str
) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    """The runs of a chain, from the one that was started to the last."""
    run_id = first_run_id
    while run_id:
        part = client.get_workflow_handle(id, run_id=run_id)
        yield part
        run_id = await _next(part)


async def _described(part: WorkflowHandle[Any, Any]) -> WorkflowExecutionInfo:
    return (await part.describe()).raw_description.workflow_execution_info


async def _next(part: WorkflowHandle[Any, Any]) -> str:
    last = WorkflowHistoryEventFilterType.CLOSE_EVENT
    async for event in part.fetch_history_events(event_filter_type=last):
        return event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return ""


def shown(number: float) -> str:
    """A figure as a table has it: four digits, or all that stand before the point."""
    return f"{number:.4g}" if number < 10_000 else f"{number:,.0f}"

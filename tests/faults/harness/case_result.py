"""What a case leaves behind: the results of its workflows, their logs and their histories."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError

from holdfast.schemas.names import AHEAD_OF_HISTORY
from tests.faults.harness.plans import Fault


@dataclass
class Part:
    """What a workflow of a case left behind."""

    events: list[dict[str, Any]]
    context: list[dict[str, Any]]
    state: Any
    task_failures: list[str]
    runs: int


@dataclass
class CaseResult:
    """What a case left behind."""

    id: str
    faults: tuple[Fault, ...]
    points: list[str] = field(default_factory=list)
    struck: list[Fault] = field(default_factory=list)
    result: Any = None
    stuck: str = ""
    broken: list[str] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    effects: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def reconciled(self) -> int:
        """How often a person was asked whether a call happened."""
        events = [event for part in self.parts.values() for event in part.events]
        return sum(1 for event in events if is_reconcile(event))


def is_reconcile(event: dict[str, Any]) -> bool:
    """Whether the event asks whether a call happened."""
    asks: bool = event["type"] == "confirmation_required"
    return asks and event["approval"]["kind"] == "reconcile"


# A worker that has just died may have taken a question with it.
_ANSWER_TIMEOUT = timedelta(seconds=5)
_BETWEEN_SECONDS = 0.2
_LAST = 6
# The server's own: something arrived while the task was running, and it is to be done again.
_AGAIN = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND


async def look(client: Client, id: str) -> Part:
    """What a workflow left behind; where no worker can answer for now, it is asked for again."""
    while True:
        try:
            return await _looked(client, id)
        except (RPCError, WorkflowQueryFailedError):
            await asyncio.sleep(_BETWEEN_SECONDS)


async def _looked(client: Client, id: str) -> Part:
    handle = client.get_workflow_handle(id)
    failures: list[str] = []
    runs, run_id = 0, (await handle.describe()).run_id
    while run_id:
        runs += 1
        one, run_id = client.get_workflow_handle(id, run_id=run_id), ""
        async for event in one.fetch_history_events():
            failures += _failure(event)
            started = event.workflow_execution_started_event_attributes
            run_id = started.continued_execution_run_id or run_id
    return Part(
        events=await _pages(handle, "events"),
        context=await _pages(handle, "context"),
        state=await handle.query("state", rpc_timeout=_ANSWER_TIMEOUT),
        task_failures=failures,
        runs=runs,
    )


async def where_it_stands(client: Client, id: str) -> str:
    """The last event of the history of a workflow."""
    kinds = [
        EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")
        async for event in client.get_workflow_handle(id).fetch_history_events()
    ]
    return f"{len(kinds)} events, the last of them {', '.join(kinds[-_LAST:])}"


def _failure(event: HistoryEvent) -> list[str]:
    if event.event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
        return []
    failed = event.workflow_task_failed_event_attributes
    if failed.cause == _AGAIN or failed.failure.application_failure_info.type == AHEAD_OF_HISTORY:
        return []
    return [f"{WorkflowTaskFailedCause.Name(failed.cause)} {failed.failure.message}"]


async def _pages(handle: WorkflowHandle[Any, Any], query: str) -> list[dict[str, Any]]:
    """All that a query gives page by page."""
    found: list[dict[str, Any]] = []
    while page := await handle.query(
        query, {"after": len(found), "limit": 1000}, rpc_timeout=_ANSWER_TIMEOUT
    ):
        found += page
    return found

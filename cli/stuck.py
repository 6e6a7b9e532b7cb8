"""Why a run does not answer: nobody works on it, or whoever does cannot go on with it.

A workflow task that fails is tried again for ever, and Temporal answers no query meanwhile. It
writes down the first failure of such a series alone, so that one is told.
"""

from typing import Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError

from cli.errors import UNREACHABLE, CommandError, NoWorkerError, rpc_problem
from cli.text import one_line

_CAUSE_CHARS: Final = 500
# What stands after the failure is what others sent the run since.
_LATEST_EVENTS: Final = 200
_TASK_ENDS: Final = (
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
)


class StuckError(CommandError):
    """The run exists, and its worker fails at it again and again."""

    def __init__(self, run_id: str, task_queue: str, cause: str) -> None:
        super().__init__(
            f"the worker on task queue {task_queue} cannot go on with run {run_id}: {cause}",
            "mend that, and the run goes on by itself; the worker's log says more",
            UNREACHABLE,
        )


async def unanswered(client: Client, run: WorkflowExecutionDescription) -> CommandError:
    """Why a run that Temporal describes so answers nobody.

    Raises:
        CommandError: Temporal does not answer.
    """
    if run.raw_description.pending_workflow_task.attempt > 1:
        end = await _latest_end(client, run)
        if end is not None and end.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            return StuckError(run.id, run.task_queue, _cause(end))
    return NoWorkerError(run.task_queue)


async def _latest_end(client: Client, run: WorkflowExecutionDescription) -> HistoryEvent | None:
    """How the newest workflow task ended that history knows of."""
    asked = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=run.id, run_id=run.run_id),
        maximum_page_size=_LATEST_EVENTS,
    )
    try:
        answer = await client.workflow_service.get_workflow_execution_history_reverse(
            asked, retry=True
        )
    except RPCError as error:
        raise rpc_problem(error, run.id) from error
    events = answer.history.events
    return next((event for event in events if event.event_type in _TASK_ENDS), None)


def _cause(end: HistoryEvent) -> str:
    failed = end.workflow_task_failed_event_attributes
    name = WorkflowTaskFailedCause.Name(failed.cause).removeprefix("WORKFLOW_TASK_FAILED_CAUSE_")
    return one_line(failed.failure.message, _CAUSE_CHARS) or name

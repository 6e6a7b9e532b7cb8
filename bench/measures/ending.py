"""How a run ends: with its result, or with a reason why it does not get on.

A workflow whose task fails again and again neither fails nor ends; Temporal calls that running. It
is found out by the attempts of its task, and the reason is in the history.
"""

import asyncio
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import FailureError
from temporalio.service import RPCError

MAX_ATTEMPTS = 5
_BETWEEN_SECONDS = 2.0
_LAST_EVENTS = 20
_MAX_REASON_CHARS = 160


class Stopped(Exception):
    """A run that does not get on, and why."""


async def result_of(
    client: Client,
    handle: WorkflowHandle[Any, Any],
    timeout_seconds: float,
    max_attempts: int = MAX_ATTEMPTS,
) -> Any:
    """What came of a run; one that does not get on is terminated.

    Args:
        max_attempts: how often its task may fail.

    Raises:
        Stopped: it failed, is stuck, or took too long.
    """
    result = asyncio.create_task(handle.result())
    try:
        async with asyncio.timeout(timeout_seconds):
            while not (await asyncio.wait([result], timeout=_BETWEEN_SECONDS))[0]:
                await _refuse_stuck(client, handle, max_attempts)
        return result.result()
    except WorkflowFailureError as error:
        raise Stopped(_innermost(error.cause)) from error
    except TimeoutError:
        await handle.terminate()
        raise Stopped(f"did not end within {timeout_seconds:.0f} s") from None
    finally:
        result.cancel()


async def _refuse_stuck(
    client: Client, handle: WorkflowHandle[Any, Any], max_attempts: int
) -> None:
    current = client.get_workflow_handle(handle.id)
    description = (await current.describe()).raw_description
    if description.pending_workflow_task.attempt < max_attempts:
        return
    reason = await _last_failure(client, handle.id)
    try:
        await current.terminate()
    except RPCError:  # it ended meanwhile
        return
    raise Stopped(f"its workflow task fails for ever: {reason}")


async def _last_failure(client: Client, id: str) -> str:
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=id),
        maximum_page_size=_LAST_EVENTS,
    )
    answer = await client.workflow_service.get_workflow_execution_history_reverse(request)
    for event in answer.history.events:
        if event.HasField("workflow_task_failed_event_attributes"):
            return _line(event.workflow_task_failed_event_attributes.failure.message)
    return "no reason is in its history"


def _innermost(error: BaseException) -> str:
    while isinstance(error, FailureError) and error.cause is not None:
        error = error.cause
    return _line(str(error)) or type(error).__name__


def _line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MAX_REASON_CHARS else f"{words[:_MAX_REASON_CHARS]}…"

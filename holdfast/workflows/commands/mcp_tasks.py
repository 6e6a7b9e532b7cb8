"""Follow the tasks that MCP servers run in place of calls: a timer, a request, and so on.

Between two requests, nothing of the task is on a worker. A request that fails is made again with
the next one, so that only the server, or the call's time, ends a task.
"""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.internal import mcp_input
    from holdfast.schemas.internal.mcp_input import MAX_MISSES, McpInputRequired, McpTask
    from holdfast.schemas.names import ErrorCode
    from holdfast.schemas.tool import ActivityBinding

from holdfast.validation.schema_node import WorkBudget
from holdfast.workflows.commands import activity_options
from holdfast.workflows.commands.base_executor import BaseExecutor
from holdfast.workflows.engine.call.activities import outcome_of_failure, outcome_of_result
from holdfast.workflows.engine.call.outcomes import Outcome, Unknown, fail, misfit
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.input import activity_failure, payload_json
from holdfast.workflows.permits import is_foreign_result

SHORTEST_PAUSE: Final = timedelta(seconds=1)
# Of the time so far: about a hundred requests in an hour.
PAUSE_SHARE: Final = 20


def read_result(
    call: ToolCall, activity: ActivityBinding, id: str, n: int, result: RawValue, budget: WorkBudget
) -> Outcome | McpTask:
    """Return the outcome that an activity has returned, or the task that the server runs.

    Raises:
        ValueError: it is no JSON.
    """
    tool = call.tool
    if tool.once and is_foreign_result(activity, id, n, result):
        return Unknown(f"a result of `{tool.name}` has no signature of its worker")
    match payload_json(result):
        case {mcp_input.INPUT_REQUIRED: dict(required)} if tool.mcp is not None:
            return McpInputRequired.read(required)
        case {mcp_input.TASK: dict(task)} if tool.mcp is not None:
            return McpTask.read(task)
        case value:
            return outcome_of_result(tool, value, budget)


async def follow(
    call: ToolCall, activity: ActivityBinding, task: McpTask, executor: BaseExecutor
) -> Outcome:
    """Request the state of a call's task until it ends or requires input, or its time is over."""
    began, name, answers = workflow.now(), call.name, bool(task.responses)
    longest = activity.schedule_to_close_timeout or activity_options.SCHEDULE_TO_CLOSE
    outcome: Outcome | McpTask = task
    while isinstance(outcome, McpTask):
        _set_task(call, outcome)
        waited = workflow.now() - began
        pause = min(pause_before(waited, outcome.poll_ms), longest - waited)
        # An answer is delivered at once.
        if waited >= longest or not (answers or await executor.has_time_after(pause)):
            await cancel(call, executor)
            _set_task(call, None)
            message = f"the task of `{name}` did not end in time"
            return Unknown(message) if call.tool.once else fail(ErrorCode.TIMEOUT, message)
        answers = False
        try:
            outcome = await executor.on_run_time(_request(call, activity, outcome, executor))
        except FailureError as error:
            failure = activity_failure(error)
            if failure.kind == "application" and failure.type != names.WORKER_SHUTDOWN:
                outcome = outcome_of_failure(call.tool, failure)
        except ValueError as error:
            outcome = misfit(call.tool, f"result is lost: {error}")
    if not isinstance(outcome, McpInputRequired):
        _set_task(call, None)
    return outcome


def pause_before(waited: timedelta, poll_ms: float) -> timedelta:
    """Return the pause before the next request about a task that has run for some time."""
    return max(timedelta(milliseconds=poll_ms), SHORTEST_PAUSE, waited / PAUSE_SHARE)


async def cancel(call: ToolCall, executor: BaseExecutor) -> None:
    """Request that the server cancels the task of a call, if it still runs one.

    An open call is in one process: the request is repeated until it comes there.
    """
    # Not while the SDK discards a run that was evicted from the cache.
    task = call.decided.mcp.task
    if task is None or call.tool.activity is None or not workflow.in_workflow():
        return
    request = McpTask(id=task.id, cancel=True)
    with suppress(FailureError, ValueError):
        for _ in range(MAX_MISSES):
            found = await _request(call, call.tool.activity, request, executor)
            if not (isinstance(found, McpTask) and found.misses > request.misses):
                return
            request = found


def _set_task(call: ToolCall, task: McpTask | None) -> None:
    decided = call.decided
    call.revise(replace(decided, mcp=replace(decided.mcp, task=task)))


async def _request(
    call: ToolCall, activity: ActivityBinding, task: McpTask, executor: BaseExecutor
) -> Outcome | McpTask:
    id = names.hook_id(call.id, "task", call.number_hook_use("task"))
    run_id = workflow.info().workflow_id
    arguments = activity_options.activity_arguments(call, activity, executor.work, run_id, task)
    config = activity_options.task_config(call, activity, id)
    result = await workflow.execute_activity(
        activity.type, args=arguments, result_type=RawValue, **config
    )
    return read_result(call, activity, id, 0, result, executor.work.state.limits.budget())

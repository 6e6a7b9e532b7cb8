"""Diagnose a run that does not answer: no worker, a busy worker, or a task that fails.

Temporal retries a failed workflow task without limit, and answers no query meanwhile. It records
only the first failure of such a series, so that failure is reported.

Where workers are builds of a deployment, a run belongs to one build, and workers of other builds do
not run it. A run that has not started waits until a build is current.
"""

import time
from typing import Final

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import (
    EventType,
    TaskQueueType,
    VersioningBehavior,
    WorkflowTaskFailedCause,
)
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.exceptions import FailureError

from holdfast.client import errors
from holdfast.runtime.text_safety import one_line, shell_command

_CAUSE_CHARS: Final = 500
# The events after the failure are those that others sent to the run since.
_LATEST_EVENTS: Final = 200
_TASK_ENDS: Final = (
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
)


class StuckRunError(errors.HoldfastError):
    """The run exists, and its workflow task fails repeatedly."""

    def __init__(self, run_id: str, task_queue: str, cause: str) -> None:
        super().__init__(
            f"the worker on task queue {task_queue} cannot continue run {run_id}: {cause}",
            "fix that, and the run continues by itself; the worker's log has more",
            errors.UNREACHABLE,
        )


class TaskTimedOutError(errors.BusyWorkerError):
    """A worker received the run's workflow task, and did not finish it in time.

    Temporal repeats the task. Other runs of the task queue may continue.
    """


class NoBuildError(errors.NoWorkerError):
    """The run belongs to a build that has no worker; Temporal moves only an open run."""

    def __init__(self, run_id: str, deployment: str, build: str, *, is_open: bool = True) -> None:
        move = shell_command(
            *("temporal", "workflow", "update-options"),
            *("--versioning-override-behavior", "one_time"),
            *("--versioning-override-deployment-name", deployment),
            *("--versioning-override-build-id", "BUILD", "--workflow-id", run_id),
        )
        errors.HoldfastError.__init__(
            self,
            f"run {run_id} is on build {build} of deployment {deployment}, of which no worker"
            " answers",
            f"start one, or move the run to another build: {move}"
            if is_open
            else "start one: a run that has ended is read by a worker of its build",
            errors.UNREACHABLE,
        )


class NoCurrentBuildError(errors.NoWorkerError):
    """There is a worker, and its build receives no new runs."""

    def __init__(self, task_queue: str, deployment: str, build: str) -> None:
        make = shell_command(
            *("temporal", "worker", "deployment", "set-current-version"),
            *("--deployment-name", deployment, "--build-id", build),
        )
        errors.HoldfastError.__init__(
            self,
            f"the workers on task queue {task_queue} are of no build that is current",
            f"make one so: {make}",
            errors.UNREACHABLE,
        )


async def has_pollers(client: Client, task_queue: str) -> bool:
    """Return whether a worker has polled a task queue for activities in the last minutes."""
    kind = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=task_queue), task_queue_type=kind
    )
    with errors.explain_rpc_errors():
        found = await client.workflow_service.describe_task_queue(request, retry=True)
    return bool(found.pollers)


async def diagnose_silence(
    client: Client, run: WorkflowExecutionDescription
) -> errors.HoldfastError:
    """Return the reason why the run of this description does not answer.

    Raises:
        HoldfastError: Temporal does not answer.
    """
    is_repeated = run.raw_description.pending_workflow_task.attempt > 1
    if is_repeated:
        history = GetWorkflowExecutionHistoryReverseRequest(
            namespace=client.namespace,
            execution=WorkflowExecution(workflow_id=run.id, run_id=run.run_id),
            maximum_page_size=_LATEST_EVENTS,
        )
        with errors.explain_rpc_errors(run.id):
            answer = await client.workflow_service.get_workflow_execution_history_reverse(
                history, retry=True
            )
        events = answer.history.events
        end = next((event for event in events if event.event_type in _TASK_ENDS), None)
        if end is not None and end.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            failed = end.workflow_task_failed_event_attributes
            error = await client.data_converter.decode_failure(failed.failure)
            message = error.message if isinstance(error, FailureError) else ""
            name = WorkflowTaskFailedCause.Name(failed.cause)
            cause = name.removeprefix("WORKFLOW_TASK_FAILED_CAUSE_")
            cause = one_line(message, _CAUSE_CHARS) or cause
            return StuckRunError(run.id, run.task_queue, cause)
    on = run.raw_description.workflow_execution_info.versioning_info
    if on.behavior == VersioningBehavior.VERSIONING_BEHAVIOR_PINNED:
        version = on.deployment_version
        is_open = run.status == WorkflowExecutionStatus.RUNNING
        return NoBuildError(run.id, version.deployment_name, version.build_id, is_open=is_open)
    name = run.task_queue
    request = DescribeTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=name))
    with errors.explain_rpc_errors():
        found = await client.workflow_service.describe_task_queue(request, retry=True)
    builds = [each.deployment_options for each in found.pollers]
    current = found.versioning_info.current_deployment_version
    if builds and not current.build_id and all(each.build_id for each in builds):
        return NoCurrentBuildError(name, builds[0].deployment_name, builds[0].build_id)
    if not found.pollers:
        return errors.NoWorkerError(name)
    polled = max(each.last_access_time.ToMilliseconds() for each in found.pollers) / 1000
    seconds = max(time.time() - polled, 0)
    if is_repeated:
        return TaskTimedOutError(name, seconds, f"a worker did not finish a task of run {run.id}")
    return errors.BusyWorkerError(name, seconds)

"""Fail the workflow task of a run that got ahead of its history, before that is recorded.

When a worker dies in the middle of a workflow task, another worker may receive a query of the run
before that task times out. To answer, the SDK runs the workflow to the end of the events that it
received, that task included, and keeps the commands. Then the same worker receives the task again,
with the events since, for example a decision. The SDK records the commands that it made for the
query, and then the decision. A replay of that history sees the decision first, makes other
commands, and can never continue: https://github.com/temporalio/sdk-python/issues/1591.

The length of the history shows the error: a task that was completed in between adds the events of
its commands. If these are missing, the task fails, once: the SDK then drops the run from its cache,
and the server sends the same task again.

On a busy worker a query may also arrive with events whose task is scheduled and not started. The
SDK runs the workflow to these, at the time of the task before. The query is answered from there,
and `cached_runs` removes the run.

Private: the messages of the bridge to the SDK's core.
"""

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.exceptions import ApplicationError

from holdfast.schemas.names import AHEAD_MESSAGE, AHEAD_OF_HISTORY

# A workflow task completed, and another scheduled and started.
_EVENTS_BETWEEN = 3
_READ_ONLY_JOBS = frozenset(("query_workflow", "remove_from_cache"))
# Each of these commands is an event; the others may be none.
_RECORDED_COMMANDS = frozenset(
    (
        "schedule_activity",
        "start_child_workflow_execution",
        "signal_external_workflow_execution",
        "upsert_workflow_search_attributes",
    )
)
_LAST_COMMANDS = frozenset(
    (
        "complete_workflow_execution",
        "fail_workflow_execution",
        "cancel_workflow_execution",
        "continue_as_new_workflow_execution",
    )
)
# Each of these jobs comes from one event.
_RECORDED_JOBS = frozenset(
    (
        "signal_workflow",
        "fire_timer",
        "cancel_workflow",
        "resolve_child_workflow_execution_start",
        "resolve_child_workflow_execution",
        "resolve_signal_external_workflow",
    )
)


class DivergenceDetector:
    """Compare the length of one run's history with the commands that it made since."""

    def __init__(self) -> None:
        self._length = 0
        self._recorded = 0
        # The markers of local activities.
        self._markers = 0
        self.has_ended = False
        # The length and the time of the last activation.
        self.last = (0, 0)

    @property
    def length(self) -> int:
        """Return the length that the history has once the last workflow task is completed.

        It is a lower bound: some commands are counted as no event.
        """
        return self._length + 1 + self._recorded + self._markers + self.has_ended

    def check(self, activation: WorkflowActivation) -> bool:
        """Check that an activation follows the recorded history; each is passed once, in order.

        Returns:
            False if it has new events, and no task was started for them: a query came with them.
            The time of an activation is that at which its task started.

        Raises:
            ApplicationError: it does not follow, so that the workflow task has to fail.
        """
        length, time = activation.history_length, activation.timestamp.ToNanoseconds()
        is_task = not (0 < self.last[0] < length and 0 < time == self.last[1])
        self.last = (length, time)
        if not is_task or not is_live(activation) or not self._recorded:
            return is_task
        incoming = 0  # at least so many events
        for job in activation.jobs:
            if job.HasField("resolve_activity"):
                result = job.resolve_activity
                # Started and completed; one that timed out or was cancelled may never have started.
                incoming += 0 if result.is_local else 1 + result.result.HasField("completed")
            else:
                incoming += job.WhichOneof("variant") in _RECORDED_JOBS
        least = self._length + _EVENTS_BETWEEN + self._recorded + incoming
        if self._length < activation.history_length < least:
            raise ApplicationError(AHEAD_MESSAGE, type=AHEAD_OF_HISTORY)
        return True

    def record(
        self, activation: WorkflowActivation, completion: WorkflowActivationCompletion
    ) -> None:
        """Count the events that the commands of a completed activation become."""
        if not is_live(activation):
            return
        if activation.history_length != self._length:
            self._length, self._recorded, self._markers = activation.history_length, 0, 0
        self._markers += sum(job.resolve_activity.is_local for job in activation.jobs)
        started: set[int] = set()
        for each in completion.successful.commands:
            kind = each.WhichOneof("variant")
            self._recorded += kind in _RECORDED_COMMANDS
            self.has_ended |= kind in _LAST_COMMANDS
            match kind:
                case "update_response":
                    self._recorded += not each.update_response.HasField("rejected")
                case "cancel_timer":  # a timer that is cancelled at once is no event
                    self._recorded -= each.cancel_timer.seq in started
                case "start_timer":
                    self._recorded += 1
                    started.add(each.start_timer.seq)


def is_live(activation: WorkflowActivation) -> bool:
    """Return whether an activation has new events, beside those that a cold worker replays."""
    jobs = (job.WhichOneof("variant") for job in activation.jobs)
    return not activation.is_replaying and not _READ_ONLY_JOBS.issuperset(jobs)

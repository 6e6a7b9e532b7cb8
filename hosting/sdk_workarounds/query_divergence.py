"""A run that has got ahead of its history is read anew, before that is written down for ever.

When a worker dies in the middle of a workflow task, another one may be asked about the run before
that task is over its time. To answer, the SDK carries the run on to the end of what it is given,
that task included, and keeps what the run decided. Then the task comes to that worker too, with
what was said meanwhile, a decision above all; and what is written down is first what the run did
for the question, then the decision. Who reads that history later has the decision first, comes to
other commands, and can never go on: https://github.com/temporalio/sdk-python/issues/1591.

The length of the history tells. Had the task been completed in between, it would have grown by what
the run did in it. Where it has not, the task is failed, once: the SDK then forgets the run, and the
server gives the same task again.
"""

from collections.abc import Sequence

from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import WorkflowCommand
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.exceptions import ApplicationError

AHEAD_OF_HISTORY = "ahead_of_history"
# That a workflow task was completed, and that another was scheduled and started.
_EVENTS_BETWEEN = 3
_LOOKS = frozenset(("query_workflow", "remove_from_cache"))
# Each of these commands is an event; the others may be none.
_WRITTEN = frozenset(
    (
        "schedule_activity",
        "start_timer",
        "start_child_workflow_execution",
        "signal_external_workflow_execution",
        "upsert_workflow_search_attributes",
    )
)
# And each of these jobs comes from one.
_HEARD = frozenset(
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
    """How far one run is, by the length of its history and what it has done since."""

    def __init__(self) -> None:
        self._length = 0
        self._written = 0

    def check(self, activation: WorkflowActivation) -> None:
        """See that what is to be decided now follows on what is written down.

        Raises:
            ApplicationError: it does not. The workflow task is to fail.
        """
        if not _is_live(activation) or not self._written:
            return
        heard = sum(map(_events_of, activation.jobs))
        least = self._length + _EVENTS_BETWEEN + self._written + heard
        if self._length < activation.history_length < least:
            raise ApplicationError(
                "the run got ahead of its history when it was looked at; it is read anew",
                type=AHEAD_OF_HISTORY,
            )

    def note(
        self, activation: WorkflowActivation, completion: WorkflowActivationCompletion
    ) -> None:
        """Take in what was decided."""
        if not _is_live(activation):
            return
        if activation.history_length != self._length:
            self._length, self._written = activation.history_length, 0
        self._written += _written(completion.successful.commands)


def _is_live(activation: WorkflowActivation) -> bool:
    jobs = (job.WhichOneof("variant") for job in activation.jobs)
    return not activation.is_replaying and not _LOOKS.issuperset(jobs)


def _events_of(job: WorkflowActivationJob) -> int:
    """The events that a job comes from, at least."""
    if job.HasField("resolve_activity"):
        result = job.resolve_activity
        # It was started, and it ended; what timed out or was cancelled may never have been started.
        return 0 if result.is_local else 1 + result.result.HasField("completed")
    return int(job.WhichOneof("variant") in _HEARD)


def _written(commands: Sequence[WorkflowCommand]) -> int:
    """The events that commands come to, at least. A timer that is cancelled at once is none."""
    started = {each.start_timer.seq for each in commands if each.HasField("start_timer")}
    undone = sum(
        1 for each in commands if each.HasField("cancel_timer") and each.cancel_timer.seq in started
    )
    return sum(_is_written(each) for each in commands) - undone


def _is_written(command: WorkflowCommand) -> bool:
    if command.HasField("update_response"):
        return not command.update_response.HasField("rejected")
    return command.WhichOneof("variant") in _WRITTEN

"""A run that got ahead of its history, because it was looked at, is read anew."""

from typing import Any

import pytest
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import WorkflowCommand
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.exceptions import ApplicationError

from holdfast.hosting.sdk_workarounds.query_divergence import AHEAD_OF_HISTORY, DivergenceDetector


def activation(length: int, *jobs: WorkflowActivationJob, replaying: bool = False) -> Any:
    """What the SDK hands over, with a history of this length."""
    return WorkflowActivation(history_length=length, jobs=jobs, is_replaying=replaying)


def decided(*commands: WorkflowCommand) -> WorkflowActivationCompletion:
    """What the workflow answers."""
    completion = WorkflowActivationCompletion()
    completion.successful.commands.extend(commands)
    return completion


def job(kind: str) -> WorkflowActivationJob:
    """A job of a kind, with nothing in it."""
    made = WorkflowActivationJob()
    getattr(made, kind).SetInParent()
    return made


def ended(*, local: bool = False, how: str = "completed") -> WorkflowActivationJob:
    """That an activity ended."""
    made = job("resolve_activity")
    made.resolve_activity.is_local = local
    getattr(made.resolve_activity.result, how).SetInParent()
    return made


def command(kind: str, seq: int = 1) -> WorkflowCommand:
    """A command of a kind."""
    made = WorkflowCommand()
    getattr(made, kind).seq = seq
    return made


def answered(how: str) -> WorkflowCommand:
    """What is said to an update."""
    made = WorkflowCommand()
    getattr(made.update_response, how).SetInParent()
    return made


UPSERT = WorkflowCommand()
UPSERT.upsert_workflow_search_attributes.SetInParent()
UPDATE, SIGNAL, TIMER = job("do_update"), job("signal_workflow"), job("fire_timer")
SCHEDULE, START = command("schedule_activity"), command("start_timer")


def comes(at: int, made: list[WorkflowCommand], then: int, *jobs: WorkflowActivationJob) -> None:
    """A run decides something with `at` events of history; then this comes, with `then` of them."""
    ahead = DivergenceDetector()
    first = activation(at, ended())
    ahead.check(first)
    ahead.note(first, decided(*made))
    ahead.check(activation(then, *jobs))


# With 25 events, a worker died with the task. It is over its time (26), scheduled and started anew.
@pytest.mark.parametrize(
    ("made", "then", "jobs"),
    [
        ([SCHEDULE], 28, [UPDATE]),
        ([START, UPSERT], 29, [SIGNAL]),
        ([SCHEDULE], 30, [ended(), UPDATE]),
        ([SCHEDULE], 28, [ended(local=True)]),
        ([SCHEDULE, START, command("cancel_timer", 7)], 29, [TIMER]),
    ],
)
def test_what_does_not_follow_on_what_is_written_is_not_decided(
    made: list[WorkflowCommand], then: int, jobs: list[WorkflowActivationJob]
) -> None:
    with pytest.raises(ApplicationError, match="read anew") as failed:
        comes(25, made, then, *jobs)
    assert (failed.value.type, failed.value.non_retryable) == (AHEAD_OF_HISTORY, False)


# The task was completed (26), what it made is written, and another is scheduled and started.
@pytest.mark.parametrize(
    ("made", "then", "jobs"),
    [
        ([SCHEDULE], 29, [UPDATE]),
        ([START, UPSERT], 31, [SIGNAL]),
        ([SCHEDULE], 31, [ended(), UPDATE]),
        ([SCHEDULE], 30, [ended(how="failed")]),
        ([START, command("cancel_timer")], 28, [UPDATE]),
        ([answered("accepted"), answered("completed")], 30, [UPDATE]),
        ([answered("rejected")], 28, [UPDATE]),
        ([command("schedule_local_activity")], 28, [ended(local=True)]),
        ([], 28, [UPDATE]),
        ([SCHEDULE], 25, [ended(local=True)]),
    ],
)
def test_what_follows_is_decided(
    made: list[WorkflowCommand], then: int, jobs: list[WorkflowActivationJob]
) -> None:
    comes(25, made, then, *jobs)


@pytest.mark.parametrize("look", [job("query_workflow"), job("remove_from_cache")])
def test_whoever_looks_is_answered_and_nothing_is_forgotten(look: WorkflowActivationJob) -> None:
    ahead = DivergenceDetector()
    ahead.note(activation(25, ended()), decided(SCHEDULE))
    ahead.check(activation(26, look))
    ahead.note(activation(26, look), decided())
    with pytest.raises(ApplicationError):
        ahead.check(activation(28, UPDATE))


def test_what_is_read_again_is_written_already() -> None:
    ahead = DivergenceDetector()
    ahead.note(activation(11, ended(), replaying=True), decided(SCHEDULE))
    ahead.check(activation(12, UPDATE))


def test_one_task_may_be_decided_on_in_several_parts() -> None:
    ahead = DivergenceDetector()
    for made in (UPSERT, SCHEDULE):
        ahead.note(activation(25, ended(local=True)), decided(made))
    ahead.check(activation(30, UPDATE))
    with pytest.raises(ApplicationError):
        ahead.check(activation(29, UPDATE))

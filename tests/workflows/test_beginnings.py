"""Before it has begun: a run that is cancelled, or cannot begin, leaves nobody waiting."""

import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import (
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateStage,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError, CancelledError

from tests.support.eventually import eventually
from tests.support.house import House, OpenHouse
from tests.support.tools import MAX_WAIT_SECONDS

AGENT = {"name": "tester", "model": {"endpoint": "fake", "name": "fake"}}
REQUESTS = {"AgentWorkflow": {"agent": AGENT, "input": "go"}, "CallWorkflow": {"tool": "echo"}}


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set once a definition is being read, which does not end before the test does."""
    begun, over = threading.Event(), threading.Event()

    def held(*_: Any) -> None:
        begun.set()
        over.wait(MAX_WAIT_SECONDS)

    monkeypatch.setattr("holdfast.activities.resolve._check", held)
    yield begun
    over.set()


def starting(
    house: House, workflow: str, request: dict[str, Any]
) -> WithStartWorkflowOperation[Any, Any]:
    """A workflow, to be started as something is said to it."""
    return WithStartWorkflowOperation(
        workflow,
        request,
        id=f"begin-{uuid.uuid4().hex[:12]}",
        task_queue=house.task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        task_timeout=timedelta(seconds=1),  # a worker hears so often of a cancellation
    )


async def cancelled(handle: WorkflowHandle[Any, Any]) -> bool:
    """Whether it ends as cancelled."""
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    return isinstance(failed.value.cause, CancelledError)


@pytest.mark.parametrize("workflow", REQUESTS)
async def test_one_that_is_cancelled_as_its_definition_is_read_is_cancelled(
    open_house: OpenHouse, reading: threading.Event, workflow: str
) -> None:
    house = await open_house([])
    handle = await house.client.start_workflow(
        workflow,
        REQUESTS[workflow],
        id=f"begin-{uuid.uuid4().hex[:12]}",
        task_queue=house.task_queue,
        task_timeout=timedelta(seconds=1),
    )

    async def begun() -> bool:
        return reading.is_set()

    await eventually(begun)
    await handle.cancel()
    assert await cancelled(handle)


async def test_who_waits_for_an_answer_is_told_that_the_run_was_cancelled(
    open_house: OpenHouse, reading: threading.Event
) -> None:
    house = await open_house([])
    start = starting(house, "AgentWorkflow", {"agent": AGENT, "conversation": True})
    update = await house.client.start_update_with_start_workflow(
        "send", "hello", start_workflow_operation=start, wait_for_stage=WorkflowUpdateStage.ACCEPTED
    )
    handle = await start.workflow_handle()
    await handle.cancel()
    assert await cancelled(handle)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await update.result()
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "cancelled"
    assert refused.value.cause.message == "the run was cancelled before it began"


async def test_who_waits_for_an_answer_is_told_why_the_run_cannot_begin(
    open_house: OpenHouse,
) -> None:
    house = await open_house([])
    start = starting(house, "AgentWorkflow", {"agent": "nobody", "conversation": True})
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await house.client.execute_update_with_start_workflow(
            "send", "hello", start_workflow_operation=start
        )
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "invalid_request"
    assert "there is no agent `nobody`" in refused.value.cause.message

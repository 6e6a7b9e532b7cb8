"""Runs of an agent: messages, time, cancellation, beginnings, skills and summaries."""

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
from temporalio.common import SearchAttributeKey, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError, CancelledError

from holdfast.testing.runs import RunUnderTest
from tests.support.backend import SIDE_BY_SIDE, Backend, Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call
from tests.support.tools import MAX_WAIT_SECONDS

DONE = Answer("done")
STATUS = SearchAttributeKey.for_keyword("AgentStatus")
FAKE = {"model": {"endpoint": "fake"}}
# Requests, and what the failure names.
NO_RUNS: list[tuple[Any, str]] = [
    ("just do it", "input"),
    ({"agent": {**FAKE, "tools": ["ech"]}, "input": "x"}, "echo"),
    ({"agent": FAKE, "input": "x", "principal": {"id": "\u200b"}}, "principal.id"),
]


async def test_a_request_that_starts_no_run_has_a_reason(launch: Launch) -> None:
    backend = await launch([], **SIDE_BY_SIDE)
    for number, (request, named) in enumerate(NO_RUNS):
        id = f"{backend.task_queue}-{number}"
        handle = await backend.client.start_workflow(
            "AgentWorkflow", request, id=id, task_queue=backend.task_queue
        )
        failure = await Run(handle).failure()
        assert failure.type == "invalid_request"
        assert named in failure.message
        why = {"code": "invalid_request", "message": failure.message}
        assert await shown_end(Run(handle)) == ("failed", "failed", why)


async def shown_end(run: Run) -> tuple[str, Any, dict[str, str]]:
    """Return the status by query and by search attribute, and the error that all queries show."""
    status, [event] = await run.status(), await run.events()
    assert event == {**(await run.context())[0], **status["error"], "type": "error"}
    found = (await run.handle.describe()).typed_search_attributes
    return status["status"], found.get(STATUS), status["error"]


async def test_a_conversation_answers_until_it_is_closed(launch: Launch) -> None:
    run = await (await launch([Answer("one"), Answer("two"), Answer("three")])).start(
        conversation=True
    )
    await run.idle()
    assert await run.handle.execute_update("send", "and two?") == "two"
    assert await run.handle.execute_update("send", {"content": "and three?"}) == "three"
    await run.idle()
    await run.handle.signal("close")
    assert (await run.result())["output"] == "three"


async def test_a_conversation_ends_without_messages(launch: Launch) -> None:
    run = await (await launch([Answer("one")])).start(conversation={"idleTimeout": "100ms"})
    assert (await run.result())["output"] == "one"


async def test_a_run_that_is_no_conversation_refuses_to_be_sent_to(launch: Launch) -> None:
    gate = threading.Event()
    backend = await launch([Answer("done", hold=gate)])
    run = await backend.start()
    await eventually(lambda: _asked(backend, 1))
    with pytest.raises(WorkflowUpdateFailedError):
        await run.handle.execute_update("send", "hello")
    gate.set()
    await run.result()


async def _asked(backend: Any, turn: int) -> bool:
    return bool(backend.model.asked(turn))


async def test_time_at_work_is_bounded_also_while_the_model_is_silent(
    launch: Launch,
) -> None:
    gate = threading.Event()
    backend = await launch([Answer("late", hold=gate)])
    run = await backend.start(agent={"budget": {"maxDuration": "300ms"}})
    assert (await run.result())["status"] == "budget_exceeded"
    gate.set()


async def test_waiting_for_people_takes_no_time(launch: Launch) -> None:
    answers = [Answer(calls=[call("pay", amount=1)]), DONE]
    run = await (await launch(answers)).start(
        ["pay"],
        agent={
            "budget": {"maxDuration": "10m"},
            "approval": {"timeout": "1h", "onTimeout": "approve"},
        },
    )
    await run.waiting()
    await RunUnderTest(run.client, run.id).skip_time("1h")
    assert (await run.result())["status"] == "completed"


AGENT_BEGINNINGS = {"name": "tester", "model": {"endpoint": "fake", "name": "fake"}}
REQUESTS = {
    "AgentWorkflow": {"agent": AGENT_BEGINNINGS, "input": "go"},
    "CallWorkflow": {"tool": "echo"},
}


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set once a definition is being read, which does not end before the test does."""
    is_reading, over = threading.Event(), threading.Event()

    def held(*_: Any) -> None:
        is_reading.set()
        over.wait(MAX_WAIT_SECONDS)

    monkeypatch.setattr("holdfast.activities.resolve.DefinitionResolver._check", held)
    yield is_reading
    over.set()


def starting(
    backend: Backend, workflow: str, request: dict[str, Any]
) -> WithStartWorkflowOperation[Any, Any]:
    """A workflow, to be started as a message is sent to it."""
    return WithStartWorkflowOperation(
        workflow,
        request,
        id=f"begin-{uuid.uuid4().hex[:12]}",
        task_queue=backend.task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        task_timeout=timedelta(seconds=2),  # a worker receives a cancellation so often
    )


async def cancelled(handle: WorkflowHandle[Any, Any]) -> bool:
    """Whether it ends as cancelled."""
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    return isinstance(failed.value.cause, CancelledError)


@pytest.mark.parametrize("workflow", REQUESTS)
async def test_one_that_is_cancelled_as_its_definition_is_read_is_cancelled(
    launch: Launch, reading: threading.Event, workflow: str
) -> None:
    backend = await launch([])
    handle = await backend.client.start_workflow(
        workflow,
        REQUESTS[workflow],
        id=f"begin-{uuid.uuid4().hex[:12]}",
        task_queue=backend.task_queue,
        task_timeout=timedelta(seconds=2),
    )

    async def is_reading() -> bool:
        return reading.is_set()

    await eventually(is_reading)
    await handle.cancel()
    assert await cancelled(handle)
    why = {"code": "cancelled", "message": "the run was cancelled before it began"}
    assert await shown_end(Run(handle)) == ("cancelled", None, why)


async def test_a_caller_who_waits_for_an_answer_receives_the_cancellation(
    launch: Launch, reading: threading.Event
) -> None:
    backend = await launch([])
    start = starting(backend, "AgentWorkflow", {"agent": AGENT_BEGINNINGS, "conversation": True})
    update = await backend.client.start_update_with_start_workflow(
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


async def test_a_caller_who_waits_for_an_answer_receives_why_the_run_cannot_start(
    launch: Launch,
) -> None:
    backend = await launch([])
    start = starting(backend, "AgentWorkflow", {"agent": "unknown", "conversation": True})
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await backend.client.execute_update_with_start_workflow(
            "send", "hello", start_workflow_operation=start
        )
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "invalid_request"
    assert "there is no agent `unknown`" in refused.value.cause.message

"""What the bench reports of a run that continues as another, and of one that does not get on."""

import uuid
from collections.abc import AsyncIterator

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from bench.measures.ending import Stopped, result_of
from bench.measures.measured import measured, parts


@workflow.defn(sandboxed=False)
class CountingWorkflow:
    """Continues as new until nothing is left."""

    @workflow.run
    async def run(self, left: int) -> str:
        """Its end."""
        if left:
            workflow.continue_as_new(left - 1)
        return "done"


@workflow.defn(sandboxed=False)
class Refusing:
    """End as requested."""

    @workflow.run
    async def run(self, how: str) -> None:
        """No end, or a bad one."""
        if how == "fails":
            reason = ApplicationError("there is no record r7")
            raise ApplicationError("a call failed") from reason
        if how == "is stuck":
            raise ValueError("the conversation is too large")
        await workflow.wait_condition(lambda: False)


@pytest.fixture
async def queue(client: Client) -> AsyncIterator[str]:
    """The task queue of a worker that has both."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=name, workflows=[CountingWorkflow, Refusing]):
        yield name


async def test_a_chain_is_one_run(client: Client, queue: str) -> None:
    run = await measured(client, "CountingWorkflow", queue, 2)
    histories = [
        await part.fetch_history() async for part in parts(client, run.id, run.first_run_id)
    ]

    assert (run.result, run.parts) == ("done", 3)
    assert run.events == sum(len(history.events) for history in histories)
    assert len({history.run_id for history in histories}) == 3


@pytest.mark.parametrize(
    ("how", "why", "timeout_seconds"),
    [
        ("fails", "there is no record r7", 60),
        ("is stuck", "its workflow task fails for ever: the conversation is too large", 60),
        ("waits", "did not end within 1 s", 1),
    ],
)
async def test_a_run_that_does_not_get_on_is_stopped(
    client: Client, queue: str, how: str, why: str, timeout_seconds: float
) -> None:
    handle = await client.start_workflow("Refusing", how, id=uuid.uuid4().hex, task_queue=queue)
    with pytest.raises(Stopped) as stopped:
        await result_of(client, handle, timeout_seconds, max_attempts=2)

    assert str(stopped.value) == why
    assert (await handle.describe()).status != WorkflowExecutionStatus.RUNNING

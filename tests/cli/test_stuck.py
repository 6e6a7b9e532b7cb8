"""A run whose worker cannot go on with it is told from one that has no worker (§12)."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from holdfast.client import run_handle as remote_run
from tests.cli.conftest import Holdfast
from tests.support.eventually import eventually

GONE = "the store /srv/runs has no file 5f/5f00\x1b[2J;\nis it the right one?"
TOLD = (
    "holdfast: the worker on task queue stuck cannot go on with run stuck-run: "
    "the store /srv/runs has no file 5f/5f00; is it the right one?; "
    "fix that, and the run continues by itself; the worker's log has more"
)


@workflow.defn(name="AgentWorkflow", sandboxed=False)
class Stuck:
    """A run whose every workflow task fails."""

    @workflow.run
    async def run(self, request: Any) -> None:
        """Fail the task, and not the run."""
        raise RuntimeError(GONE)


@pytest.fixture
async def stuck(client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """A run that has failed its first task, and is failing the next ones."""
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 1)
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue="stuck", workflows=[Stuck], workflow_runner=runner):
        run = await client.start_workflow(
            "AgentWorkflow",
            {},
            id="stuck-run",
            task_queue="stuck",
            task_timeout=timedelta(seconds=1),  # by which a failed task is tried again
        )

        async def failed() -> bool:
            kinds = [event.event_type async for event in run.fetch_history_events()]
            return EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED in kinds

        await eventually(failed)
        yield run.id
        await run.terminate()


async def test_it_is_said_that_its_worker_cannot_go_on_and_why(
    client: Client, stuck: str, holdfast: Holdfast
) -> None:
    # A query is left unanswered at first, and refused once the task has failed some times.
    shown = await holdfast("show", stuck)
    assert (shown.code, shown.out, shown.err) == (3, "", f"{TOLD}\n")

    decided = await holdfast("decide", stuck, "t1c1", "approve")
    assert (decided.code, decided.err) == (3, f"{TOLD}\n")

    async def refused() -> bool:
        return (await run.describe()).raw_description.pending_workflow_task.attempt >= 3

    run = client.get_workflow_handle(stuck)
    await eventually(refused)
    shown = await holdfast("show", stuck)
    assert (shown.code, shown.err) == (3, f"{TOLD}\n")


async def test_a_worker_that_died_at_its_task_is_no_worker(
    client: Client, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 1)
    second = timedelta(seconds=1)
    run = await client.start_workflow(
        "AgentWorkflow", {}, id="left", task_queue="died", task_timeout=second
    )
    taken = PollWorkflowTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name="died"), identity="dies"
    )
    await client.workflow_service.poll_workflow_task_queue(taken)

    async def missed() -> bool:
        return (await run.describe()).raw_description.pending_workflow_task.attempt > 1

    await eventually(missed)
    shown = await holdfast("show", run.id)
    await run.terminate()
    assert shown.code == 3
    assert shown.err.startswith("holdfast: no worker answers queries on task queue died; start one")

"""§7, §11: a run that Temporal would begin again by itself is none: nothing is done twice by it,
and nobody gives one what only another run can have left."""

import uuid
import zlib
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.service import RPCError

from holdfast.hosting.worker import WorkerSettings, build_worker
from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import House, OpenHouse, Run
from tests.support.model_server import Answer, ModelServer, call
from tests.workflows.test_chain import runs_of

AGENT = {
    "name": "tester",
    "model": {"endpoint": "fake", "name": "fake"},
    "tools": ["pay"],
    "approval": {"auto": ["pay"]},
}
PAYS = [Answer(calls=[call("pay", amount=7)]), Answer("paid")]
REQUESTS: dict[str, Any] = {
    "AgentWorkflow": {"agent": AGENT, "input": "go"},
    "CallWorkflow": {"tool": "pay", "arguments": {"amount": 7}},
}
CRON = {"cron_schedule": "@every 1s"}
RETRIED = {"retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=10))}


def forged() -> list[Any]:
    """What another run would have left: a snapshot of an agent that nobody has checked."""
    body = zlib.compress(b'{"request": {"agent": "x"}, "run": {}}')
    return [{"agent": "x", "turns": 1, "entries": 1, "body": 1, "pages": []}, body]


async def refused_as(run: Run, which: int) -> str:
    """Why the run of this number, from 1, of those under one id was not begun."""

    async def begun() -> str | None:
        runs = await runs_of(run)
        return runs[which - 1] if len(runs) >= which else None

    one = run.handle._client.get_workflow_handle(run.id, run_id=await eventually(begun))

    async def failed() -> Failure | None:
        last = (await one.fetch_history()).events[-1]
        # What failed and will come again is written down as if it continued.
        again = last.workflow_execution_continued_as_new_event_attributes.failure
        found = again if again.message else last.workflow_execution_failed_event_attributes.failure
        return found if found.message else None

    failure = await eventually(failed)
    assert failure.application_failure_info.type == "invalid_request"
    return failure.message


async def start(house: House, workflow: str, *given: Any, **how: Any) -> Run:
    """Start a workflow with these values, in this way."""
    id = f"again-{uuid.uuid4().hex[:12]}"
    handle = await house.client.start_workflow(
        workflow, args=given, id=id, task_queue=house.task_queue, **how
    )
    return Run(handle, house.client)


@pytest.mark.parametrize("workflow", REQUESTS)
async def test_a_cron_schedule_is_refused(open_house: OpenHouse, workflow: str) -> None:
    run = await start(await open_house(PAYS), workflow, REQUESTS[workflow], **CRON)

    for tick in (1, 2):
        assert "make a Temporal Schedule" in await refused_as(run, tick)
    await run.handle.terminate()
    assert tools.read() == []


@pytest.mark.parametrize("workflow", REQUESTS)
async def test_a_retry_policy_is_refused(open_house: OpenHouse, workflow: str) -> None:
    run = await start(await open_house(PAYS), workflow, REQUESTS[workflow], **RETRIED)

    assert "start it without one" in await refused_as(run, 1)
    assert len(await runs_of(run)) == 1
    assert tools.read() == []


async def test_a_run_that_is_reset_asks_before_it_does_again_what_it_has_done(
    open_house: OpenHouse,
) -> None:
    """A decision by signal is given again by Temporal; it does not do for this."""
    house = await open_house(PAYS)
    run = await start(house, "CallWorkflow", REQUESTS["CallWorkflow"])
    await run.waiting()
    await run.signal("t1c1", "approve")
    await run.result()
    await house.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=house.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run.id),
            workflow_task_finish_event_id=4,
            request_id=run.id,
        )
    )
    again = Run(house.client.get_workflow_handle(run.id))

    async def asked() -> Any:
        with suppress(RPCError):  # it is not there yet
            return await again.waiting()

    [waiting] = await eventually(asked)
    assert waiting["kind"] == "reconcile"
    assert waiting["question"].startswith("`pay` may have been carried out before the run was res")
    await again.decide("t1c1", "happened", result="paid")
    assert (await again.result())["output"] == "paid"
    assert tools.read() == [f"pay 7 {run.id}/t1c1"]


async def test_a_tick_of_a_cron_schedule_is_not_believed_to_continue_a_run(
    open_house: OpenHouse,
) -> None:
    """Temporal says of it that it continues another: its input is its starter's all the same."""
    run = await start(await open_house(PAYS), "AgentWorkflow", *forged(), **CRON)

    for tick in (1, 2):
        assert "cron schedule" in await refused_as(run, tick)
    await run.handle.terminate()
    assert tools.read() == []


async def test_a_further_attempt_is_not_believed_to_continue_a_run(
    client: Client, tmp_path: Path
) -> None:
    """The first attempts were too long without a worker."""
    queue = f"queue-{uuid.uuid4().hex[:8]}"
    house = House(client, queue, ModelServer(lambda *_: PAYS[0]))
    second = timedelta(seconds=2)
    run = await start(house, "AgentWorkflow", *forged(), run_timeout=second, **RETRIED)

    async def attempted() -> bool:
        return len(await runs_of(run)) > 1

    await eventually(attempted)
    endpoints = tmp_path / "endpoints.yaml"
    endpoints.write_text("fake: {provider: openai, baseUrl: 'http://127.0.0.1:1/v1'}\n")
    settings = WorkerSettings(task_queue=queue, endpoints=endpoints, max_cached_workflows=0)
    async with await build_worker(client, settings):
        failure = await run.failure()
    assert (failure.type, "retry policy" in failure.message) == ("invalid_request", True)

"""Requests to rate-limited endpoints."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import exceptions
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.history.v1 import ActivityTaskScheduledEventAttributes
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from bench.counters import ACTIONS
from bench.server import embedded
from holdfast.hosting.temporal import connect
from holdfast.hosting.worker import WorkerSettings, build_worker
from holdfast.hosting.worker_parts import WorkerParts
from holdfast.runtime.data_converter import data_converter, with_store
from holdfast.runtime.storage.folder import FolderStore
from holdfast.schemas import names
from holdfast.workflows.input import model_failure_message
from tests.support.backend import Backend, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call, serve
from tests.support.process import WorkerProcess
from tests.workflows.commands.test_model_tools import GOOD, MOOD

pytestmark = pytest.mark.usefixtures("ledger", "quick_starts")

TOOLS = Path(__file__).parents[2] / "support" / "tools.py"
Asked = Callable[[int, dict[str, Any]], Answer]


"""What the model answers at a turn."""


@pytest.fixture
def settings(tmp_path: Path) -> WorkerSettings:
    """What the workers of a test have in common, but for where their model is."""
    return WorkerSettings(
        tools=[str(TOOLS)],
        endpoints=tmp_path / "endpoints.yaml",
        task_queue=f"queue-{tmp_path.name}",
        cached_runs=100,
    )


@asynccontextmanager
async def backends(
    client: Client, settings: WorkerSettings, answer: Asked, *, limit: int | None, workers: int = 1
) -> AsyncIterator[Backend]:
    """So many workers of one task queue, whose model takes so many requests a minute."""
    assert settings.endpoints is not None
    more = "" if limit is None else f", maxRequestsPerMinute: {limit}"
    async with AsyncExitStack() as stack:
        server = stack.enter_context(serve(answer))
        settings.endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{server.url}'{more}}}")
        for _ in range(workers):
            # In one process, two workers of a task queue cannot share a client.
            own = await connect({"target_host": client.service_client.config.target_host})
            await stack.enter_async_context(build_worker(own, settings))
        yield Backend(client, settings.task_queue, server)


async def test_two_workers_together_make_no_more_requests_than_their_endpoint_takes(
    client: Client, settings: WorkerSettings
) -> None:
    """Temporal limits the task queue as a whole, whichever worker takes its tasks."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=f"{settings.task_queue}.requests.fake"),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )

    async def rate() -> float:
        found = await client.workflow_service.describe_task_queue(request)
        return found.effective_rate_limit.requests_per_second

    async with backends(client, settings, lambda *_: Answer("done"), limit=240, workers=2) as made:
        for run in [await made.start() for _ in range(4)]:
            assert (await run.result())["output"] == "done"
        assert await eventually(rate) == 240 / 60


async def test_requests_wait_in_their_endpoints_queue_and_all_else_stays_in_the_workers(
    client: Client, settings: WorkerSettings
) -> None:
    refusals = [Answer(status=429, headers={"retry-after-ms": "100"})]

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        if "You answer one call of a tool" in body["messages"][0]["content"]:
            return GOOD
        if turn == 1:
            calls = [call("mood", text="hooray"), call("echo", text="hello")]
            return refusals.pop() if refusals else Answer(calls=calls)
        return Answer("done")

    async with backends(client, settings, answer, limit=6_000) as backend:
        run = await backend.start([MOOD, "echo"], principal={"id": "p" * 100})
        assert (await run.result())["output"] == "done"
    requests = await scheduled(run, names.GENERATE)
    assert [each.activity_id for each in requests][1] == "t1c1"
    assert len(requests) == 3, "a request that is made again is none of its own"
    for each in requests:
        assert each.task_queue.name == f"{settings.task_queue}.requests.fake"
        assert each.priority.fairness_key == names.fairness_key("p" * 100)
        assert each.start_to_close_timeout.ToTimedelta() == settings.generate_timeout
        assert each.schedule_to_start_timeout.ToTimedelta() == timedelta(days=1)
        assert each.schedule_to_close_timeout.ToTimedelta() == timedelta(hours=25)
    (tool,) = await scheduled(run, "echo")
    assert tool.task_queue.name == settings.task_queue
    assert tool.priority.fairness_key == ""


async def scheduled(run: Run, activity: str) -> list[ActivityTaskScheduledEventAttributes]:
    """How the activities of a type were scheduled."""
    events = [event.activity_task_scheduled_event_attributes for event in await run.history()]
    return [each for each in events if each.activity_type.name == activity]


async def test_a_run_continues_where_its_endpoint_has_no_limit_any_more(
    client: Client, settings: WorkerSettings
) -> None:
    def answer(turn: int, _: dict[str, Any]) -> Answer:
        return Answer(calls=[call("charge", order_id="7")]) if turn == 1 else Answer("done")

    charge = {"_tool": "charge", "_activity": "echo", "_sideEffects": True}
    async with backends(client, settings, answer, limit=6_000) as backend:
        run = await backend.start([charge])
        await run.waiting()
    async with backends(client, settings, answer, limit=None):
        await run.decide("t1c1", "deny")
        async with asyncio.timeout(120):
            assert (await run.result())["output"] == "done"


def test_a_request_that_gets_no_turn_is_reported_with_likely_causes() -> None:
    error = exceptions.ActivityError(
        "activity error",
        scheduled_event_id=1,
        started_event_id=2,
        identity="",
        activity_type=names.GENERATE,
        activity_id="2",
        retry_state=None,
    )
    error.__cause__ = exceptions.TimeoutError(
        "activity ScheduleToStart timeout",
        type=exceptions.TimeoutType.SCHEDULE_TO_START,
        last_heartbeat_details=[],
    )
    assert "`maxRequestsPerMinute`" in model_failure_message(error)


async def test_requests_that_another_process_makes_cost_no_query_where_there_is_a_store(
    settings: WorkerSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(turn: int, body: dict[str, Any]) -> Answer:
        assert len(body["messages"]) == 2 * turn
        return Answer(calls=[call("echo", text=f"{turn}")]) if turn < 4 else Answer("done")

    store = FolderStore(tmp_path / "store")
    # The process of the run leaves the endpoint's requests to the other one.
    monkeypatch.setattr(WorkerParts, "request_workers", lambda *_: [])
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(embedded())
        config = server.client.config()
        config["data_converter"] = with_store(data_converter, store)
        client = Client(**config)
        model = stack.enter_context(serve(answer))
        limited = f"fake: {{provider: openai, baseUrl: '{model.url}', maxRequestsPerMinute: 6000}}"
        endpoints = tmp_path / "endpoints.yaml"
        endpoints.write_text(limited)
        await stack.enter_async_context(build_worker(client, settings))
        run = await Backend(client, settings.task_queue, model).start(["echo"])
        await eventually(lambda: scheduled(run, names.GENERATE))
        await eventually(lambda: stored(tmp_path / "store"))
        options = ["--task-queue", settings.task_queue, "--endpoints", str(endpoints)]
        options += ["--store", str(tmp_path / "store")]
        address = client.service_client.config.target_host
        other = WorkerProcess(address, *options, "--tools", str(TOOLS))
        await asyncio.to_thread(other.start)
        stack.push_async_callback(asyncio.to_thread, other.stop)
        assert (await run.result())["output"] == "done"
        counts = await server.counters.settled()
    assert counts[ACTIONS, "grpc_QueryWorkflow"] == 0


async def stored(folder: Path) -> list[Path]:
    """The values in a store."""
    return [path for path in folder.rglob("*") if path.is_file() and path.name[0] != "."]

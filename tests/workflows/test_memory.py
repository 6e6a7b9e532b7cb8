"""§9: what an agent keeps outlives the run and the worker, bounded and safe under concurrency."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.testing import ActivityEnvironment

from holdfast.activities.memory_access import MemoryActivities
from holdfast.activities.model.run_queries import RunQueries
from holdfast.hosting.worker import WorkerSettings, build_worker
from holdfast.schemas.internal import memory
from holdfast.schemas.internal.memory import (
    EMPTY,
    MemoryOwner,
)
from tests.support.backend import SIDE_BY_SIDE, Backend, Launch, Run
from tests.support.model_server import Answer, call

ANN = {"id": "ann@acme.org"}


class MemoryUser:
    """An agent's memory as the activities of its runs use it, with a worker that comes and goes."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.task_queue = f"queue-{uuid.uuid4().hex[:8]}"
        self.owner = MemoryOwner(agent=self.task_queue)
        self.handle = client.get_workflow_handle(self.owner.workflow_id)
        # Those of three workers.
        self._activities = [MemoryActivities(client, RunQueries(client)) for _ in range(3)]
        self._endpoints = folder / "endpoints.yaml"
        self._endpoints.write_text("{}")

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[None]:
        """A worker that keeps nothing between two workflow tasks."""
        settings = WorkerSettings(
            endpoints=self._endpoints, task_queue=self.task_queue, cached_runs=0
        )
        async with build_worker(self.client, settings):
            yield

    async def write(
        self, key: str, value: str | None, run: str = "run", call: str = "", worker: int = 0
    ) -> Any:
        """Write, as this call of this run, on this worker."""
        write = self._activities[worker].memory_write
        return await self._use(write, {"key": key, "value": value}, run, call or key)

    async def read(self, key: str | None = None) -> Any:
        """Read an entry, or the keys."""
        arguments = {} if key is None else {"key": key}
        return await self._use(self._activities[0].memory_read, arguments, "run", "read")

    async def search(self, query: str) -> Any:
        """Search."""
        search = self._activities[0].memory_search
        return await self._use(search, {"query": query}, "run", "search")

    async def events(self) -> int:
        """How long the memory's history is."""
        return (await self.handle.describe()).history_length

    async def _use(self, run_it: Any, arguments: Any, run: str, call: str) -> Any:
        environment = ActivityEnvironment()
        environment.info = replace(
            environment.info, task_queue=self.task_queue, workflow_run_id=run, activity_id=call
        )
        return await environment.run(run_it, arguments, self.owner.to_json())


@pytest.fixture
def desk(client: Client, tmp_path: Path) -> MemoryUser:
    """An agent with a name of its own: what it keeps stays on the server."""
    return MemoryUser(client, tmp_path)


# In a run.


def scripted(turn: int, body: dict[str, Any]) -> Answer:
    """What the model does: it is in the run's input."""
    [task] = [each["content"] for each in body["messages"] if each["role"] == "user"][:1]
    calls = {
        "write": call("memory_write", key="drink", value="tea with milk"),
        "read": call("memory_read", key="drink"),
        "search": call("memory_search", query="MILK"),
    }
    return Answer(calls=[calls[task]]) if turn == 1 else Answer("done")


async def result_of(backend: Backend, agent: Any, task: str, **request: Any) -> str:
    """What the agent's one call gives the model."""
    handle = await backend.client.start_workflow(
        "AgentWorkflow",
        {"agent": agent, "input": task, **request},
        id=f"run-{uuid.uuid4().hex[:12]}",
        task_queue=backend.task_queue,
    )
    run = Run(handle)
    await run.result()
    return json.dumps((await run.results())["t1c1"])


async def test_memory_belongs_to_an_agent_of_the_catalog_and_to_a_principal(
    launch: Launch, tmp_path: Path
) -> None:
    name = f"desk-{uuid.uuid4().hex[:8]}"
    written = {"model": {"endpoint": "fake", "name": "fake"}, "memory": True}
    (tmp_path / "catalog" / "agents").mkdir(parents=True)
    (tmp_path / "catalog" / "agents" / f"{name}.json").write_text(json.dumps(written))
    backend = await launch(scripted, catalog=tmp_path / "catalog", **SIDE_BY_SIDE)
    assert "memory is empty" in await result_of(backend, name, "read", principal=ANN)
    assert "true" in await result_of(backend, name, "write", principal=ANN)

    for task in ("read", "search"):
        found = await result_of(backend, name, task, principal=ANN)
        assert "tea with milk" in found
        told_so = str(backend.model.requests[-1]["messages"][-1])
        assert '"trusted":false' in told_so.replace(" ", "")  # a model wrote it

    impostor = {**written, "name": name}
    others = (
        result_of(backend, name, "read"),
        result_of(backend, name, "read", principal={"id": "bob"}),
        result_of(backend, impostor, "read", principal=ANN),
    )
    assert all("memory is empty" in each for each in await asyncio.gather(*others))


# As activities use it.


async def test_it_outlives_the_worker_and_reading_leaves_no_trace(desk: MemoryUser) -> None:
    async with desk.worker():
        assert await desk.read() == await desk.search("tea") == EMPTY
        with pytest.raises(RPCError, match="not found"):
            await desk.handle.describe()  # reading starts nothing
        assert await desk.write("drink", "tea") == {"key": "drink", "kept": True, "entries": 1}
    events = await desk.events()
    async with desk.worker():
        assert (await desk.read("drink"))["value"] == "tea"
        assert (await desk.search("TEA"))["matches"] == 1
    assert await desk.events() == events


async def test_concurrent_writers_lose_nothing_though_it_continues_as_new_meanwhile(
    desk: MemoryUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MAX_WRITES_A_RUN", 7)
    async with desk.worker():
        await desk.write("first", "x")
        first = (await desk.handle.describe()).run_id
        writers = [desk.write(f"k{n}", f"text {n}", f"run-{n}", worker=n % 3) for n in range(30)]
        await asyncio.gather(*writers)
        assert (await desk.search("text"))["matches"] == 30
        assert (await desk.read("first"))["value"] == "x"
    assert (await desk.handle.describe()).run_id != first
    assert await desk.events() < 60


async def test_what_is_no_write_is_refused_without_a_trace(desk: MemoryUser) -> None:
    async with desk.worker():
        with pytest.raises(ApplicationError, match="keep at most 16000") as refused:
            await desk.write("drink", "x" * 16_001)
        assert (refused.value.type, refused.value.non_retryable) == ("invalid_arguments", True)
        await desk.write("drink", "tea")
        with pytest.raises(WorkflowUpdateFailedError) as update:
            await desk.handle.execute_update("write", ["drink"])
        assert "write one JSON object" in str(update.value.cause)
        assert len((await desk.read())["keys"]) == 1


async def test_a_memory_that_is_started_by_hand_with_nonsense_ends_at_once(
    desk: MemoryUser,
) -> None:
    handle = await desk.client.start_workflow(
        "MemoryWorkflow", "remember!", id=desk.owner.workflow_id, task_queue=desk.task_queue
    )
    async with desk.worker():
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
    assert "only the first write of a run starts a memory" in str(failed.value.cause)

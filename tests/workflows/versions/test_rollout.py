"""A new build of the worker: a run stays on the one that it is on until its turn is over, and then
continues with the current one; nothing is done twice, and a bad build can be taken back."""

import asyncio
import uuid
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.service import RPCError

from holdfast.client import remote_run
from holdfast.hosting.dev_server import temporal_binary
from holdfast.hosting.worker import WorkerSettings, build_worker, routing_advice
from holdfast.schemas import names
from tests.support import tools
from tests.support.backend import Backend, Run
from tests.support.command import holdfast
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call, serve
from tests.support.process import WorkerProcess
from tests.workflows.commands.test_child_workflows import ASKS, agents, by_agent

pytestmark = pytest.mark.usefixtures("ledger")

# What a payment leaves behind: which build made it, how much, and the key to act once by.
PAY = """
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from temporalio import activity


class Payment(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_sideEffects": True})
    amount: int


@activity.defn
def pay(payment: Payment) -> str:
    line = f"build BUILD pays {payment.amount} {activity.info().activity_id}"
    with Path(os.environ["HOLDFAST_TEST_LEDGER"]).open("a") as ledger:
        print(line, file=ledger)
    return "paid"
"""
PAYS = [Answer(calls=[call("pay", amount=n)]) for n in (1, 2, 3)]
ANSWERS = by_agent(
    Test=[*PAYS, Answer("done")],
    Chief=[ASKS, PAYS[1], Answer("all done")],
    helper=[*PAYS[:2], Answer("helped")],
)


class Rollout:
    """A deployment; `backend` starts runs on its task queue."""

    def __init__(self, backend: Backend, folder: Path, stack: AsyncExitStack) -> None:
        self.backend = backend
        self.name = backend.task_queue
        self.address = backend.client.service_client.config.target_host
        self._folder, self._stack = folder, stack

    async def start(self, build: str) -> AsyncExitStack:
        """Start a worker of a build in this process; it is stopped by closing what is given."""
        settings = WorkerSettings(
            endpoints=self._folder / "endpoints.yaml",
            catalog=self._folder / "catalog",
            tools=[str(self._module(build))],
            task_queue=self.name,
            deployment=self.name,
            build=build,
            cached_runs=0,
        )
        worker = build_worker(self.backend.client, settings)
        stopping = await self._stack.enter_async_context(AsyncExitStack())
        await stopping.enter_async_context(worker)
        return stopping

    def start_process(self, build: str) -> WorkerProcess:
        """Start a worker of a build as people do."""
        paths = {"--endpoints": "endpoints.yaml", "--catalog": "catalog"}
        options = {name: str(self._folder / path) for name, path in paths.items()} | {
            "--task-queue": self.name,
            "--tools": str(self._module(build)),
            "--deployment": self.name,
            "--build": build,
        }
        words = [word for option in options.items() for word in option]
        return self._stack.enter_context(WorkerProcess(self.address, *words))

    def _module(self, build: str) -> Path:
        module = self._folder / f"build_{build}.py"
        module.write_text(PAY.replace("BUILD", build))
        return module

    async def make_current(self, build: str) -> None:
        """Have runs begin on a build, and move to it."""
        set_current = ["worker", "deployment", "set-current-version", "--yes"]
        version = ["--deployment-name", self.name, "--build-id", build]

        async def done() -> bool:
            # Its workers may not have reported yet.
            return await self.temporal(*set_current, *version) == 0

        await eventually(done)
        await eventually(partial(self._is_current, build))

    async def _is_current(self, build: str) -> bool:
        """Whether the task queue has the version."""
        client = self.backend.client
        asked = DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=self.name)
        )
        told = await client.workflow_service.describe_task_queue(asked, retry=True)
        return told.versioning_info.current_deployment_version.build_id == build

    async def temporal(self, *words: str) -> int:
        """Give Temporal's own command some words, as an operator does; its exit code."""
        process = await asyncio.create_subprocess_exec(
            temporal_binary(), *words, "--address", self.address, stdout=DEVNULL, stderr=DEVNULL
        )
        return await process.wait()

    async def until_on(self, run: Run, build: str) -> None:
        """Wait until a run has done something on a build."""

        async def there() -> bool:
            described = (await run.handle.describe()).raw_description
            on = described.workflow_execution_info.versioning_info.deployment_version
            return on.build_id == build

        await eventually(there)

    async def until_drained(self, build: str) -> None:
        """Wait until no open run is on a build any more."""
        on = f'TemporalWorkerDeploymentVersion = "{self.name}:{build}"'

        async def all_ended() -> bool:
            found = await self.backend.client.count_workflows(
                f'{on} AND ExecutionStatus = "Running"'
            )
            return found.count == 0

        await eventually(all_ended)


@pytest.fixture
async def rollout(client: Client, tmp_path: Path, quick_starts: None) -> AsyncIterator[Rollout]:
    """A deployment of which nothing has been built yet."""
    helper = {"tools": ["pay"], "budget": {"maxIterations": 10}}
    agents(tmp_path / "catalog", helper=helper)
    with serve(ANSWERS) as model:
        endpoints = tmp_path / "endpoints.yaml"
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}', timeout: 60s}}\n")
        backend = Backend(client, f"rollout-{uuid.uuid4().hex[:8]}", model)
        async with AsyncExitStack() as stack:
            yield Rollout(backend, tmp_path, stack)


@pytest.fixture
def impatient(rollout: Rollout, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds the server, and does not wait long for a worker."""
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 1)
    monkeypatch.setenv("TEMPORAL_ADDRESS", rollout.address)


async def waits(run: Run, call_id: str) -> None:
    """Wait until a call waits for a decision."""

    async def asked() -> bool:
        try:
            found = await run.handle.query("approvals")
        except RPCError:
            return False  # it has not started yet, or is on its way to another build
        return [one["callId"] for one in found] == [call_id]

    await eventually(asked)


async def test_a_run_lives_through_a_rollout(rollout: Rollout) -> None:
    old = rollout.start_process("1")
    await rollout.make_current("1")
    run = await rollout.backend.start(["pay"], state={"kept": 1})
    await waits(run, "t1c1")
    rollout.start_process("2")
    await rollout.make_current("2")
    new = await rollout.backend.start(["pay"])
    await rollout.until_on(new, "2")

    await rollout.until_on(run, "1")
    await run.decide("t1c1", "approve", by="ada", remember=True)
    result = await run.result()

    assert (result["output"], result["calls"], result["state"]) == ("done", 3, {"kept": 1})
    await rollout.until_on(run, "2")
    pays = [f"build {build} pays {n} t{n}c1" for n, build in ((1, 1), (2, 2), (3, 2))]
    assert tools.read() == pays
    assert [rollout.backend.model.asked(turn) for turn in (2, 3, 4)] == [1, 1, 1]
    await rollout.until_drained("1")
    old.stop()
    await waits(new, "t1c1")
    await new.decide("t1c1", "approve", remember=True)
    assert (await new.result())["output"] == "done"


async def test_a_build_that_does_not_work_is_taken_back(rollout: Rollout) -> None:
    await rollout.start("1")
    await rollout.make_current("1")
    run = await rollout.backend.start(["pay"])
    await waits(run, "t1c1")
    bad = await rollout.start("2")
    await rollout.make_current("2")
    await bad.aclose()
    await run.decide("t1c1", "approve", remember=True)

    async def gone_on() -> bool:
        return (await run.handle.describe()).run_id != run.handle.first_execution_run_id

    await eventually(gone_on)
    await rollout.make_current("1")

    assert (await run.result())["output"] == "done"
    await rollout.until_on(run, "1")
    assert tools.read() == [f"build 1 pays {n} t{n}c1" for n in (1, 2, 3)]


@pytest.mark.usefixtures("impatient")
async def test_nothing_begins_before_a_build_is_current(rollout: Rollout) -> None:
    await rollout.start("1")
    run = await rollout.backend.start(["pay"])

    said = await holdfast("show", run.id)
    told = f"holdfast: the workers on task queue {rollout.name} are of no build that is current; "
    assert (said.code, said.err[: len(told)]) == (3, told)
    _, _, make = said.err.strip().partition("make one so: temporal ")
    version = WorkerDeploymentVersion(rollout.name, "1")
    # It is known of once it has polled.
    assert await eventually(lambda: routing_advice(rollout.backend.client, version))
    assert await rollout.temporal(*make.split(), "--yes") == 0
    await waits(run, "t1c1")
    assert await routing_advice(rollout.backend.client, version) is None


@pytest.mark.usefixtures("impatient")
async def test_a_run_that_has_ended_is_read_by_its_build(rollout: Rollout) -> None:
    old = await rollout.start("1")
    await rollout.make_current("1")
    run = await rollout.backend.start()
    assert (await run.result())["output"] == "done"
    await old.aclose()

    said = await holdfast("show", run.id)
    assert (said.code, "of which no worker answers; start one: " in said.err) == (3, True)


async def test_a_memory_has_no_build_wait_for_it(rollout: Rollout) -> None:
    old = await rollout.start("1")
    await rollout.make_current("1")
    memory = await rollout.backend.client.start_workflow(
        names.MEMORY_WORKFLOW,
        {"owner": {"agent": "tester"}, "writesARun": 100},
        id=f"memory-{rollout.name}",
        task_queue=rollout.name,
    )
    await memory.execute_update(names.WRITE, {"key": "a", "value": "1"})
    await rollout.start("2")
    await rollout.make_current("2")
    await old.aclose()

    await memory.execute_update(names.WRITE, {"key": "b", "value": "2"})
    await rollout.until_on(Run(memory), "2")
    assert (await memory.query(names.READ, {"key": "a"}))["value"] == "1"
    await memory.terminate()

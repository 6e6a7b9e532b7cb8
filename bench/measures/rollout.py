"""A new build of the worker while runs are open: the build on which each run starts and ends.

A third of the runs wait for an approval, a third receive their last answer, a third wait for their
next message. Some are there before the roll-out, some start during the ramp, some after it; nothing
is decided before. The builds are read from the histories, the effects of the tools from a file, and
each run's end by a query, after the workers of the old build have stopped.
"""

import asyncio
import tempfile
import threading
from asyncio.subprocess import DEVNULL
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.enums.v1 import VersionDrainageStatus
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentVersionRequest
from temporalio.client import Client

from bench.measures.ending import Stopped, result_of
from bench.measures.many import MAX_SECONDS, check, each, took
from bench.measures.measured import parts, shown
from bench.process import our_worker
from bench.server import Server
from bench.stage import told
from holdfast.hosting.dev_server import temporal_binary
from holdfast.schemas import names
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call, serve

DEPLOYMENT = QUEUE = "desk"
OLD, NEW = "1", "2"
WORKERS = 2
RAMP = "20"
APPROVAL, STREAM, MESSAGE = KINDS = ("an approval", "its last answer", "a message")
# By when a run starts, the builds on which it may.
PHASES = {"before": {OLD}, f"at {RAMP} %": {OLD, NEW}, "after": {NEW}}
COLUMNS = ("runs", "started on 1", "on 2", "ended on 1", "on 2", "on a wrong build", "failed")


async def table(server: Server, runs: int) -> str:
    """The figures of so many runs of each phase, as Markdown tables."""
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder) / "effects")
        with serve(model) as serving:
            rollout = Rollout(server.client, model, serving.url)
            seconds = await rollout.perform(runs)
        effects = model.effects.read_text(encoding="utf-8").splitlines()
    seen = list(rollout.runs.values())
    calls = sum(2 if run.kind == MESSAGE else 1 for run in seen)
    check(len(set(effects)) == calls, f"{len(set(effects))} calls of {calls} had an effect")
    rows = [_row(phase, kind, seen) for phase in PHASES for kind in KINDS]
    head = ["started", "waits for", *COLUMNS]
    lines = [head, ["---", "---", *["---:"] * len(COLUMNS)], *rows]
    figures = {
        "effects of tools": len(effects),
        "effects repeated": len(effects) - calls,
        "requests to the model": len(serving.requests),
        # One for each call, and one for its result.
        "requests repeated": len(serving.requests) - 2 * calls,
        **seconds,
    }
    lines += [[], ["roll-out", ""], ["---", "---:"]]
    lines += [[name, shown(figure)] for name, figure in figures.items()]
    return "\n".join(f"| {' | '.join(line)} |" if line else "" for line in lines)


def _row(phase: str, kind: str, seen: Sequence["Run"]) -> list[str]:
    mine = [run for run in seen if (run.phase, run.kind) == (phase, kind)]
    started = Counter(run.builds[0] for run in mine)
    ended = Counter(run.builds[-1] for run in mine)
    counts = [len(mine), started[OLD], started[NEW], ended[OLD], ended[NEW]]
    counts += [sum(run.on_wrong_build for run in mine), sum(run.failed for run in mine)]
    return [phase, kind, *map(str, counts)]


@dataclass
class Run:
    """A run; `builds` are those of its workflow tasks, in order."""

    phase: str
    kind: str
    first_run_id: str
    failed: bool = True
    builds: list[str] = field(default_factory=list)

    @property
    def on_wrong_build(self) -> bool:
        """Whether it was on another build than it should be on: each moves once, and ends on 2."""
        started, ended = self.builds[0], self.builds[-1]
        in_order = self.builds == sorted(self.builds)
        return not (started in PHASES[self.phase] and ended == NEW and in_order)


class Model:
    """Calls the tool after each message, and answers then; a last answer waits in its middle."""

    def __init__(self, effects: Path) -> None:
        self.effects = effects
        self.goes_on = threading.Event()
        self.streaming = set[str]()

    def __call__(self, _: int, body: dict[str, Any]) -> Answer:
        messages: list[dict[str, Any]] = body["messages"]
        if messages[-1]["role"] == "user":
            return Answer(calls=[call("note_call", path=str(self.effects))])
        asked = next(each["content"] for each in messages if each["role"] == "user")
        if STREAM not in asked:
            return Answer("done")
        self.streaming.add(asked)
        return Answer("done", hold=self.goes_on)


@dataclass
class Rollout:
    """A deployment with two builds, and its runs by their ids."""

    client: Client
    model: Model
    model_url: str
    runs: dict[str, Run] = field(default_factory=dict)

    async def perform(self, runs: int) -> dict[str, float]:
        """Roll out the new build as an operator does; how long its moments took, in seconds."""
        before, ramp, after = PHASES
        async with AsyncExitStack() as new:
            async with AsyncExitStack() as old:
                await self._start_workers(old, OLD)
                await self._route("set-current-version", OLD)
                await self._start(before, runs)
                await self._start_workers(new, NEW)
                await self._route("set-ramping-version", NEW, "--percentage", RAMP)
                await self._start(ramp, runs)
                await self._route("set-current-version", NEW)
                switched = perf_counter()
                await self._start(after, runs)
                self.model.goes_on.set()
                empty, ended = await asyncio.gather(
                    took(eventually(self._is_empty, MAX_SECONDS)),
                    took(each(self._finish, list(self.runs), at_once=len(self.runs))),
                )
                await eventually(self._is_drained, MAX_SECONDS)
                drained = perf_counter() - switched
            await each(self._read, list(self.runs))
        return {
            "from the decisions until all runs have ended, s": ended,
            "until none is open on build 1, s": empty,
            "from the switch until build 1 is reported as drained, s": drained,
        }

    async def _start_workers(self, stack: AsyncExitStack, build: str) -> None:
        address = self.client.service_client.config.target_host
        version = ("--deployment", DEPLOYMENT, "--build", build)
        for _ in range(WORKERS):
            worker = our_worker(address, QUEUE, self.model_url, *version)
            await stack.enter_async_context(worker)
        told(f"build {build} is there")

    async def _route(self, command: str, build: str, *more: str) -> None:
        words = ("--deployment-name", DEPLOYMENT, "--build-id", build, *more, "--yes")
        address = self.client.service_client.config.target_host

        async def done() -> bool:
            process = await asyncio.create_subprocess_exec(
                temporal_binary(),
                *("worker", "deployment", command, *words, "--address", address),
                stdout=DEVNULL,
                stderr=DEVNULL,
            )
            return not await process.wait()  # its workers may not have polled yet

        await eventually(done, MAX_SECONDS)

    async def _start(self, phase: str, runs: int) -> None:
        first = len(self.runs)
        ids = {f"{QUEUE}-{first + n}": KINDS[n % len(KINDS)] for n in range(runs)}
        await each(lambda id: self._start_one(id, phase, ids[id]), list(ids))
        await eventually(self._all_wait, MAX_SECONDS)
        told(f"{runs} runs more wait")

    async def _start_one(self, id: str, phase: str, kind: str) -> None:
        tool = {
            "_tool": "note_call",
            "_sideEffects": True,
            "_approval": {"require": "always" if kind == APPROVAL else "never"},
            "properties": {"path": {"type": "string"}},
        }
        agent = {"name": "bench", "model": {"endpoint": "fake"}, "tools": [tool]}
        request = {"agent": agent, "input": f"{id} waits for {kind}"}
        handle = await self.client.start_workflow(
            names.AGENT_WORKFLOW,
            {**request, "conversation": kind == MESSAGE},
            id=id,
            task_queue=QUEUE,
        )
        self.runs[id] = Run(phase, kind, handle.first_execution_run_id or "")

    async def _all_wait(self) -> bool:
        due = Counter(run.kind for run in self.runs.values())
        waiting = Counter({STREAM: len(self.model.streaming)})
        for kind, status in ((APPROVAL, "awaiting_approval"), (MESSAGE, "awaiting_message")):
            found = await self.client.count_workflows(f'{names.AGENT_STATUS} = "{status}"')
            waiting[kind] = found.count
        return waiting == due

    async def _finish(self, id: str) -> None:
        """Send a run what it waits for, and see it to its end."""
        run, handle = self.runs[id], self.client.get_workflow_handle(id)
        if run.kind == APPROVAL:
            await handle.execute_update(names.DECIDE, {"callId": "t1c1", "decision": "approve"})
        elif run.kind == MESSAGE:
            await handle.execute_update(names.SEND, "again")
            await handle.signal(names.CLOSE)
        try:
            await result_of(self.client, handle, MAX_SECONDS)
        except Stopped as stopped:
            told(f"{id}: {stopped}")

    async def _read(self, id: str) -> None:
        """Ask a run for its status, and read from its histories on which builds it was."""
        run, handle = self.runs[id], self.client.get_workflow_handle(id)
        run.failed = (await handle.query(names.STATUS))["status"] != "completed"
        async for part in parts(self.client, id, run.first_run_id):
            async for event in part.fetch_history_events():
                if event.HasField("workflow_task_completed_event_attributes"):
                    done = event.workflow_task_completed_event_attributes
                    run.builds.append(done.deployment_version.build_id)

    async def _is_empty(self) -> bool:
        on_old = f'TemporalWorkerDeploymentVersion = "{DEPLOYMENT}:{OLD}"'
        found = await self.client.count_workflows(f'{on_old} AND ExecutionStatus = "Running"')
        return found.count == 0

    async def _is_drained(self) -> bool:
        request = DescribeWorkerDeploymentVersionRequest(
            namespace=self.client.namespace,
            deployment_version=WorkerDeploymentVersion(deployment_name=DEPLOYMENT, build_id=OLD),
        )
        answer = await self.client.workflow_service.describe_worker_deployment_version(request)
        status = answer.worker_deployment_version_info.drainage_info.status
        return status == VersionDrainageStatus.VERSION_DRAINAGE_STATUS_DRAINED

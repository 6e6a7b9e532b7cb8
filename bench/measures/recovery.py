"""`kill -9` of the worker: how long until its run has gone on, and ended.

The run is at its last step but one when its worker is killed: a model answers, a tool is at work,
or a person is waited for. What it waits for comes at once after the kill, so what is measured is
the time that the death of the worker costs, to the end of the run. Either another worker takes the
run over, or one is started in place of the dead one.
"""

import statistics
import tempfile
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from temporalio.client import Client, WorkflowHandle

from bench.measures.measured import shown
from bench.process import Program, our_worker
from holdfast.schemas import names
from tests.support.eventually import eventually
from tests.support.model_server import Answer, ModelServer, call, serve

REPEATS = 3
Handle = WorkflowHandle[Any, Any]
Moment = Literal["a model answers", "a tool is at work", "a person is waited for"]
# With the timeouts of a worker at that moment, or of one with `--dev`: heartbeat, sticky.
MOMENTS: tuple[tuple[Moment, str, str], ...] = (
    ("a model answers", "12s", "5s"),
    ("a model answers", "3s", "1s"),
    ("a tool is at work", "3s", "5s"),
    ("a tool is at work", "3s", "1s"),
    ("a person is waited for", "3s", "5s"),
    ("a person is waited for", "3s", "1s"),
)


async def table(client: Client) -> str:
    """The seconds from the kill to the end of the run, as a Markdown table: median (longest)."""
    head = "killed while | heartbeat timeout | sticky timeout | another takes over, s"
    rows = [f"| {head} | it is restarted, s |", "| --- | ---: | ---: | ---: | ---: |"]
    for moment, timeout, sticky in MOMENTS:
        options = ("--heartbeat-timeout", timeout, "--sticky-timeout", sticky)
        cells = []
        for spare in (True, False):
            took = [
                await recovery(client, moment, spare=spare, options=options) for _ in range(REPEATS)
            ]
            cells.append(f"{shown(statistics.median(took))} ({shown(max(took))})")
        rows.append(f"| {moment} | {timeout} | {sticky} | {' | '.join(cells)} |")
    return "\n".join(rows)


async def recovery(client: Client, moment: Moment, *, spare: bool, options: Any = ()) -> float:
    """Kill a run's worker at a moment, and see the run to its end: the seconds that it took.

    Args:
        spare: another worker is there; else one is started after the kill.
        options: more of the worker's command line.

    Raises:
        RuntimeError: the run came to something else than it was to.
    """
    async with _scene(client, moment) as scene:
        for _ in range(2 if spare else 1):
            await scene.start_worker(*options)
        handle = await scene.start_run()
        await eventually(lambda: scene.reached(handle))
        killed = perf_counter()
        await scene.kill_worker_of(handle)
        await scene.let_go(handle)
        if not spare:
            await scene.start_worker(*options)
        result = await handle.result()
        if result["output"] != "done":
            raise RuntimeError(f"the run came to this: {result}")
        return perf_counter() - killed


@dataclass
class Scene:
    """Workers that can be killed, a run, and what holds it up at a moment: an event or a file."""

    client: Client
    moment: Moment
    model: ModelServer
    model_goes_on: threading.Event
    tool_goes_on: Path
    stack: AsyncExitStack
    queue: str = field(default_factory=lambda: f"recovery-{uuid.uuid4().hex[:8]}")
    workers: dict[int, Program] = field(default_factory=dict)

    async def start_worker(self, *options: str) -> None:
        """Start a worker."""
        address = self.client.service_client.config.target_host
        starting = our_worker(address, self.queue, self.model.url, *options)
        worker = await self.stack.enter_async_context(starting)
        self.workers[worker.process.pid] = worker

    async def start_run(self) -> Handle:
        """Start the run: one call, and an answer."""
        asks = self.moment == "a person is waited for"
        tool = {
            "_tool": "wait_for",
            "_approval": {"require": "always" if asks else "never"},
            "properties": {"path": {"type": "string"}},
        }
        agent = {"name": "bench", "model": {"endpoint": "fake"}, "tools": [tool]}
        return await self.client.start_workflow(
            names.AGENT_WORKFLOW,
            {"agent": agent, "input": "go"},
            id=f"{self.queue}-run",
            task_queue=self.queue,
        )

    async def reached(self, handle: Handle) -> bool:
        """Whether the run is at the moment."""
        match self.moment:
            case "a model answers":
                return self.model.asked(turn=2) > 0
            case "a tool is at work":
                return self.tool_goes_on.with_suffix(".begun").exists()
            case "a person is waited for":
                return bool(await handle.query(names.APPROVALS))

    async def kill_worker_of(self, handle: Handle) -> None:
        """Kill the worker that does the run's activity; where there is none, that of the run."""
        pending = (await handle.describe()).raw_description.pending_activities
        identity = pending[0].last_worker_identity if pending else await _decided_by(handle)
        await self.workers.pop(int(identity.partition("@")[0])).kill()

    async def let_go(self, handle: Handle) -> None:
        """Let what holds the run up be over."""
        self.model_goes_on.set()
        self.tool_goes_on.touch()
        if self.moment == "a person is waited for":
            await handle.signal(names.APPROVE, {"callId": "t1c1", "decision": "approve"})


@asynccontextmanager
async def _scene(client: Client, moment: Moment) -> AsyncIterator[Scene]:
    goes_on = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        gate = Path(folder) / "gate"
        if moment != "a tool is at work":
            gate.touch()
        waits = Answer(calls=[call("wait_for", path=str(gate))])
        held = goes_on if moment == "a model answers" else None
        with serve([waits, Answer("done", hold=held)]) as model:
            async with AsyncExitStack() as stack:
                yield Scene(client, moment, model, goes_on, gate, stack)


async def _decided_by(handle: Handle) -> str:
    """The worker that the run is kept by, as it names itself: its process and its host."""
    identity = ""
    async for event in handle.fetch_history_events():
        done = event.workflow_task_completed_event_attributes
        identity = done.identity or identity
    return identity

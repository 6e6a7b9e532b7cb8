"""Runs that wait for people, many on one worker: what they hold, how soon they are found, decided.

Each run has asked a model, and waits for leave to carry out its one call. The worker keeps a
thousand runs in its cache; more are taken up again from their histories when something happens.
"""

import asyncio
import statistics
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.client import Client

from bench.counters import ACTIONS, PERSISTENCE, total
from bench.measures import many
from bench.measures.many import ASKS, CACHED, MAX_SECONDS, check, each, took
from bench.process import ROOT, Program, environment, fake_model, our_worker
from bench.programs.work import Work
from bench.server import Server
from holdfast.schemas import names
from tests.support.eventually import eventually

DECIDED_ALONE = 20
WORK = Work(turns=2, result_bytes=100)
WAITING = f'{names.AGENT_STATUS} = "awaiting_approval"'


async def table(server: Server, runs: int) -> str:
    """The figures of so many runs, as a Markdown table."""
    address = server.client.service_client.config.target_host
    before = await server.counters.settled()
    queue = f"waiting-{uuid.uuid4().hex[:8]}"
    async with fake_model() as model, our_worker(address, queue, model, *CACHED) as worker:
        crowd = Crowd(server.client, queue, worker, [f"{queue}-{n}" for n in range(runs)])
        rows = await crowd.figures()
        counts = await server.counters.settled() - before
    rows["Actions of a run"] = total(counts, ACTIONS) / runs
    rows["persistence requests of a run"] = total(counts, PERSISTENCE) / runs
    return many.table(f"{runs:,} pending approvals", rows)


@dataclass(frozen=True)
class Crowd:
    """Runs of one agent, on one worker."""

    client: Client
    queue: str
    worker: Program
    ids: Sequence[str]

    async def figures(self) -> dict[str, float]:
        """Start them, find them, decide on them."""
        before = self.worker.memory_bytes
        started = await took(self._start())
        cpu, waits = self.worker.cpu_seconds, self.worker.memory_bytes
        found = await took(self._find())
        listed = await took(self._list())
        alone, rest = self.ids[:DECIDED_ALONE], self.ids[DECIDED_ALONE:]
        decided = [await took(self._decide(id)) for id in alone]
        all_decided = await took(each(self._decide, rest)) + sum(decided)
        return {
            "until all wait, s": started,
            "memory of the worker before, MB": before / 1e6,
            "memory of the worker while they wait, MB": waits / 1e6,
            "of that, a run, KB": (waits - before) / 1e3 / len(self.ids),
            "to list them on the server, s": found,
            "`holdfast approvals`, s": listed,
            "to decide one, ms": statistics.median(decided) * 1000,
            "until all are decided and finished, s": all_decided,
            "of that, CPU time of the worker, s": self.worker.cpu_seconds - cpu,
            "memory of the worker at the end, MB": self.worker.memory_bytes / 1e6,
        }

    async def _start(self) -> None:
        await each(self._start_one, self.ids)
        await eventually(self._all_wait, MAX_SECONDS)

    async def _start_one(self, id: str) -> None:
        agent = {"name": self.queue, "model": {"endpoint": "fake"}, "tools": [ASKS]}
        request = {"agent": agent, "input": WORK.prompt}
        await self.client.start_workflow(
            names.AGENT_WORKFLOW, request, id=id, task_queue=self.queue
        )

    async def _all_wait(self) -> bool:
        return (await self.client.count_workflows(self._mine)).count == len(self.ids)

    @property
    def _mine(self) -> str:
        return f'{WAITING} AND {names.AGENT_NAME} = "{self.queue}"'

    async def _find(self) -> None:
        found = {run.id async for run in self.client.list_workflows(self._mine)}
        check(found == set(self.ids), f"{len(found)} runs of {len(self.ids)} were found")

    async def _list(self) -> None:
        """`holdfast approvals`, as a person has it."""
        address = self.client.service_client.config.target_host
        asked = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast", "approvals", "--json"),
            cwd=ROOT,
            env=environment({"TEMPORAL_ADDRESS": address}),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await asked.communicate()
        found = said.decode().count(f'"{self.queue}-')
        check(found == len(self.ids), f"{found} calls of {len(self.ids)} were listed")

    async def _decide(self, id: str) -> None:
        """Approve a run's call, and see the run to its end."""
        handle = self.client.get_workflow_handle(id)
        await handle.execute_update(names.DECIDE, {"callId": "t1c1", "decision": "approve"})
        result = await handle.result()
        check(result["status"] == "completed", f"a run came to this: {result}")

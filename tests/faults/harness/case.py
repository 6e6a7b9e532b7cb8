"""A case: one scenario with its faults, from its begin to what it left behind."""

import asyncio
import json
import shutil
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from tests.faults.harness.case_result import CaseResult, look, where_it_stands
from tests.faults.harness.people import Person
from tests.faults.harness.plans import KILL, MODEL, ON_THE_WIRE, ROWS, Fault, inflict
from tests.faults.harness.points import CONTROL, READY, Armed, numbered, record, recorded
from tests.faults.harness.programs.proxy import Proxy
from tests.faults.harness.programs.server import Ground
from tests.faults.harness.programs.worker_pool import Life, WorkerPool
from tests.faults.harness.responses import Front, Row
from tests.faults.harness.scenarios import Scenario
from tests.faults.harness.tools import effects
from tests.support.identity.operators import Operator
from tests.support.model_server import Answer, serve, turn_of

# Generous: what is busy with other cases, or other programs, is not stuck.
DEADLINE_SECONDS = 180
# A worker that died in the middle of a workflow task is missed after so long.
TASK_TIMEOUT = timedelta(seconds=4)
_LOG_CHARACTERS = 400
_BETWEEN_SECONDS = 0.2


class _Halfway(threading.Event):
    """What the model's server waits for in the middle of an answer: that a point is come past."""

    def __init__(self, reach: Callable[[str], None], name: str) -> None:
        super().__init__()
        self._reach, self._name = reach, name

    def wait(self, timeout: float | None = None) -> bool:
        self._reach(self._name)
        return True


class Case:
    """One scenario, with faults that strike one after the other."""

    proxy: Proxy
    person: Person

    def __init__(
        self,
        id: str,
        scenario: Scenario,
        faults: tuple[Fault, ...],
        ground: Ground,
        pool: WorkerPool,
    ) -> None:
        self.id = id
        self.scenario = scenario
        self.ground = ground
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
        self.left = CaseResult(id, faults)
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._life: Life | None = None
        self._coming = list(faults)
        self._seen: Counter[str] = Counter()
        self._killed: set[int] = set()
        self._later: list[asyncio.Task[None]] = []
        self._striking = 0
        self._may_start = asyncio.Event()
        self._may_start.set()
        self._undone_at = self._troubled_at = 0.0

    # Faults.

    def lives(self, pid: int) -> bool:
        """Whether this worker still runs."""
        return self._life is not None and self._life.pid == pid and not self._life.ended.done()

    def signal_worker(self, number: signal.Signals) -> None:
        """Send the worker a signal, if there is one."""
        if self._life is not None:
            self._life.send(number)

    def kill_worker(self) -> None:
        """Have the worker die, if there is one."""
        if self._life is not None:
            self._killed.add(self._life.pid)
            self._life.send(signal.SIGKILL)

    @property
    def has_outage(self) -> bool:
        """Whether no worker runs, and none is started."""
        return not self._may_start.is_set()

    def begin_outage(self) -> None:
        """Have the worker die, and start no other."""
        self._may_start.clear()
        self.kill_worker()

    def end_outage(self) -> None:
        """Start a worker again."""
        self._may_start.set()

    async def operators(self) -> list[Operator]:
        """An operator for each activity of the case that has not ended."""
        found: list[Operator] = []
        for part in self.scenario.parts:
            whole = Operator(self.ground.client, self.id + part)
            with suppress(RPCError):  # a delegate is not there yet
                ids = [pending.activity_id for pending in await whole.pending()]
                found.extend(replace(whole, activity_id=id) for id in ids)
        return found

    @property
    def calm_for_seconds(self) -> float:
        """For how long nothing has been wrong any more, but what may be wrong with workers."""
        if self._striking or any(not task.done() for task in self._later):
            return 0.0
        return self._loop.time() - self._undone_at

    async def reach(self, name: str) -> None:
        """Something outside of the worker gets to a point, and bears what is armed for it."""
        if self._is_armed_for(name):
            await self._strike()

    def _is_armed_for(self, name: str) -> bool:
        point = numbered(name, self._seen)
        return self._armed.strikes_at(point, record(self.folder, point))

    def _arm(self) -> None:
        """Arm the fault that comes next, for the worker and for all others."""
        self._armed = Armed()
        if self._coming:
            fault, here = self._coming[0], len(recorded(self.folder))
            number = None if fault.later is None else here + fault.later
            self._armed = Armed(fault.kind, fault.point, number, len(self.left.struck))
        self._armed.write(self.folder)

    def _struck(self) -> Fault:
        """The armed fault has struck: the next one is armed."""
        fault = self._coming.pop(0)
        if fault.kind != KILL:
            self._troubled_at = self._loop.time()
        self.left.struck.append(fault)
        self._arm()
        return fault

    async def _strike(self) -> None:
        """Inflict the armed fault, and return once it has struck; it is undone later.

        A task of its own does both: a person who strikes may be cancelled, as the run has ended.
        """
        self._striking += 1
        kind, has_struck = self._struck().kind, asyncio.Event()

        async def strike() -> None:
            try:
                later = await inflict(kind, self)
            finally:
                self._striking -= 1
                has_struck.set()
            if later is not None:
                await later()
                self._undone_at = self._troubled_at = self._loop.time()

        self._later.append(asyncio.create_task(strike()))
        await has_struck.wait()

    async def _stands_still(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """A worker is at the armed point: it continues once the fault has struck."""
        with suppress(ConnectionError):
            if int(await reader.readline()) == self._armed.serial and self._coming:
                await self._strike()
            writer.write(b"!")
            await writer.drain()
        writer.close()

    # Workers.

    async def _keep_alive(self) -> None:
        """Start a worker, and another whenever one has died."""
        orders = {
            "folder": str(self.folder),
            "root": self.id,
            "address": self._address,
            "queue": self.id,
            "settings": dict(self.scenario.settings),
        }
        while True:
            await self._may_start.wait()
            born_at = self._loop.time()
            life = self._life = await self._pool.bear(orders)
            await asyncio.shield(life.ended)
            if life.pid in self._killed:
                continue
            if self._killed_itself(life.pid):
                self._struck()
            elif self._is_ready(life.pid) or (
                self.calm_for_seconds > 0 and self._troubled_at < born_at
            ):
                self.left.broken.append(f"a worker ended by itself: {self._log()}")

    def _is_ready(self, pid: int) -> bool:
        """Whether a worker got so far as to take work. One that reaches no server does not."""
        return any(line["pid"] == pid and line["point"] == READY for line in recorded(self.folder))

    def _killed_itself(self, pid: int) -> bool:
        """Whether the last point that a worker reached was that of the armed kill."""
        own = [
            (line["point"], number)
            for number, line in enumerate(recorded(self.folder), start=1)
            if line["pid"] == pid
        ]
        return self._armed.kind == KILL and bool(own) and self._armed.strikes_at(*own[-1])

    def _log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace")[-_LOG_CHARACTERS:] if path.exists() else ""

    # From its begin to its end.

    async def live(self) -> CaseResult:
        """Run it, and see what it left behind."""
        began = self._loop.time()
        try:
            async with self._stage():
                await self._through()
        except Exception as error:
            # Whatever it was that people or the harness met with: the other cases continue.
            self.left.broken.append(f"{type(error).__name__}: {error}")
        finally:
            self.left.effects = effects(self.folder / "ledger")
            self.left.seconds = self._loop.time() - began
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.left

    async def _through(self) -> None:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                self.left.result = await self._result()
                self.left.points = [line["point"] for line in recorded(self.folder)]
                await asyncio.gather(*self._later)
                for part in self.scenario.parts:
                    self.left.parts[part] = await look(self.ground.client, self.id + part)
        except TimeoutError:
            where = await where_it_stands(self.ground.client, self.id)
            self.left.stuck = f"not done after {DEADLINE_SECONDS} s; {where}; {self._log()}"

    async def _result(self) -> Any:
        """The result; what goes wrong with people is found out at once."""
        people: list[Awaitable[None]] = [self.person.attend()]
        if self.scenario.visit is not None:
            people.append(self.scenario.visit(self.person))
        doing = {asyncio.ensure_future(each) for each in people}
        awaiting = asyncio.create_task(self._awaited())
        try:
            while not awaiting.done():
                waiting = asyncio.wait([awaiting, *doing], return_when=asyncio.FIRST_COMPLETED)
                with suppress(TimeoutError):
                    await asyncio.wait_for(waiting, _BETWEEN_SECONDS)
                for task in [task for task in (*doing, *self._later) if task.done()]:
                    doing.discard(task)
                    task.result()
            return awaiting.result()
        finally:
            for task in [awaiting, *doing]:
                task.cancel()
            await asyncio.gather(awaiting, *doing, return_exceptions=True)

    async def _awaited(self) -> Any:
        """What the run comes to; it is asked for again where the server could not answer."""
        handle = self.ground.client.get_workflow_handle(self.id)
        while True:
            try:
                return await handle.result()
            except WorkflowFailureError as error:
                return {"failed": str(error.cause)}
            except RPCError:
                await asyncio.sleep(_BETWEEN_SECONDS)

    # What it stands on.

    @asynccontextmanager
    async def _stage(self) -> AsyncIterator[None]:
        agents = self.folder / "catalog" / "agents"
        agents.mkdir(parents=True)
        for name, agent in self.scenario.agents.items():
            whole = {"model": {"endpoint": "fake"}, "instructions": name, **agent}
            (agents / f"{name}.json").write_text(json.dumps(whole))
        self._arm()
        self.person = Person(self)
        async with AsyncExitStack() as stack:
            model = stack.enter_context(serve(self._answer))
            url = model.url
            if any(fault.kind.startswith(MODEL) for fault in self.left.faults):
                url = await stack.enter_async_context(Front(self._rude).before(url))
            text = f"fake: {{provider: openai, baseUrl: '{url}', timeout: 5s}}\n"
            (self.folder / "endpoints.yaml").write_text(text)
            if any(fault.kind in ON_THE_WIRE for fault in self.left.faults):
                self.proxy = await stack.enter_async_context(Proxy(*self.ground.address))
                self._address = self.proxy.address
            else:
                self._address = "{}:{}".format(*self.ground.address)
            path = str(self.folder / CONTROL)
            control = await asyncio.start_unix_server(self._stands_still, path)
            stack.callback(control.close)
            with suppress(WorkflowAlreadyStartedError):
                await self.ground.client.start_workflow(
                    self.scenario.workflow,
                    self.scenario.asked_for(self.id),
                    id=self.id,
                    task_queue=self.id,
                    task_timeout=TASK_TIMEOUT,
                )
            keeping = asyncio.create_task(self._keep_alive())
            stack.push_async_callback(self._end, keeping)
            yield

    async def _end(self, keeping: asyncio.Task[None]) -> None:
        keeping.cancel()
        # What was broken is whole again before others stand on the same ground.
        await asyncio.wait([keeping, *self._later])
        if self._life is not None:
            await self._life.kill()

    # The model. Its server has a thread for each request.

    def _answer(self, turn: int, body: dict[str, Any]) -> Answer:
        answer = self.scenario.answer(body)
        if any(fault.kind.startswith(MODEL) for fault in self.left.faults):
            return answer
        asked = self._asked(body)
        self._reach_from_thread(asked)
        return replace(answer, hold=_Halfway(self._reach_from_thread, f"{asked} halfway"))

    def _reach_from_thread(self, name: str) -> None:
        asyncio.run_coroutine_threadsafe(self.reach(name), self._loop).result()

    def _asked(self, body: dict[str, Any]) -> str:
        return f"model asked {self.scenario.speaker(body)} {turn_of(body)}"

    def _rude(self, sent: bytes) -> Row | None:
        if not self._is_armed_for(self._asked(json.loads(sent))):
            return None
        row = ROWS.get(self._armed.kind.removeprefix(MODEL))
        self._later.append(asyncio.create_task(self._strike()))
        return row

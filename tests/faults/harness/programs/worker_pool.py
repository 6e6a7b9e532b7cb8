"""Workers that start within some tenths of a second: a process that has imported all forks them.

This module, run by `python -m`, reads orders, a line of JSON each, and reports the process of each
and how it ended. It forks before anything of Temporal's runtime exists, and ends, with all of its
workers, when its standard input ends.
"""

import asyncio
import gc
import io
import itertools
import json
import os
import select
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from temporalio.worker._worker import load_default_build_id

from holdfast.hosting.monitoring.worker_telemetry import log_to_stderr
from holdfast.hosting.resources import load_resources
from holdfast.hosting.sdk_workarounds.workflow_runner import workflow_runner
from holdfast.hosting.temporal import connect
from holdfast.hosting.worker import WorkerSettings, build_worker
from holdfast.workflows.agent import AgentWorkflow
from holdfast.workflows.base_workflow import CallWorkflow
from holdfast.workflows.budget import BudgetWorkflow
from holdfast.workflows.memory import MemoryWorkflow
from tests.faults.harness import tools
from tests.faults.harness.points import READY, Points, watch

ROOT = Path(__file__).parents[4]
END_TIMEOUT_SECONDS = 10


class Life:
    """One worker process. `ended` is its wait status, once it has one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if not self.ended.done():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def kill(self) -> None:
        """End it as a crash does."""
        self.send(signal.SIGKILL)
        await asyncio.wait_for(asyncio.shield(self.ended), END_TIMEOUT_SECONDS)


class WorkerPool:
    """Where workers are born."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = itertools.count()
        self._born: dict[int, asyncio.Future[Life]] = {}
        self._lives: dict[int, Life] = {}

    async def bear(self, orders: dict[str, Any]) -> Life:
        """Return a worker that starts to execute these orders."""
        number = next(self._ids)
        born = self._born[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, **orders}).encode() + b"\n")
        await self._process.stdin.drain()
        life: Life = await born
        return life

    async def listen(self) -> None:
        """Follow births and deaths, for as long as the zygote lives."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            if "id" in told:
                life = self._lives[told["pid"]] = Life(told["pid"])
                if not (born := self._born.pop(told["id"])).done():
                    born.set_result(life)
            else:
                self._lives.pop(told["pid"]).ended.set_result(told["status"])


@asynccontextmanager
async def worker_pool() -> AsyncIterator[WorkerPool]:
    """A zygote that has imported everything, and goes with its workers at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.harness.programs.worker_pool"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    made = WorkerPool(process)
    listening = asyncio.create_task(made.listen())
    try:
        yield made
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await listening


HEARTBEAT_TIMEOUT = timedelta(seconds=2)
# A run of a killed worker continues this much later.
STICKY_TIMEOUT = timedelta(seconds=1)


def main() -> None:
    """Fork workers as ordered, until standard input ends."""
    _get_ready()
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: set[int] = set()
    try:
        _obey(read_end, children)
    finally:
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _get_ready() -> None:
    """Do, once for all workers, whatever takes a worker's time when it starts."""
    # Nothing here uses TLS, and there are many certificates.
    os.environ["SSL_CERT_DIR"] = os.devnull
    for workflow in (AgentWorkflow, CallWorkflow, MemoryWorkflow, BudgetWorkflow):
        workflow_runner().sandbox.sandboxed_class(workflow)  # type: ignore[attr-defined]  # it is ours
    load_resources(WorkerSettings(tools=[tools.__file__]))
    load_default_build_id()
    gc.collect()
    gc.freeze()


def _obey(woken: int, children: set[int]) -> None:
    # Without a buffer, which would hide the second of two orders from `select`.
    orders_in = io.FileIO(0, closefd=False)
    while True:
        ready, _, _ = select.select([orders_in.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(children)
        if orders_in.fileno() in ready:
            line = orders_in.readline()
            if not line:
                return
            orders = json.loads(line)
            pid = os.fork()
            if pid == 0:
                _live(orders)
            children.add(pid)
            _report({"id": orders["id"], "pid": pid})


def _reap(children: set[int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            children.discard(ended[0])
            _report({"pid": ended[0], "status": ended[1]})


def _report(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def _live(orders: dict[str, Any]) -> NoReturn:
    """Be a worker, to the end of this process."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        folder = Path(orders["folder"])
        with (folder / "log").open("ab") as log, Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        log_to_stderr()
        os.environ[tools.LEDGER] = str(folder / "ledger")
        points = Points.here = Points(folder, orders["root"])
        watch(points)
        asyncio.run(_serve(orders, points))
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


async def _serve(orders: dict[str, Any], points: Points) -> None:
    folder = Path(orders["folder"])
    client = await connect({"target_host": orders["address"]})
    settings = WorkerSettings(
        catalog=folder / "catalog",
        tools=[tools.__file__],
        endpoints=folder / "endpoints.yaml",
        task_queue=orders["queue"],
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        sticky_timeout=STICKY_TIMEOUT,
        **orders["settings"],
    )
    async with build_worker(client, settings) as worker:
        while not worker.is_running:
            await asyncio.sleep(0.01)
        points.reach(READY)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()

"""Workers within some tenths of a second: a process that has imported everything, and forks.

It reads orders, a line of JSON each, and says which process carries them out and how each ended. It
forks before anything of Temporal's runtime exists, and ends, with all of its workers, as soon as
nobody can give it orders any more.
"""

import asyncio
import gc
import json
import os
import select
import signal
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from temporalio.worker._worker import load_default_build_id

from holdfast.hosting.resources import load_resources
from holdfast.hosting.sdk_workarounds.workflow_runner import workflow_runner
from holdfast.hosting.temporal import connect
from holdfast.hosting.worker import WorkerSettings, build_worker
from holdfast.hosting.worker_telemetry import log_to_stderr
from holdfast.workflows.agent import AgentWorkflow
from holdfast.workflows.call import CallWorkflow
from holdfast.workflows.memory import MemoryWorkflow
from tests.faults.stage import tools
from tests.faults.stage.points import READY, Points, watch

HEARTBEAT_TIMEOUT = timedelta(seconds=2)


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
    # Nothing here speaks TLS, and there are many certificates.
    os.environ["SSL_CERT_DIR"] = os.devnull
    for workflow in (AgentWorkflow, CallWorkflow, MemoryWorkflow):
        workflow_runner().sandbox.sandboxed_class(workflow)  # type: ignore[attr-defined]  # it is ours
    load_resources(WorkerSettings(tools=[tools.__file__]))
    load_default_build_id()
    gc.collect()
    gc.freeze()


def _obey(woken: int, children: set[int]) -> None:
    while True:
        ready, _, _ = select.select([sys.stdin, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(children)
        if sys.stdin in ready:
            line = sys.stdin.readline()
            if not line:
                return
            orders = json.loads(line)
            pid = os.fork()
            if pid == 0:
                _live(orders)
            children.add(pid)
            _say({"id": orders["id"], "pid": pid})


def _reap(children: set[int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            children.discard(ended[0])
            _say({"pid": ended[0], "status": ended[1]})


def _say(what: dict[str, Any]) -> None:
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
        **orders["settings"],
    )
    async with await build_worker(client, settings):
        points.reach(READY)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()

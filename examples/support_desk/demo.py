"""`make demo`: an agent at work on a real Temporal server, which asks before it changes anything.

Everything that it leaves is in one folder, fresh for each demonstration: the orders, the sent mail,
the server's file and the logs. It ends every process that it started.
"""

import argparse
import asyncio
import shlex
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from examples.support_desk import shop
from examples.support_desk.casting import AGENT, SCRIPT, Cast, MiscastError, cast
from examples.support_desk.children import Child, NotReadyError
from examples.support_desk.place import OccupiedError, Place, opened, short
from holdfast.cli.prompts.answers import AnswerSource, Approver
from holdfast.cli.screens.follow import follow, screen_for
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client.errors import INTERRUPTED, RUN_FAILED, WRONG_COMMAND, HoldfastError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.hosting.dev_server import HOST, DevServer, run_dev_server
from holdfast.hosting.process_exit import StartError, exit_code, exit_process
from holdfast.validation.problems import FixableError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RUN = "ada-1042"
WORKER_READY = "holdfast worker ready"
INBOX_READY = "inbox ready: "
START_TIMEOUT_SECONDS = 60.0
# How long the carrier takes to answer, so that the worker can be killed meanwhile.
CARRIER_SECONDS = "8"
_POLL_SECONDS = 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Give the demonstration; the exit code is the run's."""
    options = _parser().parse_args(arguments)
    try:
        return asyncio.run(_until_stopped(_demo(options)))
    except (MiscastError, OccupiedError) as error:
        return _failed(error, WRONG_COMMAND)
    except NotReadyError as error:
        return _failed(error, RUN_FAILED)
    except (StartError, FixableError) as error:
        return _failed(error, exit_code(error))
    except HoldfastError as error:
        return _failed(error, error.exit_code)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="demo.py", description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--model", default="script", help="script (default), local, or ENDPOINT:NAME")
    killing = "kill the worker inside a side effect; default: at a terminal, with the script"
    add("--kill-worker", action=argparse.BooleanOptionalAction, help=killing)
    add("--folder", type=Path, default=ROOT / ".holdfast" / "demo", help="default: .holdfast/demo")
    return parser


async def _until_stopped(demo: Coroutine[Any, Any, int]) -> int:
    task = asyncio.ensure_future(demo)
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


async def _demo(options: argparse.Namespace) -> int:
    with opened(options.folder) as place, cast(options.model, place.folder) as played:
        _say(f"model: {played.told}")
        async with run_dev_server(place.server):
            with ExitStack() as running:
                demo = _Demo(place, played, running)
                kill = options.kill_worker
                if kill is None:
                    kill = options.model == SCRIPT and sys.stdin.isatty()
                return await demo.give(kill_worker=kill)


@dataclass
class _Demo:
    """One demonstration, once its server is up. `running` ends its workers."""

    place: Place
    played: Cast
    running: ExitStack
    screen: PlainScreen = field(default_factory=lambda: screen_for(sys.stdout, RUN))

    async def give(self, *, kill_worker: bool) -> int:
        """Start a worker and a run, and follow the run; its exit code."""
        inbox = self._start_inbox()
        slow = {"SUPPORT_DESK_CARRIER_SECONDS": CARRIER_SECONDS} if kill_worker else {}
        worker = await self._start_worker(**slow)
        _say(f"worker: pid {worker.pid}, log {short(worker.log)}")
        client = await Client.connect(self.place.address, data_converter=pydantic_data_converter)
        run = await HoldfastClient(client).start(AGENT, self.played.request, id=RUN)
        _tell_where_to_look(self.place, await _ready(inbox, INBOX_READY, "inbox"))
        answers = AnswerSource(sys.stdin.fileno(), Approver())
        following = follow(run, out=self.screen, ask=answers)
        try:
            return await (_beside(following, self._kill(worker)) if kill_worker else following)
        finally:
            _tell_deeds(self.place.folder)
            self._tell_how_to_go_on()

    async def _start_worker(self, **env: str) -> Child:
        log = self.place.folder / "worker.log"
        command = [sys.executable, str(ROOT / "worker.py"), *_worker_options(self.played)]
        child = Child(command, log=log, env=self.place.environment() | env)
        worker = self.running.enter_context(child)
        await _ready(worker, WORKER_READY, "worker")
        return worker

    def _start_inbox(self) -> Child:
        """The page on which people decide: in the name of whoever gives the demonstration."""
        settings = self.place.folder / "inbox.yaml"
        settings.write_text(f"temporalUi: http://{HOST}:{self.place.ui_port}\n", encoding="utf-8")
        name = Approver().name or "you"
        words = ["inbox", "--port", "0", "--settings", str(settings), "--by", name]
        command, log = [sys.executable, "-m", "holdfast", *words], self.place.folder
        child = Child(command, log=log / "inbox.log", env=self.place.environment())
        return self.running.enter_context(child)

    async def _kill(self, worker: Child) -> None:
        """Kill the worker while it asks the carrier to stop a shipment, and start another."""
        asked: list[shop.Deed] = []
        while not asked:
            await asyncio.sleep(_POLL_SECONDS)
            asked = [deed for deed in shop.deeds(self.place.folder) if "carrier" in deed.where]
        worker.kill()
        note = self.screen.print_note
        note(f"*** kill -9 {worker.pid}: the worker is gone, before it heard from the carrier")
        note("*** the run waits for that call's heartbeat timeout, then asks what happened")
        another = await self._start_worker()
        note(f"*** another worker is there, pid {another.pid}. It does not ask the carrier again:")
        note(f"*** did it happen? {asked[0].where} says: {asked[0].what}")

    def _tell_how_to_go_on(self) -> None:
        database = str(self.place.server.db)
        options = ["--dev", "--dev-db", database, *_worker_options(self.played)]
        words = [sys.executable, str(ROOT / "worker.py"), *options]
        command = shlex.join(short(Path(word)) for word in words)
        _say("The server stops now. To look at the run again, or to go on where it waits:")
        _say(f"  SUPPORT_DESK_DIR={shlex.quote(short(self.place.folder))} {command}")


async def _ready(child: Child, beginning: str, what: str) -> str:
    try:
        return await child.ready(beginning, START_TIMEOUT_SECONDS)
    except NotReadyError as error:
        raise NotReadyError(f"the {what} does not start: {error}") from error


async def _beside(following: Coroutine[Any, Any, int], other: Coroutine[Any, Any, None]) -> int:
    """Follow the run while something else happens to it."""
    happening = asyncio.create_task(other)
    try:
        code = await following
        if happening.done():
            happening.result()
        return code
    finally:
        happening.cancel()
        await asyncio.gather(happening, return_exceptions=True)


def _worker_options(played: Cast) -> list[str]:
    options = ["--catalog", str(played.catalog), "--tools", str(HERE / "tools.py")]
    return options if played.endpoints is None else [*options, "--endpoints", str(played.endpoints)]


def _tell_where_to_look(place: Place, inbox: str) -> None:
    _say(f"inbox, where you can decide as well as here: {inbox}")
    _say(f"run: {RUN}; in Temporal's UI, approvals included:")
    _say(f"  http://{HOST}:{place.ui_port}/namespaces/default/workflows/{RUN}")
    if place.port != DevServer.port:
        _say(f"commands in another terminal need: export TEMPORAL_ADDRESS={place.address}")
    _say("")


def _tell_deeds(folder: Path) -> None:
    table = Table("recorded in", "what was done")
    for deed in shop.deeds(folder):
        table.add_row(*deed)
    _say(f"\nWhat {short(folder)} says was done:")
    if table.row_count:
        Console().print(table)
    else:
        _say("  nothing")


def _say(text: str) -> None:
    print(text, flush=True)


def _failed(error: Exception, code: int) -> int:
    print(f"demo: {' '.join(str(error).split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    exit_process(main())

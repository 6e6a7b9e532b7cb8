"""Fork commands of Holdfast from a process that has imported all of it.

Python takes most of a second to import a worker. A forked command has its own arguments,
environment, folder, streams and exit code, as a started one has; `fork_client` is its interpreter.
"""

import fcntl
import gc
import importlib
import marshal
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

_BACKLOG = 16
# Above every file that the server has open.
_MAX_FILES = 256
# With what they import, most of what commands import when they start.
_COMMANDS = ("cli.eval_commands", "cli.run_commands", "hosting.worker", "web.app", "web.mcp.server")


@contextmanager
def forking_python(folder: Path) -> Iterator[Path]:
    """Start a server in an empty folder, and yield the interpreter; kill its commands after it."""
    python = folder / "python"
    client = Path(__file__).with_name("fork_client.py").read_text(encoding="utf-8")
    python.write_text(f"#!{sys.executable} -IS\n{client}", encoding="utf-8")
    python.chmod(0o755)
    # What is looked for beside the interpreter.
    (folder / "temporal").symlink_to(Path(sys.executable).with_name("temporal"))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        listening.listen(_BACKLOG)
        number = listening.fileno()
        command = [sys.executable, "-I", __file__, str(number)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[number]) as server:
            listening.close()  # a command fails at once if the server does not start
            try:
                yield python
            finally:
                server.communicate()


class _Server:
    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._clients: dict[int, socket.socket] = {}  # by the id of the command's process
        self._selector = selectors.DefaultSelector()
        self._selector.register(0, selectors.EVENT_READ, self._end)
        self._selector.register(listening, selectors.EVENT_READ, self._accept)
        woken, waking = socket.socketpair()
        waking.setblocking(False)
        signal.set_wakeup_fd(waking.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(woken, selectors.EVENT_READ, lambda: self._reap(woken))
        self._waking = waking

    def serve(self) -> NoReturn:
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _end(self) -> NoReturn:
        """Kill every command: standard input has ended."""
        for pid in self._clients:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)

    def _accept(self) -> None:
        client, _ = self._listening.accept()
        length, streams, _, _ = socket.recv_fds(client, 4, 3)
        order = client.recv(int.from_bytes(length), socket.MSG_WAITALL)
        pid = os.fork()
        if pid == 0:
            _become(streams, *marshal.loads(order))
        for stream in streams:
            os.close(stream)
        self._clients[pid] = client
        with suppress(BrokenPipeError):  # it was killed before this server had started
            client.sendall(pid.to_bytes(4))
        # A client sends nothing more: what can be read is its end.
        gone = partial(self._client_has_left, pid)
        self._selector.register(client, selectors.EVENT_READ, gone)

    def _client_has_left(self, pid: int) -> None:
        if pid in self._clients:
            self._selector.unregister(self._clients[pid])
            os.kill(pid, signal.SIGKILL)

    def _reap(self, woken: socket.socket) -> None:
        woken.recv(4096)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                client = self._clients.pop(ended[0])
                with suppress(KeyError):
                    self._selector.unregister(client)
                with client, suppress(BrokenPipeError):
                    client.sendall(ended[1].to_bytes(4))


def _become(
    streams: Sequence[int], command: list[str], environment: dict[str, str], folder: str
) -> NoReturn:
    """Be the command, to the end of this process."""
    code: int | str | None = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # A shell has what it starts in the background ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, _MAX_FILES)
        if os.isatty(0):
            # Ctrl-C is for the session of the terminal.
            os.setsid()
            with suppress(PermissionError):  # it has a session already
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        _open_streams()
        sys.executable, *words = command
        _run(words)
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        if isinstance(code, str):
            print(code, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def _open_streams() -> None:
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    encoding = encoding or "utf-8"
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115
    made = [
        open(number, "w", encoding=encoding, errors=how, closefd=False)  # noqa: SIM115
        for number, how in ((1, errors or None), (2, "backslashreplace"))
    ]
    sys.stdout, sys.stderr = made
    sys.stdout.reconfigure(line_buffering="PYTHONUNBUFFERED" in os.environ or sys.stdout.isatty())
    sys.stderr.reconfigure(line_buffering=True)


def _run(words: list[str]) -> None:
    own = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    is_safe = words[0] == "-P"
    words = words[is_safe:]
    if words[0] == "-m":
        name, sys.argv = words[1], words[1:]
        sys.path[:0] = own if is_safe else [str(Path.cwd()), *own]
        if not hasattr(sys.modules.get(name), "__path__"):
            sys.modules.pop(name, None)  # it is about to be executed
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[:0] = [str(Path(words[0]).parent.resolve()), *own]
        runpy.run_path(words[0], run_name="__main__")


def _import_all() -> None:
    """Do what takes a command's time when it starts."""
    from temporalio.worker._worker import load_default_build_id

    from holdfast.hosting.sdk_workarounds.workflow_runner import workflow_runner
    from holdfast.workflows.agent import AgentWorkflow
    from holdfast.workflows.base_workflow import CallWorkflow
    from holdfast.workflows.budget import BudgetWorkflow
    from holdfast.workflows.memory import MemoryWorkflow

    for name in _COMMANDS:
        importlib.import_module(f"holdfast.{name}")
    for workflow in (AgentWorkflow, CallWorkflow, MemoryWorkflow, BudgetWorkflow):
        workflow_runner().sandbox.sandboxed_class(workflow)  # type: ignore[attr-defined]  # it is ours
    load_default_build_id()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _import_all()
    _Server(socket.socket(fileno=int(sys.argv[1]))).serve()

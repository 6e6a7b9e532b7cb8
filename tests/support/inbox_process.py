"""An inbox as people run it: a process, which can be killed, on a port that stays the same."""

import os
import signal
import socket
import subprocess
import sys
from types import TracebackType

from tests.support.worker_process import ROOT

READY = "inbox ready: "
# What keeps those signed in who were, through any end of the process.
SECRET = "a-secret-that-all-instances-share"


class InboxProcess:
    """`holdfast inbox`; `link` is what it prints to sign in by."""

    def __init__(self, address: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self._port = listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._environment = {
            **os.environ,
            "TEMPORAL_ADDRESS": address,
            "HOLDFAST_INBOX_SECRET": SECRET,
            "PYTHONUNBUFFERED": "1",
        }
        self._process: subprocess.Popen[str] | None = None
        self.link = ""

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, str(ROOT / "client.py"), "inbox", "--port", str(self._port)]
        self._process = subprocess.Popen(
            [*command, "--by", "ann"], env=self._environment, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(READY):
                self.link = line.removeprefix(READY).split()[0]
                return
        raise RuntimeError(f"the inbox ended with {self._process.wait()} before it was ready")

    def kill(self) -> None:
        """End it as a crash does: at once, with nothing told to anybody."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def __enter__(self) -> "InboxProcess":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.kill()

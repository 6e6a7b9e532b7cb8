"""The command as a process, on pipes or on a terminal, as a person meets it."""

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

from tests.support.process import PYTHON, ROOT

COLUMNS, LINES = 80, 24
CURSOR_UP, HIDE_CURSOR, SHOW_CURSOR = "\x1b[1A", "\x1b[?25l", "\x1b[?25h"
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\r")


def _hearing_ctrl_c() -> None:
    """What runs in the background ignores Ctrl-C, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _as_from_a_terminal() -> None:
    _hearing_ctrl_c()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Program:
    """A running command. What it prints on both streams is gathered in `seen`."""

    def __init__(
        self, words: Sequence[str], *, terminal: bool = False, folder: Path = ROOT, **env: str
    ) -> None:
        self.seen = ""
        environment = {**os.environ, "TERM": "xterm", "PYTHONUNBUFFERED": "1", **env}
        command = [sys.executable, "-m", "holdfast", *words]
        # A forked command takes its terminal itself.
        takes_terminal = terminal and sys.executable == PYTHON
        self._end, theirs = pty.openpty() if terminal else os.pipe()
        if terminal:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=theirs if terminal else subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_as_from_a_terminal if takes_terminal else _hearing_ctrl_c,
        )
        os.close(theirs)

    @property
    def text(self) -> str:
        """What was printed, without what moves the cursor and colours the text."""
        return _CONTROL.sub("", self.seen)

    @property
    def lines(self) -> list[str]:
        """What was printed, line by line, whether or not it was overwritten."""
        return re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]", "", self.seen))

    async def until(self, text: str, timeout_seconds: float = 120) -> str:
        """Wait until a text was printed since the last one that was waited for.

        Raises:
            AssertionError: the program ended, or took too long, without it.
        """
        while text not in self.text:
            assert await self._read(timeout_seconds), f"no {text!r} in:\n{self.text}"
        before, _, rest = self.text.partition(text)
        self.seen = rest
        return before + text

    async def ended(self, timeout_seconds: float = 120) -> int:
        while await self._read(timeout_seconds):
            pass
        return await asyncio.to_thread(self.process.wait, timeout_seconds)

    @property
    def echoes(self) -> bool:
        """Whether its terminal shows the keys that are pressed."""
        return bool(termios.tcgetattr(self._end)[3] & termios.ECHO)

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)

    async def _read(self, timeout_seconds: float) -> bool:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._end, ready.set)
        try:
            async with asyncio.timeout(timeout_seconds):
                await ready.wait()
            data = os.read(self._end, 65536)
        except (TimeoutError, OSError):  # a terminal whose program has ended is an error to read
            return False
        finally:
            loop.remove_reader(self._end)
        self.seen += data.decode(errors="replace")
        return bool(data)

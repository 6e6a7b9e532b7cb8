"""Read a person's answers: the lines of a terminal, of a pipe or of a file.

Another person may decide meanwhile, so that a read must be cancellable: the event loop watches the
descriptor, and no thread blocks in a read.
"""

import asyncio
import contextlib
import getpass
import os
import sys
import termios
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.client.signing import Signer

_READ_BYTES = 65_536
# Edits a line on a terminal, in a process of its own, so that it can be ended.
_LINE_EDITOR = """
import readline, sys
readline.set_startup_hook(lambda: readline.insert_text(sys.argv[2]))
sys.stderr.write(input(sys.argv[1]))
"""
# A longer text is no argument of a program.
_MAX_DRAFT_CHARACTERS = 30_000
MAX_LINE_BYTES = 1_000_000


class InputEndedError(Exception):
    """The input has ended."""


@dataclass(frozen=True)
class Approver:
    """The person who decides, as named by `--by` and `--groups`, and the key of `--key`."""

    by: str | None = None
    groups: Sequence[str] = ()
    signer: Signer | None = None

    @property
    def name(self) -> str | None:
        """Return the given name, else that of the current user; `None` without either."""
        try:
            return self.by or getpass.getuser()
        except (KeyError, OSError):
            return None


class AnswerSource:
    """The lines of one input, and their author.

    On a `terminal`, an editor can be opened, and lines that were typed before a question was seen
    do not answer it. `draft` has the arguments that were edited last.
    """

    def __init__(self, descriptor: int, approver: Approver) -> None:
        self.approver = approver
        self.draft = ""
        self.terminal = os.isatty(descriptor)
        self._descriptor = descriptor
        self._buffer = b""
        self._over = False

    def forget_typed(self) -> None:
        """Drop what was typed on a terminal before now."""
        if self.terminal:
            self._buffer = b""
            with contextlib.suppress(termios.error):
                termios.tcflush(self._descriptor, termios.TCIFLUSH)

    def keep_draft(self, text: str) -> None:
        self.draft = text

    async def line(self) -> str:
        """Return the next line, without its end.

        Raises:
            InputEndedError: there is none, or it is longer than a megabyte.
        """
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        while b"\n" not in self._buffer and not self._over:
            # A file is always readable, and cannot be watched.
            with contextlib.suppress(PermissionError):
                loop.add_reader(self._descriptor, ready.set)
                try:
                    await ready.wait()
                finally:
                    loop.remove_reader(self._descriptor)
                ready.clear()
            data = os.read(self._descriptor, _READ_BYTES)
            self._buffer += data
            self._over = not data
            if len(self._buffer) > MAX_LINE_BYTES:
                self._buffer, self._over = b"", True
        if not self._buffer:
            raise InputEndedError
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    async def edited_line(self, prompt: str) -> str:
        """Return the next line of a terminal, which has the draft at first, if it is not too long.

        Raises:
            InputEndedError: the input has ended.
        """
        before = termios.tcgetattr(self._descriptor)
        draft = self.draft if len(self.draft) < _MAX_DRAFT_CHARACTERS else ""
        editor = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-c", _LINE_EDITOR, prompt, draft.replace("\0", "")),
            stdin=self._descriptor,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, line = await editor.communicate()
        finally:
            if editor.returncode is None:
                editor.kill()
                await editor.wait()
            termios.tcsetattr(self._descriptor, termios.TCSANOW, before)
        if editor.returncode != 0:
            raise InputEndedError
        return line.decode("utf-8", "replace")

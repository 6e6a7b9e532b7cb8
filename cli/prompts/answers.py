"""Where a person's answers come from: the lines of a terminal, of a pipe or of a file.

Reading a line can be given up, since another person may decide meanwhile: so the descriptor is
watched by the event loop, and no thread hangs in a read.
"""

import asyncio
import contextlib
import getpass
import os
import sys
import termios
from collections.abc import Sequence
from typing import Self

from holdfast.client.signing import Signer

_READ_BYTES = 65_536
MAX_LINE_BYTES = 1_000_000


class InputEndedError(Exception):
    """The input has ended."""


class AnswerSource:
    """The lines of one input, and who gives them.

    `terminal` says whether a person types them: then an editor can be opened, and what was typed
    before a question was seen is no answer to it. `signer` is the key that they sign with.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        by: str | None = None,
        groups: Sequence[str] = (),
        signer: Signer | None = None,
    ) -> None:
        self.by = by or user_name()
        self.groups = list(groups)
        self.signer = signer
        self.terminal = os.isatty(descriptor)
        self._descriptor = descriptor
        self._kept = b""
        self._over = False

    @classmethod
    def from_stdin(
        cls,
        *,
        by: str | None = None,
        groups: Sequence[str] = (),
        signer: Signer | None = None,
    ) -> Self:
        """The answers that come from standard input."""
        return cls(sys.stdin.fileno(), by=by, groups=groups, signer=signer)

    def forget_typed(self) -> None:
        """Drop what was typed on a terminal before now."""
        if self.terminal:
            self._kept = b""
            with contextlib.suppress(termios.error):
                termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def line(self) -> str:
        """The next line, without its end.

        Raises:
            InputEndedError: there is none, or it is longer than a megabyte.
        """
        while b"\n" not in self._kept and not self._over:
            await self._readable()
            data = os.read(self._descriptor, _READ_BYTES)
            self._kept += data
            self._over = not data
            if len(self._kept) > MAX_LINE_BYTES:
                self._kept, self._over = b"", True
        if not self._kept:
            raise InputEndedError
        line, _, self._kept = self._kept.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._descriptor, ready.set)
        except PermissionError:
            return  # a file is always readable, and cannot be waited for
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)


def user_name() -> str | None:
    """Who is logged in here; `None` where the system cannot tell."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None

"""Run the command `holdfast` within this process."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from holdfast.cli import main as holdfast_client


@dataclass(frozen=True)
class CommandOutput:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Holdfast = Callable[..., Awaitable[CommandOutput]]


async def holdfast(*words: str) -> CommandOutput:
    """Run one command; return its output and exit code."""
    return await asyncio.to_thread(_execute, words)


def _execute(words: tuple[str, ...]) -> CommandOutput:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = holdfast_client.command_line(words)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
    return CommandOutput(code, out.getvalue(), err.getvalue())

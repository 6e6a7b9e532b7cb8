"""`holdfast check`: what loading would refuse, found by the worker itself.

The worker runs in a process of its own: it imports people's modules, and whatever one of them does
meanwhile is not done to this command.
"""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from holdfast.client.command_errors import DONE, WRONG_COMMAND, CommandError, wrong_command
from holdfast.schemas.base import format_duration

WORKER: Final = "holdfast.hosting.worker"
# The worker ends by itself when its modules take too long, unless one of them holds it up whole.
PATIENCE_SECONDS = 15


async def check(
    *,
    catalog: str | None,
    tools: Sequence[str],
    endpoints: str | None,
    encryption: str | None,
    keys: str | None,
    notifiers: str | None,
    task_queue: str | None,
    knowledge_urls: Sequence[str],
    composed: str | None,
    timeout: timedelta,
    json: bool,
) -> int:
    """Check what the options name, or the worker's own environment does; the exit code."""
    given = {"catalog": catalog, "endpoints": endpoints, "task-queue": task_queue}
    given |= {"encryption": encryption, "keys": keys, "notifiers": notifiers}
    given |= {"composed": composed}
    arguments = [f"--{name}={value}" for name, value in given.items() if value is not None]
    arguments += [f"--tools={module}" for module in tools]
    arguments += [f"--knowledge-url={prefix}" for prefix in knowledge_urls]
    limit_seconds = timeout.total_seconds() + PATIENCE_SECONDS
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", WORKER, "--check", f"--timeout={format_duration(timeout)}"),
        *arguments,
        *(["--json"] if json else []),
        env={**os.environ, "PYTHONIOENCODING": "utf-8:backslashreplace"},
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    out, err = await _ended(process, limit_seconds, tools)
    sys.stdout.write(out)
    sys.stderr.write(err)
    if process.returncode not in (DONE, WRONG_COMMAND) or not out + err:
        raise _cut_short(f"it ended with code {process.returncode}", tools)
    return process.returncode


async def _ended(process: Process, limit_seconds: float, tools: Sequence[str]) -> tuple[str, str]:
    """What the worker has printed, once it has ended."""
    try:
        async with asyncio.timeout(limit_seconds):
            out, err = await process.communicate()
    except TimeoutError:
        raise _cut_short(f"it did not end within {limit_seconds:g} s", tools) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out.decode(errors="replace"), err.decode(errors="replace")


def _cut_short(how: str, tools: Sequence[str]) -> CommandError:
    modules = " or ".join(f"`{module}`" for module in tools) or "a module of `--tools`"
    todo = f"see what {modules} does while it is imported"
    return wrong_command(f"the check was cut short: {how}", todo)

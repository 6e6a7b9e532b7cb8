"""`holdfast check`: the problems that loading would report, found by the worker itself.

The worker runs in a process of its own: it imports the modules of others, whose effects must not
reach this command.
"""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from holdfast.cli.parser import TIME, Commands
from holdfast.client.errors import DONE, WRONG_COMMAND, wrong_command
from holdfast.schemas import names
from holdfast.schemas.base import format_duration
from holdfast.schemas.settings.endpoints import MODEL_PROVIDERS

WORKER: Final = "holdfast.hosting.worker"
# The worker stops by itself when its modules take too long, unless one of them blocks it entirely.
PATIENCE_SECONDS = 15


def add_parser(commands: Commands) -> None:
    """Add `check`."""
    text = "find the problems that a worker would report"
    parser = commands.add_parser("check", help=text, description=f"{text.capitalize()}.")
    add = parser.add_argument
    add("--catalog", metavar="DIR", help="a folder with tools/ and agents/")
    text = "a module of tools; repeatable"
    add("--tools", metavar="MODULE", action="append", default=[], help=text)
    add("--endpoints", metavar="FILE", help="the endpoints of the models (endpoints.yaml)")
    text = "the MCP servers, which are connected to (servers.yaml)"
    add("--servers", metavar="FILE", help=text)
    add("--keys", metavar="FILE|URL", help="the keys that verify tokens (keys.yaml)")
    add("--encryption", metavar="FILE", help="the keys that encrypt all payloads (encryption.yaml)")
    add("--permits", metavar="FILE", help="the keys of permits (permits.yaml)")
    add("--notifiers", metavar="FILE", help="the channels of notifications (notify.yaml)")
    add("--task-queue", metavar="NAME", help=f"the worker's (default: {names.TASK_QUEUE})")
    text = "a prefix of the addresses of knowledge; repeatable"
    add("--knowledge-url", metavar="PREFIX", action="append", default=[], help=text)
    text = "print the schema of its answers in composed calling"
    add("--composed", metavar="AGENT[:SKILL]", help=text)
    text = "print what it does not accept of tools and outputs, or does not show to a model"
    add("--provider", choices=MODEL_PROVIDERS, help=text)
    text = "print the tools whose outcome is unknown after a lost reply"
    add("--lost-replies", action="store_true", help=text)
    text = "the time limit of the check (default: %(default)s)"
    add("--timeout", **TIME, default="1m", help=text)
    add("--json", action="store_true", help="print a JSON array")
    parser.set_defaults(command=check)


async def check(
    *, tools: Sequence[str], timeout: timedelta, **given: str | Sequence[str] | bool | None
) -> int:
    """Check what the options name, or else the worker's own environment.

    `given` has the worker's other options: a text, a list of texts, a switch, or None.
    """
    arguments = [f"--tools={module}" for module in tools]
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            arguments += [option] * value
        else:
            texts = [value] if isinstance(value, str) else value or []
            arguments += [f"{option}={text}" for text in texts]
    limit_seconds = timeout.total_seconds() + PATIENCE_SECONDS
    process = await asyncio.create_subprocess_exec(
        # `-P`: as for `holdfast worker`, this folder is not the first that is searched.
        *(sys.executable, "-P", "-m", WORKER),
        *("--check", f"--timeout={format_duration(timeout)}"),
        *arguments,
        env={**os.environ, "PYTHONIOENCODING": "utf-8:backslashreplace"},
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    modules = " or ".join(f"`{module}`" for module in tools) or "a module of `--tools`"
    todo = f"see what {modules} does while it is imported"
    try:
        async with asyncio.timeout(limit_seconds):
            out, err = await process.communicate()
    except TimeoutError:
        wrong = f"the check was cut short: it did not end within {limit_seconds:g} s"
        raise wrong_command(wrong, todo) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    sys.stdout.write(out.decode(errors="replace"))
    sys.stderr.write(err.decode(errors="replace"))
    if process.returncode not in (DONE, WRONG_COMMAND) or not out + err:
        wrong = f"the check was cut short: it ended with code {process.returncode}"
        raise wrong_command(wrong, todo)
    return process.returncode

"""`holdfast show`: a whole run, from its log, as a person reads it."""

import sys
from textwrap import indent
from typing import Any

from rich.console import Console
from rich.text import Text

from holdfast.cli.screens.console import console_for
from holdfast.cli.screens.live import drawn
from holdfast.client.command_errors import DONE
from holdfast.client.connection import connect
from holdfast.client.question_text import elsewhere
from holdfast.client.result import RunEnding
from holdfast.client.result_summary import ending_lines, tokens
from holdfast.client.run_handle import Entry, RunHandle, waiting_elsewhere
from holdfast.runtime.narration.log_narration import LogNarration, NarrationLine
from holdfast.runtime.text_safety import (
    as_json,
    as_text,
    clean,
    format_date,
    holdfast_command,
    one_line,
)
from holdfast.schemas import names
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.log_entry import read_record

# Each is asked for by itself.
_MAX_INSTANCES = 20


async def show(*, run: str, json: bool) -> int:
    """Print a run's messages, calls, decisions, results and writes, and where it stands.

    Raises:
        CommandError: there is no such run, no worker answers for it, or its output cannot be had;
            the rest of it has been printed then.
    """
    remote = RunHandle(await connect(), run)
    look = await remote.look()
    entries = [entry async for entry in remote.entries(names.CONTEXT)]
    if json:
        ending = await remote.ended() if look.closed else None
        print(as_json([ending.whole(entry) if ending else entry for entry in entries], indent=2))
        return _checked(ending)
    console = console_for(sys.stdout)
    await _heading(console, remote)
    _log(console, entries, LogNarration(remote.id, with_all_arguments=True))
    if look.closed:
        return _checked(await _ended(console, remote))
    await _standing(console, remote)
    return DONE


def _checked(ending: RunEnding | None) -> int:
    if ending is not None and ending.lacking is not None:
        raise ending.lacking
    return DONE


async def _heading(console: Console, remote: RunHandle) -> None:
    began = await remote.beginning()
    _field(console, "run", clean(remote.id))
    if began.summary:
        _field(console, "summary", one_line(began.summary, 200))
    _field(console, "started", format_date(began.started))


def _log(console: Console, entries: list[Entry], story: LogNarration) -> None:
    for line in (line for entry in entries for line in story.lines(read_record(entry))):
        if console.is_terminal:
            console.print(drawn(line))
        else:
            print(_written(line))


def _written(line: NarrationLine) -> str:
    head = f"{line.at} {line.word} {line.text}".rstrip()
    return f"{head}\n{indent(line.body, '  ')}" if line.body else head


async def _ended(console: Console, remote: RunHandle) -> RunEnding:
    ending = await remote.ended()
    console.print()
    for name, text in ending_lines(ending):
        _field(console, name, text)
    return ending


async def _standing(console: Console, remote: RunHandle) -> None:
    """Where a run stands that has not ended: state, status, usage, and what it waits for."""
    status = await remote.status()
    state = await remote.state()
    console.print()
    if state:
        _field(console, "state", as_text(state))
    instances = status.get("instances", [])
    for name in instances[:_MAX_INSTANCES]:
        _field(console, f"state of {clean(name)}", as_json(await remote.state(name)))
    if len(instances) > _MAX_INSTANCES:
        _field(console, "instances", f"{len(instances)} in all")
    _field(console, "status", _status(status))
    for pending in status.get("pending", []):
        name = one_line(f"{pending['callId']} {pending.get('label') or pending['tool']}", 100)
        _field(
            console,
            "waits",
            f"{name}: {holdfast_command('decide', remote.id, pending['callId'])} …",
        )
    for there in waiting_elsewhere(status):
        _field(console, "waits", elsewhere(there))


def _status(status: dict[str, Any]) -> str:
    standing, turn = clean(str(status.get("status"))), status.get("turn")
    skill = [f"skill {one_line(status['skill'], 100)}"] if status.get("skill") else []
    used = [f"turn {turn}", *tokens(Usage.read(status.get("usage") or {}))] if turn else []
    return ", ".join([standing, *skill, *used])


def _field(console: Console, name: str, text: str) -> None:
    console.print(Text.assemble((name, "bold"), "  ", text), soft_wrap=True)

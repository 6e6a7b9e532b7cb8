"""`holdfast approvals` and `holdfast list`: many runs, and single calls, at a glance."""

import asyncio
import sys
from collections.abc import Awaitable, Iterable
from textwrap import indent
from typing import Any, TypeVar

from rich.console import Console
from rich.text import Text
from temporalio.client import Client

from holdfast.cli.screens.console import console_for, print_table
from holdfast.cli.screens.live import render_line
from holdfast.client.command_errors import (
    DONE,
    NO_SUCH,
    CommandError,
    EncryptedError,
    NoWorkerError,
    wrong_command,
)
from holdfast.client.connection import connect
from holdfast.client.question_text import call_name, delegate_line, how_to_decide
from holdfast.client.result import RunEnding, ending_lines, token_counts
from holdfast.client.run_handle import Entry, RunHandle, RunStart, delegate_approvals
from holdfast.client.run_lists import (
    MAX_RUNS,
    OPEN,
    MissingAttributesError,
    RunListing,
    list_runs,
    status_query,
)
from holdfast.runtime.narration.log_narration import LogNarration, NarrationLine
from holdfast.runtime.text_safety import (
    arguments_line,
    as_json,
    as_text,
    clean,
    format_age,
    format_date,
    holdfast_command,
    one_line,
)
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval, brief_arguments
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.log_entry import read_record

# Each is asked for by itself.
_MAX_INSTANCES = 20

# A worker answers some hundred queries a second, one after the other: more would wait there.
_AT_ONCE = 32
_CREATE = f"temporal operator search-attribute create --name {names.AGENT_STATUS} --type Keyword"
_T = TypeVar("_T")


async def approvals(*, json: bool) -> int:
    """Every call of every run that waits for a person.

    Raises:
        CommandError: Temporal does not answer, or no worker answers for one of the runs; the
            calls of the others have been printed then.
    """
    client = await connect()
    runs = await _waiting_runs(client)
    answers = await _all(_asked(client, run) for run in runs)
    if len(runs) == MAX_RUNS:
        print(f"holdfast: these are of the newest {MAX_RUNS} runs", file=sys.stderr)
    waiting = [(run, one) for run, found in answers if isinstance(found, list) for one in found]
    if json:
        print(as_json([{"run": run, **one.to_json()} for run, one in waiting]))
    elif waiting:
        _print_waiting(waiting)
    elif not any(isinstance(found, CommandError) for _, found in answers):
        print("Nothing waits for a person.")
    return _unanswered([found for _, found in answers if isinstance(found, CommandError)])


async def list_command(*, status: str | None, limit: int, json: bool) -> int:
    """The newest runs: id, agent, status, start and summary.

    Raises:
        CommandError: Temporal does not answer, or the namespace does not know the status.
    """
    client = await connect()
    try:
        found = await list_runs(client, status_query(status), limit)
    except MissingAttributesError as error:
        wrong = f"the namespace has no search attribute {names.AGENT_STATUS}"
        raise wrong_command(wrong, f"list without --status, or make it: {_CREATE}") from error
    encrypted: list[EncryptedError] = []
    rows = await _all(_row(client, run, encrypted) for run in found)
    if json:
        print(as_json(rows))
    elif rows:
        print_table(["RUN", "AGENT", "STATUS", "STARTED", "SUMMARY"], map(_cells, rows), cut=True)
    else:
        print(f"There are no runs that are {status}." if status else "There are no runs.")
    if encrypted:
        print(f"{encrypted[0].line()} ({len(encrypted)} summaries)", file=sys.stderr)
    if len(found) == limit:
        print(f"holdfast: these are the newest {limit}; --limit shows more", file=sys.stderr)
    return DONE


async def _waiting_runs(client: Client) -> list[RunListing]:
    """Runs that wait for a person; every open one where the namespace cannot tell them apart."""
    try:
        return await list_runs(client, status_query("awaiting_approval"))
    except MissingAttributesError:
        return await list_runs(client, OPEN)


async def _asked(
    client: Client, run: RunListing
) -> tuple[str, list[PendingApproval] | CommandError]:
    try:
        return run.id, await RunHandle(client, run.id).pending_approvals()
    except CommandError as error:
        return run.id, [] if error.code == NO_SUCH else error


def _unanswered(errors: list[CommandError]) -> int:
    if not errors:
        return DONE
    first = next((error for error in errors if isinstance(error, NoWorkerError)), errors[0])
    print(f"{first.line()} ({len(errors)} runs did not answer)", file=sys.stderr)
    return first.code


async def _all(work: Iterable[Awaitable[_T]]) -> list[_T]:
    """Do it all, a few at a time; the results are in order."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(awaitable: Awaitable[_T]) -> _T:
        async with gate:
            return await awaitable

    return await asyncio.gather(*map(one, work))


def _print_waiting(waiting: list[tuple[str, PendingApproval]]) -> None:
    rows = [
        (
            run,
            one.call_id,
            call_name(one),
            format_age(one.requested_at),
            arguments_line(brief_arguments(one.kind, one.arguments)),
        )
        for run, one in waiting
    ]
    print_table(["RUN", "CALL", "TOOL", "WAITING", "ARGUMENTS"], rows, cut=False)
    run, one = waiting[0]
    print(f"\nTo see one: {holdfast_command('watch', run)}")
    print(f"To decide:  {how_to_decide(run, one)}")


async def _row(client: Client, run: RunListing, encrypted: list[EncryptedError]) -> dict[str, Any]:
    """A run as it is listed. How it began is in no list."""
    try:
        began = await RunHandle(client, run.id).start_info()
    except EncryptedError as error:
        encrypted.append(error)
        began = RunStart(run.started, None)
    except CommandError:
        began = RunStart(run.started, None)  # it was deleted since it was listed
    return {
        "run": run.id,
        "agent": clean(run.agent) if run.agent else None,
        "status": clean(run.status),
        "startedAt": began.started.isoformat(timespec="seconds"),
        "summary": began.summary,
    }


def _cells(row: dict[str, Any]) -> list[str]:
    summary = one_line(row["summary"] or "", 200)
    return [row["run"], row["agent"] or "-", row["status"], format_date(row["startedAt"]), summary]


async def show(*, run: str, json: bool) -> int:
    """Print a run's messages, calls, decisions, results and writes, and where it stands.

    Raises:
        CommandError: there is no such run, no worker answers for it, or its output cannot be had;
            the rest of it has been printed then.
    """
    remote = RunHandle(await connect(), run)
    look = await remote.observe()
    entries = [entry async for entry in remote.entries(names.CONTEXT)]
    if json:
        ending = await remote.ending() if look.closed else None
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
    if ending is not None and ending.output_error is not None:
        raise ending.output_error
    return DONE


async def _heading(console: Console, remote: RunHandle) -> None:
    began = await remote.start_info()
    _field(console, "run", clean(remote.id))
    if began.summary:
        _field(console, "summary", one_line(began.summary, 200))
    _field(console, "started", format_date(began.started))


def _log(console: Console, entries: list[Entry], story: LogNarration) -> None:
    for line in (line for entry in entries for line in story.lines(read_record(entry))):
        if console.is_terminal:
            console.print(render_line(line))
        else:
            print(_written(line))


def _written(line: NarrationLine) -> str:
    head = f"{line.at} {line.word} {line.text}".rstrip()
    return f"{head}\n{indent(line.body, '  ')}" if line.body else head


async def _ended(console: Console, remote: RunHandle) -> RunEnding:
    ending = await remote.ending()
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
            "waiting",
            f"{name}: {holdfast_command('decide', remote.id, pending['callId'])} …",
        )
    for there in delegate_approvals(status):
        _field(console, "waiting", delegate_line(there))


def _status(status: dict[str, Any]) -> str:
    standing, turn = clean(str(status.get("status"))), status.get("turn")
    skill = [f"skill {one_line(status['skill'], 100)}"] if status.get("skill") else []
    used = [f"turn {turn}", *token_counts(Usage.read(status.get("usage") or {}))] if turn else []
    return ", ".join([standing, *skill, *used])


def _field(console: Console, name: str, text: str) -> None:
    console.print(Text.assemble((name, "bold"), "  ", text), soft_wrap=True)

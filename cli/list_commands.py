"""`holdfast approvals` and `holdfast list`: many runs, and single calls, at a glance."""

import asyncio
import sys
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

from temporalio.client import Client

from holdfast.cli.screens.table import print_table
from holdfast.client.command_errors import (
    DONE,
    NO_SUCH,
    CommandError,
    EncryptedError,
    NoWorkerError,
    wrong_command,
)
from holdfast.client.connection import connect
from holdfast.client.question_text import how_to_decide, what
from holdfast.client.run_handle import RunHandle, RunStart
from holdfast.client.run_lists import (
    MAX_RUNS,
    OPEN,
    LacksAttributesError,
    RunListing,
    having,
    listed,
)
from holdfast.runtime.text_safety import (
    arguments_line,
    as_json,
    clean,
    format_age,
    format_date,
    holdfast_command,
    one_line,
)
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.plan import in_brief

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


async def list_runs(*, status: str | None, limit: int, json: bool) -> int:
    """The newest runs: id, agent, status, start and summary.

    Raises:
        CommandError: Temporal does not answer, or the namespace does not know the status.
    """
    client = await connect()
    try:
        found = await listed(client, having(status), limit)
    except LacksAttributesError as error:
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
        return await listed(client, having("awaiting_approval"))
    except LacksAttributesError:
        return await listed(client, OPEN)


async def _asked(
    client: Client, run: RunListing
) -> tuple[str, list[PendingApproval] | CommandError]:
    try:
        return run.id, await RunHandle(client, run.id).waiting()
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
            what(one),
            format_age(one.requested_at),
            arguments_line(in_brief(one.kind, one.arguments)),
        )
        for run, one in waiting
    ]
    print_table(["RUN", "CALL", "WHAT", "WAITS", "ARGUMENTS"], rows, cut=False)
    run, one = waiting[0]
    print(f"\nTo see one: {holdfast_command('watch', run)}")
    print(f"To decide:  {how_to_decide(run, one)}")


async def _row(client: Client, run: RunListing, encrypted: list[EncryptedError]) -> dict[str, Any]:
    """A run as it is listed. How it began is in no list."""
    try:
        began = await RunHandle(client, run.id).beginning()
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

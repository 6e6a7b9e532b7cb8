"""`holdfast approvals` and `holdfast list`: many runs, and single calls, at a glance."""

import asyncio
import sys
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from cli.table import print_table
from remote.connection import connect
from remote.errors import (
    DONE,
    NO_SUCH,
    CommandError,
    EncryptedError,
    NoWorkerError,
    rpc_problem,
    wrong_command,
)
from remote.question import how_to_decide, what
from remote.run import Beginning, RemoteRun
from remote.text import arguments_line, as_json, clean, command, date, one_line, since
from schemas import names
from schemas.decision import Waiting
from schemas.plan import in_brief

MAX_RUNS = 10_000
# A worker answers some hundred queries a second, one after the other: more would wait there.
_AT_ONCE = 32
# What a run has left behind when it continued as new is no run of its own.
_RUNS = (
    f'WorkflowType IN ("{names.AGENT_WORKFLOW}", "{names.CALL_WORKFLOW}")'
    ' AND ExecutionStatus != "ContinuedAsNew"'
)
_OPEN = f'{_RUNS} AND ExecutionStatus = "Running"'
_CREATE = f"temporal operator search-attribute create --name {names.AGENT_STATUS} --type Keyword"
_T = TypeVar("_T")

# A run that was ended from outside could not write its own status any more; Temporal knows it.
_ENDED = {
    "failed": 'ExecutionStatus IN ("Failed", "TimedOut", "Terminated")',
    "cancelled": 'ExecutionStatus = "Canceled"',
}
_OWN = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)
_SPELT = {"canceled": "cancelled", "continued_as_new": "running"}


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
        found = await _runs(client, _having(status), limit)
    except RPCError as error:
        raise _no_such_status(error) from error
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


async def _runs(client: Client, query: str, limit: int = MAX_RUNS) -> list[WorkflowExecution]:
    return [run async for run in client.list_workflows(query, limit=limit)]


async def _waiting_runs(client: Client) -> list[WorkflowExecution]:
    """Runs that wait for a person; every open one where the namespace cannot tell them apart."""
    try:
        return await _runs(client, _having("awaiting_approval"))
    except RPCError as error:
        if error.status != RPCStatusCode.INVALID_ARGUMENT:
            raise rpc_problem(error) from error
        return await _runs(client, _OPEN)


async def _asked(
    client: Client, run: WorkflowExecution
) -> tuple[str, list[Waiting] | CommandError]:
    try:
        return run.id, await RemoteRun(client, run.id).waiting()
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


def _print_waiting(waiting: list[tuple[str, Waiting]]) -> None:
    rows = [
        (
            run,
            one.call_id,
            what(one),
            since(one.requested_at),
            arguments_line(in_brief(one.kind, one.arguments)),
        )
        for run, one in waiting
    ]
    print_table(["RUN", "CALL", "WHAT", "WAITS", "ARGUMENTS"], rows, cut=False)
    run, one = waiting[0]
    print(f"\nTo see one: {command('watch', run)}")
    print(f"To decide:  {how_to_decide(run, one)}")


def _having(status: str | None) -> str:
    match status:
        case None:
            return _RUNS
        case "failed" | "cancelled":
            return f"{_RUNS} AND {_ENDED[status]}"
        case "running" | "awaiting_approval" | "awaiting_message":
            return f'{_OPEN} AND {names.AGENT_STATUS} = "{status}"'
        case _:
            return (
                f'{_RUNS} AND ExecutionStatus = "Completed" AND {names.AGENT_STATUS} = "{status}"'
            )


def _no_such_status(error: RPCError) -> CommandError:
    if error.status != RPCStatusCode.INVALID_ARGUMENT:
        return rpc_problem(error)
    wrong = f"the namespace has no search attribute {names.AGENT_STATUS}"
    return wrong_command(wrong, f"list without --status, or make it: {_CREATE}")


async def _row(
    client: Client, run: WorkflowExecution, encrypted: list[EncryptedError]
) -> dict[str, Any]:
    """A run as it is listed. How it began is in no list."""
    try:
        began = await RemoteRun(client, run.id).beginning()
    except EncryptedError as error:
        encrypted.append(error)
        began = Beginning(run.start_time, None)
    except CommandError:
        began = Beginning(run.start_time, None)  # it was deleted since it was listed
    return {
        "run": run.id,
        "agent": _attribute(run, names.AGENT_NAME),
        "status": _status(run),
        "startedAt": began.started.isoformat(timespec="seconds"),
        "summary": began.summary,
    }


def _cells(row: dict[str, Any]) -> list[str]:
    summary = one_line(row["summary"] or "", 200)
    return [row["run"], row["agent"] or "-", row["status"], date(row["startedAt"]), summary]


def _status(run: WorkflowExecution) -> str:
    """The run's own word where it still holds, else Temporal's."""
    own = _attribute(run, names.AGENT_STATUS)
    if own and run.status in _OWN:
        return own
    temporal = run.status.name.lower() if run.status else "unknown"
    return _SPELT.get(temporal, temporal)


def _attribute(run: WorkflowExecution, name: str) -> str | None:
    value = run.typed_search_attributes.get(SearchAttributeKey.for_keyword(name))
    return clean(value) if value else None

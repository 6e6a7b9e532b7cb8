"""`holdfast show`, `cost`, `approvals`, `budgets` and `list`: a run in full, or many in tables."""

import asyncio
import sys
from textwrap import indent
from typing import Any, get_args

from pydantic.alias_generators import to_camel
from rich.console import Console
from rich.text import Text

from holdfast.cli.parser import Parsers, on_run
from holdfast.cli.screens.console import console_for, print_table, unread_output
from holdfast.cli.screens.live import render_line
from holdfast.client.connection import connect
from holdfast.client.errors import (
    DONE,
    EncryptedError,
    HoldfastError,
    UnansweredRunsError,
    wrong_command,
)
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.question_text import delegate_line, how_to_decide
from holdfast.client.records.run_cost import read_run_cost
from holdfast.client.remote_run import RunStart
from holdfast.client.result import ending_lines, queued_line, token_counts
from holdfast.client.run import PendingCall, Run
from holdfast.client.run_lists import MissingAttributesError, RunFilter, RunListing
from holdfast.client.shared_budgets import read_budgets
from holdfast.client.stream.heartbeats import new_failure_lines
from holdfast.runtime.absences import present_absences
from holdfast.runtime.command_line import read_count
from holdfast.runtime.narration.log_narration import LogNarration
from holdfast.runtime.narration.phrases import SEE_ALL, subject_phrase, substitute_phrase
from holdfast.runtime.narration.question_line import MAX_BRIEF_CHARS, is_whole, question_line
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.text_safety import (
    as_json,
    as_text,
    clean,
    format_age,
    format_date,
    holdfast_command,
    label_in_line,
    one_line,
    shorten,
)
from holdfast.schemas import names
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.log_entry import read_record
from holdfast.schemas.run import RunStatus

_DEFAULT_LIMIT_RUNS = 50
# The state of each is a query of its own.
_MAX_INSTANCES = 20
# A worker answers some hundred queries a second, one after the other: more would wait there.
_CONCURRENT = 32
_CREATE = f"temporal operator search-attribute create --name {names.AGENT_STATUS} --type Keyword"


def add_options(parsers: Parsers) -> None:
    """Add the options of `show`, `cost`, `approvals`, `budgets` and `list`."""
    parser = on_run(parsers["show"], show)
    parser.add_argument("--json", action="store_true", help="print its log as a JSON array")

    parser = on_run(parsers["cost"], cost)
    parser.add_argument("--json", action="store_true", help="print a JSON object")

    parser = parsers["approvals"]
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.set_defaults(command=approvals)

    parser = parsers["budgets"]
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.set_defaults(command=budgets)

    parser = parsers["list"]
    add, statuses = parser.add_argument, get_args(RunStatus)
    add("--status", choices=statuses, metavar="STATUS", help=", ".join(statuses))
    limit: dict[str, Any] = {"type": read_count, "default": _DEFAULT_LIMIT_RUNS, "metavar": "N"}
    add("--limit", **limit, help="the most runs to list (default: %(default)s)")
    add("--json", action="store_true", help="print a JSON array")
    parser.set_defaults(command=list_command)


async def approvals(*, json: bool) -> int:
    """List the pending approvals of every run; report the runs that do not answer last."""
    client, waiting, unanswered = await connect(), list[PendingCall](), None
    try:
        async for call in client.approvals():
            waiting.append(call)
    except UnansweredRunsError as error:
        unanswered = error
    if json:
        print(as_json([{"run": one.run_id, **one.to_json()} for one in waiting]))
    elif waiting:
        rows = [
            (title, one.run_id, one.call_id, format_age(one.requested_at), brief)
            for one in waiting
            for said, line in [question_line(QuestionView.of(one))]
            for more in ["" if is_whole(line, one.arguments) else f" · more: {SEE_ALL}"]
            for brief in [f"{shorten(line, MAX_BRIEF_CHARS)}{more}"]
            for is_named in [one.kind in ("budget", "reconcile")]
            for title in [said if is_named else subject_phrase(one.kind, said)]
        ]
        print_table(["APPROVAL", "RUN", "CALL", "WAITING", "ARGUMENTS"], rows, cut=False)
        first = waiting[0]
        print(f"\nTo see one: {holdfast_command('watch', first.run_id)}")
        print(f"To decide:  {how_to_decide(first.run_id, first)}")
    elif unanswered is None:
        print("There are no pending approvals.")
    for absence in present_absences(await client.absences.read()) if not json else ():
        print(f"Substitute: {substitute_phrase(absence)}")
    if unanswered is not None:
        raise unanswered
    return DONE


async def budgets(*, json: bool) -> int:
    """List what is used of the budgets that runs share, each scope apart."""
    found = await read_budgets(await connect())
    if json:
        print(as_json([each.to_json() for each in found]))
    elif found:
        rows = [
            (clean(each.name), clean(each.scope), each.window, used)
            for each in found
            for used in each.lines() or ["its worker does not answer"]
        ]
        print_table(["BUDGET", "SCOPE", "WINDOW", "USED"], rows, cut=False)
    else:
        print("No budget that runs share is in use.")
    return DONE


async def list_command(*, status: RunStatus | None, limit: int, json: bool) -> int:
    """List the newest runs: id, agent, status, start and summary."""
    client = await connect()
    try:
        found = await client.list_runs(RunFilter(status=status), limit)
    except MissingAttributesError as error:
        wrong = f"the namespace has no search attribute {names.AGENT_STATUS}"
        raise wrong_command(wrong, f"list without --status, or make it: {_CREATE}") from error
    encrypted, slots = list[EncryptedError](), asyncio.Semaphore(_CONCURRENT)
    rows = await asyncio.gather(*(_row(client, run, encrypted, slots) for run in found))
    if json:
        print(as_json(rows))
    elif rows:
        cells = (
            [
                *(row["run"], row["agent"] or "-", row["status"], format_date(row["startedAt"])),
                one_line(row["summary"] or "", 200),
            ]
            for row in rows
        )
        print_table(["RUN", "AGENT", "STATUS", "STARTED", "SUMMARY"], cells, cut=True)
    else:
        print(f"There are no runs that are {status}." if status else "There are no runs.")
    if encrypted:
        print(f"{encrypted[0].line()} ({len(encrypted)} summaries)", file=sys.stderr)
    if len(found) == limit:
        print(f"holdfast: these are the newest {limit}; --limit shows more", file=sys.stderr)
    return DONE


async def _row(
    client: HoldfastClient,
    run: RunListing,
    encrypted: list[EncryptedError],
    slots: asyncio.Semaphore,
) -> dict[str, Any]:
    """Return the row of a run, with its start, which Temporal's list does not have."""
    start = RunStart(run.started, None)
    try:
        async with slots:
            start = await client.run(run.id).start_info()
    except EncryptedError as error:
        encrypted.append(error)
    except HoldfastError:
        pass  # it was deleted since it was listed
    return {
        "run": run.id,
        "agent": clean(run.agent) if run.agent else None,
        "status": clean(run.status),
        "startedAt": start.started.isoformat(timespec="seconds"),
        "summary": start.summary,
    }


async def show(*, run: str, json: bool) -> int:
    """Print a run in full; report an output that is not available last."""
    remote = (await connect()).run(run)
    look = await remote.observe()
    entries = [entry async for entry in remote.entries(names.CONTEXT)]
    ending = await remote.ending(unread=unread_output(run)) if look.closed else None
    if json:
        print(as_json([ending.whole(entry) if ending else entry for entry in entries], indent=2))
    else:
        console = console_for(sys.stdout)
        start = await remote.start_info()
        _print_field(console, "run", clean(run))
        if start.summary:
            _print_field(console, "summary", one_line(start.summary, 200))
        _print_field(console, "started", format_date(start.started))
        narration = LogNarration(run, with_all_arguments=True)
        for line in (line for entry in entries for line in narration.lines(read_record(entry))):
            if console.is_terminal:
                console.print(render_line(line))
            else:
                body = f"\n{indent(line.body, '  ')}" if line.body else ""
                print(f"{line.at} {line.word} {line.text}".rstrip() + body)
        console.print()
        if ending is None:
            await _print_status(console, remote)
            for failure in new_failure_lines(look.failing, {}):
                _print_field(console, "waiting", failure)
        else:
            for name, text in ending_lines(ending):
                _print_field(console, name, text)
    if ending is not None and ending.output_error is not None:
        raise ending.output_error
    return DONE


async def _print_status(console: Console, remote: Run) -> None:
    """Print the state, the status, the usage and the pending approvals of an open run."""
    status = await remote.status()
    if state := await remote.state():
        _print_field(console, "state", as_text(state))
    instances = status.instances
    for name in instances[:_MAX_INSTANCES]:
        _print_field(console, f"state of {clean(name)}", as_json(await remote.state(name)))
    if len(instances) > _MAX_INSTANCES:
        _print_field(console, "instances", f"{len(instances)} in all")
    parts: list[str] = [status.status]
    if status.skill:
        parts.append(f"skill {one_line(status.skill, 100)}")
    if status.turn:
        parts += [f"turn {status.turn}", *token_counts(status.usage)]
    _print_field(console, "status", ", ".join(parts))
    for pending in status.pending:
        name = f"{clean(pending.call_id)} {label_in_line(pending.label or pending.tool, 100)}"
        command = holdfast_command("decide", remote.id, pending.call_id)
        _print_field(console, "waiting", f"{subject_phrase(pending.kind, name)}: {command} …")
    for message in status.queued:
        _print_field(console, "queued", queued_line(message))
    for there in status.delegate_approvals:
        _print_field(console, "waiting", delegate_line(there))


async def cost(*, run: str, json: bool) -> int:
    """Print what a run has cost; of an open run without a worker, report the tokens last."""
    client = await connect()
    remote, found = client.run(run), await read_run_cost(client.temporal, run)
    usage, silence = Usage(), None
    try:
        if (await remote.observe()).closed:
            ending = await remote.ending(unread=unread_output(run))
            usage = counted.usage if (counted := ending.result or ending.spent) else usage
        else:
            usage = (await remote.status()).usage
    except HoldfastError as error:
        silence = error
    if json:
        tokens = usage.model_dump(mode="json", by_alias=True)
        counts = {to_camel(name): value for name, value in vars(found).items()}
        print(as_json({"run": run, **counts, "usage": tokens}, indent=2))
    else:
        rows = [(f"{count:,}", kind) for kind, count in found.actions.most_common()]
        print_table(["ACTIONS", "FOR"], rows, cut=False)
        print(
            f"\n{found.actions.total():,} Actions, and about {found.heartbeats:,} heartbeats"
            f"\n{found.history_bytes:,} bytes of history in {found.events:,} events"
            f"\n{', '.join(token_counts(usage))}"
        )
        if found.is_partial:
            print("Some executions are not counted: they were deleted, or are too many.")
    if silence is not None:
        raise silence
    return DONE


def _print_field(console: Console, name: str, text: str) -> None:
    console.print(Text.assemble((name, "bold"), "  ", text), soft_wrap=True)

"""`holdfast run` and `holdfast watch`: a run is started, and followed."""

import asyncio
import re
import sys
import uuid
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from cli.answers import Answers
from cli.connection import connect
from cli.console import is_terminal
from cli.errors import DONE, RUN_FAILED, CommandError, first_problem, rpc_problem, wrong_command
from cli.follow import follow
from cli.screen import screen_for
from cli.text import as_json, clean, command, one_line
from schemas import names
from schemas.run import RunRequest

_SUMMARY_CHARS = 200


async def run(
    *,
    run_id: str | None,
    task_queue: str,
    detach: bool,
    json: bool,
    by: str | None,
    groups: Sequence[str],
    **request: Any,
) -> int:
    """Start a run, and follow it unless `detach`. The exit code is the run's.

    `request` holds those fields of `RunRequest` that were given; the others are `None`.

    Raises:
        CommandError: the request is wrong, a run of this id is open, or Temporal does not answer.
    """
    asked = {name: value for name, value in request.items() if value is not None}
    checked = _checked(asked)
    run_id = run_id or _new_id(checked)
    client = await connect()
    await _start(client, asked, run_id, task_queue=task_queue, summary=_summary(checked))
    if detach:
        print(as_json({"type": "run", "run": run_id}) if json else run_id)
        return DONE
    print(as_json({"type": "run", "run": run_id}) if json else f"run {clean(run_id)}", flush=True)
    return await _follow(client, run_id, json=json, by=by, groups=groups)


async def watch(*, run: str, json: bool, by: str | None, groups: Sequence[str]) -> int:
    """Follow a run to its end; for one that has ended, draw all of it. The exit code is the run's.

    Raises:
        CommandError: there is no such run, or Temporal does not answer.
    """
    return await _follow(await connect(), run, json=json, by=by, groups=groups)


async def _follow(
    client: Client, run_id: str, *, json: bool, by: str | None, groups: Sequence[str]
) -> int:
    person = not json and sys.stdin.isatty() and is_terminal(sys.stdout)
    answers = Answers.from_stdin(by=by, groups=groups) if person else None
    screen = screen_for(sys.stdout, run_id, as_json=json)
    try:
        return await follow(client, run_id, out=screen, ask=answers)
    except asyncio.CancelledError:
        back = command("watch", run_id)
        print(f"\nThe run goes on without you. To come back: {back}", file=sys.stderr)
        raise


def _checked(asked: dict[str, Any]) -> RunRequest:
    try:
        return RunRequest.model_validate(asked)
    except ValidationError as error:
        raise wrong_command(
            f"that is no run: {first_problem(error)}", "see holdfast run --help"
        ) from error


def _agent_name(request: RunRequest) -> str:
    return request.agent if isinstance(request.agent, str) else request.agent.name or "agent"


def _new_id(request: RunRequest) -> str:
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", _agent_name(request))[:100]
    return f"{name}-{uuid.uuid4().hex[:8]}"


def _summary(request: RunRequest) -> str:
    """The agent and the first line of the input, for lists and for Temporal's UI."""
    said = request.input
    text = said if isinstance(said, str) else as_json(said) if said else ""
    first = clean(text).strip().partition("\n")[0]
    return one_line(
        ": ".join(part for part in (_agent_name(request), first) if part), _SUMMARY_CHARS
    )


async def _start(
    client: Client, asked: dict[str, Any], run_id: str, *, task_queue: str, summary: str
) -> None:
    try:
        await client.start_workflow(
            names.AGENT_WORKFLOW,
            asked,
            id=run_id,
            task_queue=task_queue,
            static_summary=summary,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        )
    except WorkflowAlreadyStartedError as error:
        todo = f"see {command('watch', run_id)}, or choose another --id"
        raise CommandError(f"a run with the id {run_id} is open", todo, RUN_FAILED) from error
    except RPCError as error:
        raise rpc_problem(error, run_id) from error

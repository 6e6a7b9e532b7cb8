"""`holdfast run`, `call` and `watch`: a run or a single call is started, and followed."""

import asyncio
import re
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from cli.answers import Answers
from cli.console import is_terminal
from cli.follow import follow
from cli.screen import screen_for
from remote.connection import connect
from remote.errors import DONE, RUN_FAILED, CommandError, misunderstood, rpc_problem, wrong_command
from remote.signing import Signer, signer_of
from remote.text import arguments_line, as_json, clean, command, one_line, shorten
from schemas import names
from schemas.base import Strict
from schemas.run import CallRequest, RunRequest

_SUMMARY_CHARS = 200
_DETAILS_CHARS = 4_000
_RequestT = TypeVar("_RequestT", bound=Strict)


@dataclass(frozen=True)
class _New:
    """What is started: the workflow and its input, the name that it goes by, and what it is on."""

    workflow: str
    asked: dict[str, Any]
    name: str
    about: str


@dataclass(frozen=True)
class Person:
    """Who is asked, if they sit at a terminal, and the key that they sign with."""

    by: str | None
    groups: Sequence[str]
    signer: Signer | None

    def answers(self) -> Answers:
        """What they say."""
        return Answers.from_stdin(by=self.by, groups=self.groups, signer=self.signer)


async def run(
    *,
    run_id: str | None,
    task_queue: str,
    detach: bool,
    json: bool,
    by: str | None,
    groups: Sequence[str],
    key: str | None,
    kid: str | None,
    **request: Any,
) -> int:
    """Start a run, and follow it unless `detach`. The exit code is the run's.

    `request` holds those fields of `RunRequest` that were given; the others are `None`.

    Raises:
        CommandError: the request is wrong, a run of this id is open, or Temporal does not answer.
    """
    person = Person(by, groups, signer_of(key, kid))
    asked = _given(request)
    checked = _checked(RunRequest, asked, "run")
    if checked.input is None and not checked.context:
        raise wrong_command("there is nothing to do", "say what with --input TEXT, @FILE or -")
    agent, said = checked.agent, checked.input
    name = agent if isinstance(agent, str) else agent.name or "agent"
    about = said if isinstance(said, str) else as_json(said) if said else ""
    client = await connect()
    run_id = await _start(
        client, _New(names.AGENT_WORKFLOW, asked, name, about), run_id, task_queue
    )
    return await _started(client, run_id, detach=detach, json=json, person=person)


async def call(
    *,
    run_id: str | None,
    task_queue: str,
    detach: bool,
    json: bool,
    by: str | None,
    groups: Sequence[str],
    key: str | None,
    kid: str | None,
    **request: Any,
) -> int:
    """Have one call of one tool carried out, and follow it unless `detach`, as `run` does.

    `request` holds those fields of `CallRequest` that were given; the others are `None`.

    Raises:
        CommandError: as `run`.
    """
    person = Person(by, groups, signer_of(key, kid))
    asked = _given(request)
    checked = _checked(CallRequest, asked, "call")
    tool = checked.tool
    name = tool if isinstance(tool, str) else tool.tool or "tool"
    about = arguments_line(checked.arguments)
    client = await connect()
    run_id = await _start(client, _New(names.CALL_WORKFLOW, asked, name, about), run_id, task_queue)
    return await _started(client, run_id, detach=detach, json=json, person=person)


async def watch(
    *,
    run: str,
    json: bool,
    by: str | None,
    groups: Sequence[str],
    key: str | None,
    kid: str | None,
) -> int:
    """Follow a run to its end; for one that has ended, draw all of it. The exit code is the run's.

    Raises:
        CommandError: there is no such run, or Temporal does not answer.
    """
    person = Person(by, groups, signer_of(key, kid))
    return await _follow(await connect(), run, json=json, person=person)


async def _started(client: Client, run_id: str, *, detach: bool, json: bool, person: Person) -> int:
    """Say what was started, and follow it unless `detach`."""
    if detach:
        print(as_json({"type": "run", "run": run_id}) if json else run_id)
        return DONE
    print(as_json({"type": "run", "run": run_id}) if json else f"run {clean(run_id)}", flush=True)
    return await _follow(client, run_id, json=json, person=person)


async def _follow(client: Client, run_id: str, *, json: bool, person: Person) -> int:
    is_there = not json and sys.stdin.isatty() and is_terminal(sys.stdout)
    answers = person.answers() if is_there else None
    screen = screen_for(sys.stdout, run_id, as_json=json)
    try:
        return await follow(client, run_id, out=screen, ask=answers)
    except asyncio.CancelledError:
        back = command("watch", run_id)
        print(f"\nThe run goes on without you. To come back: {back}", file=sys.stderr)
        raise


def _given(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if value is not None}


def _checked(model: type[_RequestT], asked: dict[str, Any], what: str) -> _RequestT:
    try:
        return model.model_validate(asked)
    except ValidationError as error:
        todo = f"see holdfast {what} --help"
        raise misunderstood(what, error, asked, model, todo) from error


def _new_id(name: str) -> str:
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)[:100]}-{uuid.uuid4().hex[:8]}"


def _summary(new: _New) -> str:
    """The name and the first line of what it is on, for lists and for Temporal's UI."""
    first = clean(new.about).strip().partition("\n")[0]
    return one_line(": ".join(part for part in (new.name, first) if part), _SUMMARY_CHARS)


def _details(new: _New) -> str:
    """What it was started with, whole where there is room, as Temporal's UI shows it."""
    said = clean(shorten(new.about, _DETAILS_CHARS)).replace("\n", "\n    ")
    return "Started with `holdfast`" + (f", on this:\n\n    {said}" if said else ".")


async def _start(client: Client, new: _New, run_id: str | None, task_queue: str) -> str:
    """Start it; the id is its own where none was chosen.

    An id is taken once: calls are told apart by the run's id and their own, so a second run under
    it would find what the first one did done already.
    """
    run_id = run_id or _new_id(new.name)
    try:
        await client.start_workflow(
            new.workflow,
            new.asked,
            id=run_id,
            task_queue=task_queue,
            static_summary=_summary(new),
            static_details=_details(new),
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        )
    except WorkflowAlreadyStartedError as error:
        todo = f"see {command('show', run_id)}, or choose another --id"
        raise CommandError(f"there is a run with the id {run_id}", todo, RUN_FAILED) from error
    except RPCError as error:
        raise rpc_problem(error, run_id) from error
    return run_id

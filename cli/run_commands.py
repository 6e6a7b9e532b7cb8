"""`holdfast run`, `call` and `watch`: a run or a single call is started, and followed."""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from holdfast.cli.prompts.answers import AnswerSource
from holdfast.cli.screens.console import is_terminal
from holdfast.cli.screens.follow import follow
from holdfast.cli.screens.screen import screen_for
from holdfast.client.command_errors import (
    DONE,
    RUN_FAILED,
    CommandError,
    invalid_input,
    wrong_command,
)
from holdfast.client.connection import connect
from holdfast.client.run_handle import RunHandle
from holdfast.client.signing import Signer, load_signer
from holdfast.client.start import StartRequest, environment_caller, start_workflow
from holdfast.runtime.text_safety import as_json, as_text, clean, holdfast_command
from holdfast.schemas import names
from holdfast.schemas.base import Strict
from holdfast.schemas.run import CallRequest, RunRequest

_RequestT = TypeVar("_RequestT", bound=Strict)


@dataclass(frozen=True)
class Approver:
    """Who is asked, if they sit at a terminal, and the key that they sign with."""

    by: str | None
    groups: Sequence[str]
    signer: Signer | None

    def answers(self) -> AnswerSource:
        """What they say."""
        return AnswerSource.from_stdin(by=self.by, groups=self.groups, signer=self.signer)


async def run(
    *,
    run_id: str | None,
    task_queue: str,
    timeout: timedelta | None,
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
    person = Approver(by, groups, load_signer(key, kid))
    asked = _given(request)
    checked = _checked(RunRequest, asked, "run")
    if checked.input is None and not checked.context:
        raise wrong_command("there is nothing to do", "say what with --input TEXT, @FILE or -")
    client = await connect()
    new = StartRequest.run(checked, asked, caller=environment_caller(os.environ))
    run_id = await start_workflow(client, new, run_id, task_queue, timeout)
    return await _started(client, run_id, detach=detach, json=json, person=person)


async def call(
    *,
    run_id: str | None,
    task_queue: str,
    timeout: timedelta | None,
    detach: bool,
    json: bool,
    by: str | None,
    groups: Sequence[str],
    key: str | None,
    kid: str | None,
    **request: Any,
) -> int:
    """Start one call of one tool, and follow it unless `detach`, as `run` does.

    `request` holds those fields of `CallRequest` that were given; the others are `None`.

    Raises:
        CommandError: as `run`.
    """
    person = Approver(by, groups, load_signer(key, kid))
    asked = _given(request)
    checked = _checked(CallRequest, asked, "call")
    client = await connect()
    new = StartRequest.call(checked, asked, caller=environment_caller(os.environ))
    run_id = await start_workflow(client, new, run_id, task_queue, timeout)
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
    person = Approver(by, groups, load_signer(key, kid))
    return await _follow(await connect(), run, json=json, person=person)


async def _started(
    client: Client, run_id: str, *, detach: bool, json: bool, person: Approver
) -> int:
    """Say what was started, and follow it unless `detach`."""
    if detach:
        print(as_json({"type": "run", "run": run_id}) if json else run_id)
        return DONE
    print(as_json({"type": "run", "run": run_id}) if json else f"run {clean(run_id)}", flush=True)
    return await _follow(client, run_id, json=json, person=person)


async def _follow(client: Client, run_id: str, *, json: bool, person: Approver) -> int:
    is_there = not json and sys.stdin.isatty() and is_terminal(sys.stdout)
    answers = person.answers() if is_there else None
    screen = screen_for(sys.stdout, run_id, as_json=json)
    try:
        return await follow(client, run_id, out=screen, ask=answers)
    except asyncio.CancelledError:
        back = holdfast_command("watch", run_id)
        print(f"\nThe run goes on without you. To come back: {back}", file=sys.stderr)
        raise


def _given(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if value is not None}


def _checked(model: type[_RequestT], asked: dict[str, Any], what: str) -> _RequestT:
    try:
        return model.model_validate(asked)
    except ValidationError as error:
        todo = f"see holdfast {what} --help"
        raise invalid_input(what, error, asked, model, todo) from error


async def send(*, run: str, text: str, steer: bool) -> int:
    """Send a message to a run; print the answer of a conversation; return the exit code.

    With `steer`, the message enters the context of any run before its next request.

    Raises:
        CommandError: there is no such run, or it is no conversation.
    """
    remote = RunHandle(await connect(), run, listens=True)
    await remote.observe()
    message = {"role": "user", "content": text}
    if steer:
        await remote.signal(names.MESSAGE, {**message, "delivery": "steer"})
        print(f"The model reads it at its next turn. See {holdfast_command('watch', run)}")
        return DONE
    print(as_text(await _answer(remote, message)))
    return DONE


async def close(*, run: str) -> int:
    """End a conversation; raises as `send` does."""
    remote = RunHandle(await connect(), run, listens=True)
    await remote.observe()
    await remote.signal(names.CLOSE)
    print(f"{clean(run)} ends when its turn is over.")
    return DONE


async def cancel(*, run: str) -> int:
    """Ask a run to end; raises as `send` does."""
    remote = RunHandle(await connect(), run)
    look = await remote.observe()
    if look.closed:
        print(f"{clean(run)} has ended already.")
        return DONE
    await remote.cancel()
    print(f"{clean(run)} was asked to end. See {holdfast_command('watch', run)}")
    return DONE


async def _answer(remote: RunHandle, message: dict[str, str]) -> object:
    try:
        return await remote.send(message)
    except ApplicationError as refusal:
        if refusal.type == names.NOT_A_CONVERSATION:
            again = holdfast_command("send", remote.id)
            todo = f"say it before the next turn with {again} TEXT --steer"
            raise wrong_command(f"run {remote.id} is no conversation", todo) from refusal
        wrong = f"run {remote.id} gives no answer: {refusal.message}"
        raise CommandError(
            wrong, f"see {holdfast_command('show', remote.id)}", RUN_FAILED
        ) from refusal
    except asyncio.CancelledError:
        back = holdfast_command("watch", remote.id)
        print(f"\nThe message is with the run. To see the answer: {back}", file=sys.stderr)
        raise

"""Start runs and single calls, follow them, send them messages, and decide on their approvals."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, get_args

from holdfast.cli import option_values
from holdfast.cli.parser import (
    CALL,
    FILES,
    NAME,
    OBJECT,
    TIME,
    UPDATE_ID,
    Parsers,
    add_person,
    on_run,
)
from holdfast.cli.prompts.answers import AnswerSource, Approver
from holdfast.cli.screens.console import is_terminal
from holdfast.cli.screens.follow import follow, print_json_lines, screen_for
from holdfast.client import errors, question_text
from holdfast.client.connection import connect
from holdfast.client.errors import HoldfastError, read_input, wrong_command
from holdfast.client.holdfast_client import HoldfastClient, fork_request
from holdfast.client.question_text import parse_call_ids, strike_calls
from holdfast.client.run import Run
from holdfast.client.start import StartRequest, environment_caller
from holdfast.runtime.attachments import with_files
from holdfast.runtime.command_line import read_count, read_name
from holdfast.runtime.narration.phrases import decision_phrase
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.text_safety import as_json, as_text, clean, format_date, holdfast_command
from holdfast.schemas import names
from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.decision import RUNS_AGAIN, Decision, PendingApproval, Verdict
from holdfast.schemas.message import Delivered, FilePart
from holdfast.schemas.phrases import quote_value
from holdfast.schemas.run import CallRequest, RunRequest

_TOKEN_HELP = "the principal as a signed token: a JWT, @FILE, or -"
_TIMEOUT_HELP = "the time limit of the run, with the time of approvals, such as 24h (default: none)"

# By the way in which a message is sent: what it is sent with, and what becomes of it.
_SENT: dict[str, tuple[dict[str, str], str]] = {
    "steer": ({}, "The model reads it at its next turn"),
    "follow-up": ({"delivery": "followUp"}, "The model reads it when the run would end"),
    "people": ({"audience": "people"}, "It is in the log, for people only"),
}

_VALUE_CHARS = 2_000


def add_options(parsers: Parsers) -> None:
    """Add the options of the commands that start runs, and send them input."""
    definition = option_values.name_or_definition
    run = parsers["run"]
    add = run.add_argument
    text = "the name of an agent, or @FILE with its JSON"
    add("agent", metavar="AGENT", nargs="?", type=definition, help=text)
    text = "the task: text, a JSON object, @FILE, or -"
    add("--input", metavar="TEXT", type=option_values.run_input, help=text)
    add("--attach", **FILES)
    add("--state", **OBJECT, help="the initial state, or @FILE")
    text = "earlier messages and data messages: a list, or @FILE"
    add("--context", metavar="JSON", type=option_values.json_objects, help=text)
    add("--skill", **NAME, help="the skill of the agent (default: selected by the agent)")
    add("--budget", **OBJECT, help="the limits of the run, such as '{\"maxTurns\": 4}'")
    text = "continue a run that has ended, by default with its agent"
    add("--continue", metavar="RUN", type=read_name, dest="continued", help=text)
    add("--conversation", action="store_true", default=None, help="stay open for `holdfast send`")
    _add_starting(run, "the agent's")
    run.set_defaults(command=partial(start, RunRequest))

    forking = on_run(parsers["fork"], partial(start, RunRequest))
    add = forking.add_argument
    text = "the turn after which it begins, such as t3 (default: the last that has ended)"
    add("--at", metavar="TURN", type=option_values.turn, help=text)
    text = "the name of an agent, or @FILE with its JSON (default: that of the run)"
    add("--agent", metavar="AGENT", type=definition, help=text)
    text = "with --agent @FILE: its model, such as openai:gpt-5 (default: that of the file)"
    add("--model", metavar="E:N", type=option_values.model, dest="model_of_file", help=text)
    text = "a new message: text, a JSON object, @FILE, or -"
    add("--message", metavar="TEXT", type=option_values.run_input, dest="input", help=text)
    add("--attach", **FILES)
    add("--state", **OBJECT, help="what is changed in the state, or @FILE")
    add("--budget", **OBJECT, help="the limits of the run, such as '{\"maxTurns\": 4}'")
    add("--conversation", action="store_true", default=None, help="stay open for `holdfast send`")
    _add_starting(forking, "the agent's")

    call = parsers["call"]
    text = "the name of a tool, or @FILE with its JSON Schema"
    call.add_argument("tool", metavar="TOOL", type=definition, help=text)
    call.add_argument("--arguments", **OBJECT, help="the arguments, or @FILE")
    _add_starting(call, "the tool's")
    call.set_defaults(command=partial(start, CallRequest))

    _add_following(on_run(parsers["watch"], watch))

    sending = on_run(parsers["send"], send)
    add = sending.add_argument
    add("text", metavar="TEXT", type=option_values.text, help="the message: text, @FILE, or -")
    add("--attach", **FILES)
    how = sending.add_mutually_exclusive_group().add_argument
    for name, text in (
        ("steer", "add the message to any run before its next turn, without an answer"),
        ("follow-up", "add the message to any run when it would end, without an answer"),
        ("people", "write it into the log, for people only"),
    ):
        how(f"--{name}", dest="how", action="store_const", const=name, help=text)
    add("--skill", **NAME, help="the skill of the agent from this message on")
    add("--update-id", **UPDATE_ID)
    withdrawing = on_run(parsers["withdraw"], withdraw)
    text = "its number: `holdfast show RUN` lists the queued messages"
    withdrawing.add_argument("message", metavar="NUMBER", type=read_count, help=text)
    on_run(parsers["close"], close)
    on_run(parsers["cancel"], cancel)
    renewing = on_run(parsers["renew"], renew)
    token = option_values.token
    renewing.add_argument("--token", metavar="JWT", required=True, type=token, help=_TOKEN_HELP)


def _add_starting(parser: argparse.ArgumentParser, whose: str) -> None:
    add, behalf = parser.add_argument, parser.add_mutually_exclusive_group().add_argument
    text = 'the principal of the run: an id or {"id","scopes"}'
    behalf("--principal", metavar="ID", type=option_values.principal, help=text)
    token = option_values.principal_token
    behalf("--principal-token", metavar="JWT", dest="principal", type=token, help=_TOKEN_HELP)
    add("--approvals", choices=["ask", "deny"], help="deny: deny each call that needs an approval")
    text = f"the run's id (default: {whose} and 8 digits)"
    add("--id", metavar="ID", dest="run_id", type=read_name, help=text)
    add("--task-queue", **NAME, default=names.TASK_QUEUE, help="default: %(default)s")
    add("--timeout", **TIME, help=_TIMEOUT_HELP)
    add("--detach", action="store_true", help="print the id of the run and exit")
    _add_following(parser)


def _add_following(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    add_person(parser)


async def start(
    model: type[RunRequest] | type[CallRequest],
    *,
    run_id: str | None,
    task_queue: str,
    timeout: timedelta | None,
    detach: bool,
    json: bool,
    approver: Approver,
    continued: str | None = None,
    run: str | None = None,
    at: int | None = None,
    model_of_file: ModelSettings | None = None,
    attach: Sequence[FilePart] = (),
    **request: Any,
) -> int:
    """Start a run or a single call, and follow it unless `detach`. The exit code is the run's.

    `request` has the given fields of the model; the others are `None`. It begins with the run that
    is `continued`, at its end, or with another `run`, after its turn `at`.
    """
    fields = {name: value for name, value in request.items() if value is not None}
    if model_of_file is not None:
        if not isinstance(fields.get("agent"), dict):
            raise wrong_command("--model goes with a definition", "give it with --agent @FILE")
        written = model_of_file.model_dump(include={"endpoint", "name"})
        fields["agent"] = {**fields["agent"], "model": written}
    if attach:
        fields["input"] = [part.to_json() for part in with_files(fields.get("input"), attach)]
    client = None
    if (source := continued or run) is not None:
        client = await connect(task_queue)
        if continued is not None and not (await client.run(continued).observe()).closed:
            todo = f"send it a message: {holdfast_command('send', continued)} TEXT --steer"
            raise wrong_command(f"run {continued} has not ended", todo)
        fields = await fork_request(client, source, fields, at)
    elif model is RunRequest and "agent" not in fields:
        raise wrong_command("there is no AGENT", "name one, or a run with --continue RUN")
    what = "run" if model is RunRequest else "call"
    checked = read_input(model, fields, what, f"see holdfast {what} --help")
    if isinstance(checked, RunRequest) and (lack := checked.lack_of_input()):
        raise wrong_command(lack, "write the task with --input TEXT, @FILE or -")
    client = client or await connect(task_queue)
    new = StartRequest.of(checked, fields, caller=environment_caller(os.environ))
    started = await client.start_request(new, run_id, timeout)
    text = started.id if detach else f"run {clean(started.id)}"
    print(as_json({"type": "run", "run": started.id}) if json else text, flush=True)
    if detach:
        return errors.DONE
    return await _follow(client, started, json=json, approver=approver)


async def watch(*, run: str, json: bool, approver: Approver) -> int:
    """Follow a run to its end, or draw one that has ended. The exit code is the run's."""
    client = await connect()
    return await _follow(client, client.run(run), json=json, approver=approver)


async def _follow(client: HoldfastClient, run: Run, *, json: bool, approver: Approver) -> int:
    # Imported here: the other commands need no WebSockets, and start sooner.
    from holdfast.client.stream.local_viewer import local_viewer

    answers = None
    if sys.stdin.isatty() and is_terminal(sys.stdout):
        answers = AnswerSource(sys.stdin.fileno(), approver)
    try:
        async with local_viewer(client.live):
            if json:
                return await print_json_lines(run, sys.stdout)
            return await follow(run, out=screen_for(sys.stdout, run.id), ask=answers)
    except asyncio.CancelledError:
        back = holdfast_command("watch", run.id)
        print(f"\nThe run continues. To follow it again: {back}", file=sys.stderr)
        raise


async def _reach(run_id: str) -> Run:
    run = (await connect()).run(run_id)
    await run.observe()
    return run


async def send(
    *,
    run: str,
    text: str,
    attach: Sequence[FilePart],
    how: str | None,
    skill: str | None,
    update_id: str | None,
) -> int:
    """Send a message to a run; print the answer of a conversation.

    With a key of `_SENT` as `how`, any run takes it, and gives no answer.
    """
    if how == "people" and skill is not None:
        raise wrong_command("--skill is for a message that the model reads", "leave out --people")
    if how is not None and update_id is not None:
        raise wrong_command("--update-id is for a message with an answer", f"leave out --{how}")
    content = with_files(text, attach) if attach else text
    remote = await _reach(run)
    message = Delivered(content=content, skill=skill)
    if how is not None:
        fields, sent = _SENT[how]
        await remote.post(message.model_copy(update=fields))
        print(f"{sent}. See {holdfast_command('show' if how == 'people' else 'watch', run)}")
        return errors.DONE
    try:
        print(as_text(await remote.send(message, update_id=update_id or "")))
    except errors.RejectedError as refusal:
        if refusal.code == names.NOT_A_CONVERSATION:
            todo = f"send it before the next turn with {holdfast_command('send', run)} TEXT --steer"
            raise wrong_command(f"run {run} is no conversation", todo) from refusal
        wrong = f"run {run} gives no answer: {refusal.reason}"
        todo = f"see {holdfast_command('show', run)}"
        raise HoldfastError(wrong, todo, errors.RUN_FAILED) from refusal
    except asyncio.CancelledError:
        back = holdfast_command("watch", run)
        print(f"\nThe run may have received the message. To see it: {back}", file=sys.stderr)
        raise
    return errors.DONE


async def withdraw(*, run: str, message: int) -> int:
    """Take back a message that the run has not read."""
    remote = await _reach(run)
    await remote.withdraw(message)
    print(f"Message {message} is withdrawn: {clean(run)} never reads it.")
    return errors.DONE


async def close(*, run: str) -> int:
    """End a conversation."""
    remote = await _reach(run)
    await remote.close()
    print(f"{clean(run)} ends when its turn is over.")
    return errors.DONE


async def renew(*, run: str, token: str) -> int:
    """Send a new token of the principal to a run."""
    remote = await _reach(run)
    renewed = await remote.renew(token)
    print(f"{clean(run)} acts for {clean(renewed.id)} until {format_date(renewed.expires_at)}.")
    return errors.DONE


async def cancel(*, run: str) -> int:
    """Request the cancellation of a run."""
    remote = (await connect()).run(run)
    if (await remote.observe()).closed:
        print(f"{clean(run)} has ended already.")
        return errors.DONE
    await remote.cancel()
    print(f"{clean(run)} is requested to end. See {holdfast_command('watch', run)}")
    return errors.DONE


def add_deciding(parsers: Parsers) -> None:
    """Add the options of `decide`."""
    parser = on_run(parsers["decide"], decide)
    add, verdicts = parser.add_argument, get_args(Verdict)
    add("call", **CALL)
    add("decision", choices=verdicts, metavar="DECISION", help=", ".join(verdicts))
    add("--reason", metavar="TEXT", help="the reason for the model, after a denial")
    add("--arguments", **OBJECT, help="for edit: all arguments, or @FILE")
    text = "for respond and happened: the result as JSON, text or @FILE"
    value: dict[str, Any] = {"metavar": "VALUE", "default": argparse.SUPPRESS}
    add("--result", **value, type=option_values.json_or_text, help=text)
    text = "approve every further call of the tool in this run"
    add("--remember", action="store_true", help=text)
    text = "approve a plan without these calls, such as t1c2,t1c3; repeatable"
    add("--strike", **CALL, action="append", default=[], help=text)
    add("--digest", metavar="HEX", help="reject the decision if the digest of the call is another")
    add("--nonce", metavar="HEX", help="reject the decision if the question is another")
    add("--update-id", **UPDATE_ID)
    text = "a signed decision: a JWT, @FILE, or -"
    add_person(parser).add_argument("--token", metavar="JWT", type=option_values.token, help=text)


async def decide(
    *,
    run: str,
    call: str,
    decision: str,
    approver: Approver,
    strike: Sequence[str],
    update_id: str | None,
    **fields: Any,
) -> int:
    """Decide on a pending approval.

    `fields` are the given fields of `Decision`, `strike` the calls to strike out of a plan that is
    approved. With a key the decision is signed here; a token was signed elsewhere.
    """
    request: dict[str, Any] = {"callId": call, "decision": decision}
    if fields.get("token") is None:
        request |= {"by": approver.name, "groups": approver.groups}
    if strike and (decision != "approve" or fields.get("arguments") is not None):
        raise wrong_command("--strike goes with approve alone", "write approve, or edit without it")
    # An option that was not given is None; a result is present only if given, and may be null.
    request |= fields
    request = {
        name: value for name, value in request.items() if value is not None or name == "result"
    }
    meant = read_input(Decision, request, "decision", "see holdfast decide --help")
    remote = (await connect()).run(run)
    await remote.observe()
    if meant.decision in RUNS_AGAIN and meant.token is None and not (meant.digest and meant.nonce):
        await _show_attempts(remote, call)
    if strike:
        strike = [call for text in strike for call in parse_call_ids(text) or [text]]
        meant = without_calls(meant, await _pending(remote, call), strike)
    if approver.signer is not None:
        meant = approver.signer.sign(meant, await _pending(remote, call), run)
    receipt = await remote.decide(meant, update_id)
    done = f"approved without {', '.join(strike)}" if strike else decision_phrase(receipt.decision)
    outcome = f"{clean(done)}. See {holdfast_command('watch', run)}"
    if not receipt.decided:
        outcome = f"counted; {receipt.missing} more must agree."
    print(f"{clean(receipt.call_id)}: {outcome}")
    return errors.DONE


def without_calls(meant: Decision, waiting: PendingApproval, struck: Sequence[str]) -> Decision:
    edit = {"decision": "edit", "arguments": strike_calls(waiting, struck)}
    return meant.model_copy(update={**edit, "digest": meant.digest or waiting.digest})


async def _show_attempts(remote: Run, call_id: str) -> None:
    """Show an unknown outcome in place of running its call again; raises how to do that."""
    for one in await remote.approvals():
        if (one.call_id, one.kind) == (call_id, "reconcile"):
            print("\n".join(question_text.summary(one, _VALUE_CHARS)))
            wrong = f"{clean(call_id)} was not decided: it may have happened"
            bound = ("--digest", one.digest, "--nonce", one.nonce)
            again = holdfast_command("decide", remote.id, call_id, "did_not_happen", *bound)
            todo = f"to run it {QuestionView.of(one).next_attempt}: {again}"
            raise wrong_command(wrong, f"{todo}; else `happened --result VALUE`, or `give_up`")


async def _pending(remote: Run, call_id: str) -> PendingApproval:
    for one in await remote.approvals():
        if one.call_id == call_id:
            return one
    wrong = f"no call {quote_value(call_id)} of run {remote.id} waits for a decision"
    raise HoldfastError(wrong, "holdfast approvals lists the pending approvals", errors.NO_SUCH)

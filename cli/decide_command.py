"""`holdfast decide`: one decision on one pending approval."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from temporalio.exceptions import ApplicationError

from holdfast.cli.prompts.answers import user_name
from holdfast.client.command_errors import (
    DONE,
    NO_SUCH,
    RUN_FAILED,
    WRONG_COMMAND,
    CommandError,
    invalid_input,
    wrong_command,
)
from holdfast.client.connection import connect
from holdfast.client.question_text import CannotStrikeError, parse_call_ids, strike_calls
from holdfast.client.run_handle import RunHandle
from holdfast.client.signing import load_signer
from holdfast.runtime.narration.phrases import decision_phrase
from holdfast.runtime.text_safety import clean, holdfast_command
from holdfast.schemas import names
from holdfast.schemas.decision import Decision, PendingApproval, Receipt
from holdfast.schemas.phrases import quote_value

_REFUSALS = {
    names.NO_SUCH_CALL: (NO_SUCH, "holdfast approvals lists the pending approvals"),
    names.INVALID_DECISION: (WRONG_COMMAND, "holdfast approvals shows the call"),
    names.ALREADY_DECIDED: (RUN_FAILED, "nothing was changed"),
}


async def decide(
    *,
    run: str,
    call: str,
    decision: str,
    by: str | None,
    groups: Sequence[str],
    strike: Sequence[str],
    key: str | None,
    kid: str | None,
    **said: Any,
) -> int:
    """Decide on a pending approval; return the exit code.

    `said` has the fields of `Decision` that were given, `strike` the calls to strike out of a plan
    that is approved. With a `key` the decision is signed here; a token was signed elsewhere.

    Raises:
        CommandError: the decision is wrong or refused, or there is no such run or call.
    """
    signer = load_signer(key, kid)
    given: dict[str, Any] = {"callId": call, "decision": decision}
    if said.get("token") is None:
        given |= {"by": by or user_name(), "groups": groups}
    if strike and (decision != "approve" or said.get("arguments") is not None):
        raise wrong_command("--strike goes with approve alone", "say approve, or edit without it")
    meant = _decision({**given, **said})
    remote = RunHandle(await connect(), run)
    await remote.observe()
    if strike:
        strike = [call for said in strike for call in parse_call_ids(said) or [said]]
        meant = await _without(remote, meant, strike)
    if signer is not None:
        waiting = await _waiting(remote, meant)
        _check_seen(meant, waiting)
        meant = signer.sign(meant, waiting, run)
    try:
        receipt = await remote.decide(meant)
    except ApplicationError as refusal:
        raise _refused(run, refusal) from refusal
    print(f"{clean(receipt.call_id)}: {_came_to(receipt, strike, run)}")
    return DONE


def _came_to(receipt: Receipt, struck: Sequence[str], run_id: str) -> str:
    """What the decision has done."""
    if not receipt.decided:
        return f"counted; {receipt.missing} more must agree."
    done = f"approved without {', '.join(struck)}" if struck else decision_phrase(receipt.decision)
    return f"{clean(done)}. See {holdfast_command('watch', run_id)}"


async def _without(remote: RunHandle, meant: Decision, struck: Sequence[str]) -> Decision:
    """The approval of a plan, as it waits now, without some of its calls."""
    waiting = await _waiting(remote, meant)
    try:
        edit = {"decision": "edit", "arguments": strike_calls(waiting, struck)}
    except CannotStrikeError as error:
        raise wrong_command(error.wrong, error.todo) from error
    digest = meant.digest or waiting.digest
    return meant.model_copy(update={**edit, "digest": digest})


def _check_seen(meant: Decision, waiting: PendingApproval) -> None:
    """Refuse to sign arguments that were edited since the question."""
    changed = any(decided.decision == "edit" for decided in waiting.decisions)
    if changed and meant.decision == "approve" and meant.digest is None:
        raise wrong_command(
            "the arguments were changed since this was asked",
            "look at it again: the digest for --digest is in "
            f"{holdfast_command('approvals', '--json')}",
        )


async def _waiting(remote: RunHandle, meant: Decision) -> PendingApproval:
    """The call that is meant, as it waits now."""
    for one in await remote.pending_approvals():
        if one.call_id == meant.call_id:
            return one
    wrong = f"no call {quote_value(meant.call_id)} of run {remote.id} waits for a decision"
    raise CommandError(wrong, "holdfast approvals lists the pending approvals", NO_SUCH)


def _decision(given: dict[str, Any]) -> Decision:
    # An option that was not given is None; a result is only there when it was, and may be null.
    said = {name: value for name, value in given.items() if value is not None or name == "result"}
    try:
        return Decision.model_validate(said)
    except ValidationError as error:
        raise invalid_input(
            "decision", error, said, Decision, "see holdfast decide --help"
        ) from error


def _refused(run_id: str, refusal: ApplicationError) -> CommandError:
    code, todo = _REFUSALS.get(refusal.type or "", (RUN_FAILED, "see the worker's log"))
    return CommandError(f"run {run_id} refuses: {refusal.message}", todo, code)

"""`holdfast decide`: one decision on one pending approval."""

import argparse
from collections.abc import Sequence
from typing import Any, get_args

from pydantic import ValidationError

from holdfast.cli import option_values
from holdfast.cli.parser import CALL, OBJECT, UPDATE_ID, Commands, add_person, add_run_command
from holdfast.cli.prompts.answers import Approver
from holdfast.client import question_text
from holdfast.client.connection import connect
from holdfast.client.errors import DONE, NO_SUCH, HoldfastError, invalid_input, wrong_command
from holdfast.client.question_text import parse_call_ids, strike_calls
from holdfast.client.run import Run
from holdfast.runtime.narration.phrases import decision_phrase
from holdfast.runtime.text_safety import clean, holdfast_command
from holdfast.schemas.decision import RUNS_AGAIN, Decision, PendingApproval, Verdict
from holdfast.schemas.phrases import quote_value

_VALUE_CHARS = 2_000


def add_parser(commands: Commands) -> None:
    """Add `decide`."""
    parser = add_run_command(commands, "decide", decide, "decide on a pending approval")
    add, verdicts = parser.add_argument, get_args(Verdict)
    add("call", **CALL)
    add("decision", choices=verdicts, metavar="DECISION", help=", ".join(verdicts))
    add("--reason", metavar="TEXT", help="the reason for the model, after a denial")
    add("--arguments", **OBJECT, help="for edit: all arguments, or @FILE")
    text = "for respond and happened: the result as JSON, text or @FILE"
    value = {"metavar": "VALUE", "type": option_values.json_or_text, "default": argparse.SUPPRESS}
    add("--result", **value, help=text)
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
    try:
        meant = Decision.model_validate(request)
    except ValidationError as error:
        todo = "see holdfast decide --help"
        raise invalid_input("decision", error, request, Decision, todo) from error
    remote = (await connect()).run(run)
    await remote.observe()
    if meant.decision in RUNS_AGAIN and meant.token is None and not (meant.digest and meant.nonce):
        await _show_attempts(remote, call)
    if strike:
        strike = [call for text in strike for call in parse_call_ids(text) or [text]]
        meant = without_calls(meant, await _pending(remote, call), strike)
    if approver.signer is not None:
        waiting = await _pending(remote, call)
        is_changed = any(decided.decision == "edit" for decided in waiting.decisions)
        if is_changed and meant.decision == "approve" and meant.digest is None:
            look = holdfast_command("approvals", "--json")
            todo = f"read it again: the digest for --digest is in {look}"
            raise wrong_command("the arguments were changed since the approval was requested", todo)
        meant = approver.signer.sign(meant, waiting, run)
    receipt = await remote.decide(meant, update_id)
    done = f"approved without {', '.join(strike)}" if strike else decision_phrase(receipt.decision)
    outcome = f"{clean(done)}. See {holdfast_command('watch', run)}"
    if not receipt.decided:
        outcome = f"counted; {receipt.missing} more must agree."
    print(f"{clean(receipt.call_id)}: {outcome}")
    return DONE


def without_calls(meant: Decision, waiting: PendingApproval, struck: Sequence[str]) -> Decision:
    """Return the approval of a pending plan, without some of its calls."""
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
            todo = f"to run it {question_text.times_phrase(one)}: {again}"
            raise wrong_command(wrong, f"{todo}; else `happened --result VALUE`, or `give_up`")


async def _pending(remote: Run, call_id: str) -> PendingApproval:
    for one in await remote.approvals():
        if one.call_id == call_id:
            return one
    wrong = f"no call {quote_value(call_id)} of run {remote.id} waits for a decision"
    raise HoldfastError(wrong, "holdfast approvals lists the pending approvals", NO_SUCH)

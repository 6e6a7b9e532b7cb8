"""Tokens, as a workflow has them checked: by an activity, since that takes keys and a clock.

It is a local one: what a token says is then in the history, and the token is not there once more.
"""

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.base import parse_duration, rfc3339
    from holdfast.schemas.decision import Decision
    from holdfast.schemas.run import Principal, PrincipalToken
    from holdfast.schemas.token import DecisionClaims, PrincipalClaims, TokenCheck

from holdfast.workflows.commands import failures
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.question import DecisionRejected
from holdfast.workflows.engine.approvals.signed_decision import (
    SignedDecision,
    TokenMismatch,
    sign_with_claims,
)
from holdfast.workflows.engine.execution_base import ExecutionBase

# While a key set cannot be had, it is asked for again.
CHECK_TO_CLOSE = parse_duration("1m")


class TokenRejected(Exception):
    """A token that does not count, and why."""


def as_signed(decision: Decision) -> SignedDecision:
    """The decision as its token has it, whoever has signed that.

    Raises:
        BadToken: it is none, or for another run.
    """
    assert decision.token is not None  # somebody has signed it
    try:
        return _signed(decision, DecisionClaims.unchecked(decision.token))
    except ValueError as error:
        raise TokenRejected(str(error)) from None


async def checked(desk: PendingApprovals, decision: Decision) -> Decision:
    """The decision; where it has a token, as that has it, with a good signature.

    Nobody is asked about one whose token could not count.

    Raises:
        BadToken: the token does not count.
        Unacceptable: the decision does not.
    """
    if decision.token is None:
        return decision
    question, _ = desk.check(as_signed(decision))
    since = rfc3339(question.requested_at)
    check = TokenCheck(token=decision.token, purpose="decision", since=since)
    return _signed(decision, DecisionClaims.read(await _check(check)))


async def hear(work: ExecutionBase, decision: Decision) -> None:
    """Count a decision that cannot be refused to whoever sent it: a wrong one is noted."""
    try:
        meant = await checked(work.state.pending, decision)
    except (TokenRejected, DecisionRejected) as error:
        work.calls.log_ignored(decision, str(error))
    else:
        work.calls.count_or_log(meant)


async def principal_of(asked: PrincipalToken) -> Principal:
    """On whose behalf a run acts that is started with a token.

    Raises:
        BadToken: the token does not count.
    """
    claims = await _check(TokenCheck(token=asked.token, purpose="principal"))
    known = PrincipalClaims.read(claims)
    return Principal(id=known.id, scopes=known.scopes)


def _signed(decision: Decision, claims: DecisionClaims) -> SignedDecision:
    try:
        return sign_with_claims(decision, claims, workflow.info().workflow_id)
    except TokenMismatch as error:
        raise TokenRejected(str(error)) from None


async def _check(check: TokenCheck) -> Any:
    try:
        return await workflow.execute_local_activity(
            names.CHECK_TOKEN,
            check.to_json(),
            schedule_to_close_timeout=CHECK_TO_CLOSE,
            summary=f"Checks the token of a {check.purpose}",
        )
    except FailureError as error:
        failure = failures.failure_of(error)
        if failure.kind == "cancelled":
            raise asyncio.CancelledError from error
        raise TokenRejected(failure.message) from None

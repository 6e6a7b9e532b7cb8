"""Verify tokens with a local activity, since verification needs keys and a clock.

The history then has the claims, and does not have the token a second time.
"""

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.base import parse_duration, rfc3339
    from holdfast.schemas.decision import Decision, DecisionClaims, PrincipalClaims, TokenCheck
    from holdfast.schemas.run import Principal, PrincipalToken

from holdfast.workflows.commands import failures
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.question import (
    DecisionRejected,
    SignedDecision,
    sign_with_claims,
)
from holdfast.workflows.engine.execution_base import ExecutionBase

# The time for retries while a key set cannot be fetched.
CHECK_TO_CLOSE = parse_duration("1m")


class TokenRejected(Exception):
    """A token is not accepted; the message has the reason."""


def unverified_decision(decision: Decision) -> SignedDecision:
    """Return the decision with its token's claims, without a check of the signature.

    Raises:
        TokenRejected: The text is not a token, or is for another run.
    """
    assert decision.token is not None  # the caller has checked
    try:
        return _signed(decision, DecisionClaims.unchecked(decision.token))
    except ValueError as error:
        raise TokenRejected(str(error)) from None


async def verify_decision(desk: PendingApprovals, decision: Decision) -> Decision:
    """Return the decision, with the content of its verified token if it has one.

    A token that could not count is not verified.

    Raises:
        TokenRejected: The token is not accepted.
        DecisionRejected: The decision is not accepted.
    """
    if decision.token is None:
        return decision
    question, _ = desk.check(unverified_decision(decision))
    since = rfc3339(question.requested_at)
    check = TokenCheck(token=decision.token, purpose="decision", since=since)
    return _signed(decision, DecisionClaims.read(await _check(check)))


async def count_decision(work: ExecutionBase, decision: Decision) -> None:
    """Count a decision of a signal; a rejected one is noted in the log."""
    try:
        meant = await verify_decision(work.state.pending, decision)
    except (TokenRejected, DecisionRejected) as error:
        work.questions.log_ignored(decision, str(error))
    else:
        work.questions.count_or_log(meant)


async def verify_principal(asked: PrincipalToken) -> Principal:
    """Return the principal of a token.

    Raises:
        TokenRejected: The token is not accepted.
    """
    claims = await _check(TokenCheck(token=asked.token, purpose="principal"))
    known = PrincipalClaims.read(claims)
    return Principal(id=known.id, scopes=known.scopes)


def _signed(decision: Decision, claims: DecisionClaims) -> SignedDecision:
    try:
        return sign_with_claims(decision, claims, workflow.info().workflow_id)
    except DecisionRejected as error:
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
        failure = failures.activity_failure(error)
        if failure.kind == "cancelled":
            raise asyncio.CancelledError from error
        raise TokenRejected(failure.message) from None

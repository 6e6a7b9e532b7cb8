"""Verify tokens: of signed decisions, and of the principal that a run acts for.

A token is verified in a local activity, since verification needs keys and a clock. The history then
has the claims, and does not have the token a second time.
"""

import asyncio
from datetime import datetime
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.base import parse_duration, rfc3339
    from holdfast.schemas.decision import Decision, DecisionClaims, PrincipalClaims, TokenCheck
    from holdfast.schemas.run import CallRequest, Principal, PrincipalToken, RunRequest

from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.signed_decision import DecisionRejected, sign_with_claims
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.run_state import TokenRejected
from holdfast.workflows.input import InvalidInputError, activity_failure, fail, own_plain_name
from holdfast.workflows.permits import is_delegate

RequestT = TypeVar("RequestT", RunRequest, CallRequest)
_NO_TOKEN = (
    "`principal`: this worker requires a token of each principal: start the run with"
    ' `"principal": {"token": …}`'
)
_WRITTEN = "this worker accepts no definition in a request: name one of its catalog"
# The time for retries while a key set cannot be fetched.
CHECK_TO_CLOSE = parse_duration("1m")


def unverified_decision(decision: Decision) -> Decision:
    """Return the decision with its token's unverified claims, or raise `DecisionRejected`."""
    if decision.token is None:
        return decision
    try:
        claims = DecisionClaims.unchecked(decision.token)
    except ValueError as error:
        raise DecisionRejected(names.INVALID_DECISION, str(error)) from None
    return sign_with_claims(decision, claims, workflow.info().workflow_id)


async def verify_decision(
    desk: PendingApprovals,
    decision: Decision,
    at: datetime,
    limits: ValidationLimits,
    *,
    by_signal: bool = False,
) -> Decision:
    """Return the decision of this time, with the content of its verified token if it has one.

    A token that could not count is not verified; it raises `DecisionRejected`, as an invalid one.
    A signal has no validator: the activity compares its nonce, and the history has the result.
    """
    proof = decision.token or (decision.nonce if by_signal else None)
    if not proof:
        return decision
    question, _ = desk.check(unverified_decision(decision), at, limits)
    check = TokenCheck(
        token=proof,
        purpose="decision" if decision.token else "question",
        since=rfc3339(question.requested_at),
        sent_at=rfc3339(at) if at < workflow.now() else None,
        nonce=question.nonce(workflow.info().run_id),
    )
    try:
        claims = await _check(check)
    except TokenRejected as error:
        raise DecisionRejected(names.INVALID_DECISION, str(error)) from None
    if decision.token is None:
        return decision
    return sign_with_claims(decision, DecisionClaims.read(claims), workflow.info().workflow_id)


async def count_decision(
    work: ExecutionBase, decision: Decision, at: datetime, limits: ValidationLimits
) -> None:
    """Count a decision of a signal, of this time; a rejected one is noted in the log."""
    with work.state.pending.hold():
        try:
            meant = await verify_decision(work.state.pending, decision, at, limits, by_signal=True)
            work.questions.count(meant, at, limits)
        except DecisionRejected as error:
            if work.phases.end is None:  # nothing follows the end of a log
                work.questions.log_ignored(decision, str(error))


async def _check(check: TokenCheck) -> Any:
    try:
        return await workflow.execute_local_activity(
            names.CHECK_TOKEN,
            check.to_json(),
            schedule_to_close_timeout=CHECK_TO_CLOSE,
            summary=f"Checks the token of a {check.purpose}",
        )
    except FailureError as error:
        failure = activity_failure(error)
        if failure.kind == "cancelled":
            raise asyncio.CancelledError from error
        raise TokenRejected(failure.message) from None


async def verify_principal(token: str, runs: list[str]) -> Principal:
    """Return the principal of a token for one of these runs, or raise `TokenRejected`."""
    check = TokenCheck(token=token, purpose="principal", runs=runs)
    claims = PrincipalClaims.read(await _check(check))
    return Principal(id=claims.id, scopes=claims.scopes, expires_at=claims.expires_at)


async def authorize(request: RequestT, field: str, facts: WorkerFacts, *values: Any) -> RequestT:
    """Return the request, with the verified principal of its token if it has one.

    A delegate is authorized with its parent. `field` names the definition;
    `values` are what the run was started with.

    Raises:
        ApplicationError: The worker does not accept the request, or its token.
    """
    principal = request.principal
    if not is_delegate(*values):
        if facts.catalog_only and not isinstance(getattr(request, field), str):
            fail(names.INVALID_REQUEST, f"`{field}`: {_WRITTEN}")
        if facts.principal_tokens and not isinstance(principal, PrincipalToken):
            fail(names.INVALID_REQUEST, _NO_TOKEN)
    if principal is None:
        return request
    try:
        if isinstance(principal, Principal):
            own_id = own_plain_name(principal.id, "principal.id")
            verified = principal.model_copy(update={"id": own_id})
        else:
            verified = await verify_principal(principal.token, [workflow.info().workflow_id])
    except InvalidInputError as error:
        fail(names.INVALID_REQUEST, str(error))
    except TokenRejected as error:
        fail(names.INVALID_REQUEST, f"`principal.token`: {error}")
    return request.model_copy(update={"principal": verified})

"""Verify tokens: of signed decisions, and of the principal that a run acts for.

A token is verified in a local activity, since verification needs keys and a clock. The history then
has the claims, and does not have the token a second time.
"""

import asyncio
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.base import parse_duration
    from holdfast.schemas.decision import PrincipalClaims, TokenCheck
    from holdfast.schemas.internal.shared_budgets import BudgetScopes
    from holdfast.schemas.run import CallRequest, Principal, PrincipalToken, RunRequest

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


async def check_token(check: TokenCheck) -> Any:
    """Return the claims of a valid token, or raise `TokenRejected`."""
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
    claims = PrincipalClaims.read(await check_token(check))
    return Principal(**dict(claims))


def budget_scopes(principal: Principal | None, facts: WorkerFacts) -> BudgetScopes:
    """Return the scopes in which shared budgets count a run: none of them is a caller's word."""
    is_verified = principal is not None and facts.principal_tokens
    who = principal.id if principal is not None and is_verified else names.UNASSIGNED
    team = principal.team if principal is not None else None
    nobody = names.UNASSIGNED
    return BudgetScopes(agent=facts.counted_as or nobody, principal=who, team=team or nobody)


async def authorize(request: RequestT, field: str, facts: WorkerFacts, *values: Any) -> RequestT:
    """Return the request, with the verified principal of its token if it has one.

    A delegate is authorized with its parent. `field` names the definition;
    `values` are what the run was started with.

    Raises:
        ApplicationError: The worker does not accept the request, or its token.
    """
    principal = request.principal
    is_child = is_delegate(*values)
    if not is_child:
        if facts.catalog_only and not isinstance(getattr(request, field), str):
            fail(names.INVALID_REQUEST, f"`{field}`: {_WRITTEN}")
        if facts.principal_tokens and not isinstance(principal, PrincipalToken):
            fail(names.INVALID_REQUEST, _NO_TOKEN)
    if principal is None:
        return request
    try:
        if isinstance(principal, Principal):
            own_id = own_plain_name(principal.id, "principal.id")
            team = principal.team if is_child else None
            verified = principal.model_copy(update={"id": own_id, "team": team})
        else:
            verified = await verify_principal(principal.token, [workflow.info().workflow_id])
    except InvalidInputError as error:
        fail(names.INVALID_REQUEST, str(error))
    except TokenRejected as error:
        fail(names.INVALID_REQUEST, f"`principal.token`: {error}")
    return request.model_copy(update={"principal": verified})

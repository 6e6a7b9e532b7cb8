"""Authorize the start of a run or a call by the settings of the worker's operator.

A delegate is authorized with its parent. No client can start a run as the child of another, and an
operator of another worker in the namespace is as trusted as this one.
"""

from typing import TypeVar

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.run import CallRequest, PrincipalToken, RunRequest

from holdfast.workflows.commands import token_verification
from holdfast.workflows.handler_input import fail

RequestT = TypeVar("RequestT", RunRequest, CallRequest)

_NO_TOKEN = (
    "`principal`: this worker wants a token of everybody: start the run with"
    ' `"principal": {"token": …}`'
)
_WRITTEN = "this worker takes none that is written in a request: name one of its catalog"


async def authorize(request: RequestT, facts: WorkerFacts) -> RequestT:
    """Return the request, with the verified principal of its token if it has one.

    Raises:
        ApplicationError: The worker does not accept the request, or its token.
    """
    principal = request.principal
    if workflow.info().parent is None:
        field = "agent" if hasattr(request, "agent") else "tool"
        if facts.catalog_only and not isinstance(getattr(request, field), str):
            fail(names.INVALID_REQUEST, f"`{field}`: {_WRITTEN}")
        if facts.principal_tokens and not isinstance(principal, PrincipalToken):
            fail(names.INVALID_REQUEST, _NO_TOKEN)
    if not isinstance(principal, PrincipalToken):
        return request
    try:
        known = await token_verification.verify_principal(principal)
    except token_verification.TokenRejected as error:
        fail(names.INVALID_REQUEST, f"`principal.token`: {error}")
    return request.model_copy(update={"principal": known})

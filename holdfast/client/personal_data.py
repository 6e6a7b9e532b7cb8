"""Delete what is kept of a person: memories, and finished runs.

Temporal's lists find runs by the search attribute of their principal, and memories by their ids: no
worker is needed, and no key, since neither reads content. A memory's id ends with its principal,
and Temporal searches for beginnings alone: every memory of the namespace is listed. The lists can
lag behind by a moment.
"""

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.errors import RUN_FAILED, HoldfastError, wrong_command
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import MAX_FILTER_CHARS, RUN_TYPES, RunFilter
from holdfast.runtime.text_safety import clean, holdfast_command
from holdfast.schemas import names


async def forget_principal(
    client: HoldfastClient, principal: str, *, runs: bool
) -> tuple[int, int]:
    """Delete the memories of a principal, and its finished runs if `runs`.

    Returns:
        The number of its memories, and of its finished runs.

    Raises:
        HoldfastError: an open run could write to a memory again, or Temporal does not answer, or
            cannot search for this principal.
    """
    who = clean(principal)
    is_unclear = principal != who.strip("'") or not {*principal}.isdisjoint('"\\')
    if is_unclear or len(principal) > MAX_FILTER_CHARS:
        todo = "delete its runs and memories with `temporal workflow delete`"
        raise wrong_command(f"Temporal cannot search for the principal {who!r}", todo)
    of_principal = RUN_TYPES + RunFilter(principal=principal).terms()
    # Before the memories: a run that ends meanwhile has written to its own before they are listed.
    running = await client.list_runs(f'{of_principal} AND ExecutionStatus = "Running"', None)
    if running:
        first, more = running[0].id, len(running) - 1
        wrong = f"open runs of {who} could write to a memory again: {clean(first)}"
        todo = f"end them first, as with {holdfast_command('cancel', first)}"
        raise HoldfastError(f"{wrong} and {more} more" if more else wrong, todo, RUN_FAILED)
    listed = await client.list_runs(f'WorkflowType = "{names.MEMORY_WORKFLOW}"', None)
    memories = [each for each in listed if names.is_memory_of(each.id, principal)]
    ended = await client.list_runs(f'{of_principal} AND ExecutionStatus != "Running"', None)
    for each in [*memories, *ended] if runs else memories:
        # With its history; an open memory is terminated first.
        execution = WorkflowExecution(workflow_id=each.id, run_id=each.execution)
        request = DeleteWorkflowExecutionRequest(
            namespace=client.temporal.namespace, workflow_execution=execution
        )
        try:
            await client.temporal.workflow_service.delete_workflow_execution(request, retry=True)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:  # a list may still have it
                raise
    # One that continued as new is several executions.
    return len({each.id for each in memories}), len({each.id for each in ended})

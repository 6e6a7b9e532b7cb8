"""The memories and runs of a person, and their deletion.

Temporal's lists find runs by the search attribute of their principal, and memories by their ids: no
worker is needed, and no key, since neither reads content. A memory's id ends with its principal,
and Temporal searches for beginnings alone: every memory of the namespace is listed. The lists can
lag behind by a moment.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.command_errors import wrong_command
from holdfast.client.run_lists import MAX_FILTER_CHARS, RUN_TYPES, RunFilter, RunListing, list_runs
from holdfast.runtime.text_safety import clean
from holdfast.schemas import names


@dataclass(frozen=True)
class PersonalData:
    """The executions of a person: one that continued as new is several, each with a history."""

    memories: list[RunListing]
    open_runs: list[RunListing]
    ended_runs: list[RunListing]


async def find_personal_data(client: Client, principal: str) -> PersonalData:
    """Find the memories and runs of a principal.

    Raises:
        CommandError: Temporal does not answer, or cannot search for this principal.
    """
    is_unclear = principal != clean(principal).strip("'") or not {*principal}.isdisjoint('"\\')
    if is_unclear or len(principal) > MAX_FILTER_CHARS:
        todo = "delete its runs and memories with `temporal workflow delete`"
        raise wrong_command(f"Temporal cannot search for the principal {clean(principal)!r}", todo)
    of_principal = RUN_TYPES + RunFilter(principal=principal).terms()
    # Before the memories: a run that ends meanwhile has written to its own before they are listed.
    open_runs = await list_runs(client, f'{of_principal} AND ExecutionStatus = "Running"', None)
    memories = await list_runs(client, f'WorkflowType = "{names.MEMORY_WORKFLOW}"', None)
    return PersonalData(
        [each for each in memories if names.is_memory_of(each.id, principal)],
        open_runs,
        await list_runs(client, f'{of_principal} AND ExecutionStatus != "Running"', None),
    )


async def delete_executions(client: Client, executions: Iterable[RunListing]) -> None:
    """Delete executions with their histories; an open one is terminated first."""
    for each in executions:
        execution = WorkflowExecution(workflow_id=each.id, run_id=each.execution)
        request = DeleteWorkflowExecutionRequest(
            namespace=client.namespace, workflow_execution=execution
        )
        try:
            await client.workflow_service.delete_workflow_execution(request, retry=True)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:  # a list may still have it
                raise

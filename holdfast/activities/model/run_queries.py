"""Queries of workflows, such as for a page of a run's log. They do not enter history."""

import asyncio
from datetime import timedelta
from typing import Any

from pydantic import ValidationError
from temporalio.api.common.v1 import Payloads, WorkflowExecution
from temporalio.api.enums.v1 import QueryRejectCondition
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.workflowservice.v1 import QueryWorkflowRequest
from temporalio.client import Client
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from holdfast.activities.model.conversation_cache import RunKey
from holdfast.activities.model.conversation_reader import RunNotOpen, RunUnresponsive
from holdfast.schemas.internal.model_request import ConversationPage, ConversationPageRequest
from holdfast.schemas.names import AHEAD_MESSAGE, REQUEST

# The timeout of each query, and the pause behind it. The server buffers very few queries while a
# workflow task runs, and rejects more. A worker that evicts a run from its cache loses a query that
# arrives at that moment: the first has a short timeout.
TRIES_SECONDS = (
    (2, 0.0),
    (4, 0.02),
    (8, 0.05),
    (20, 0.1),
    (20, 0.2),
    (20, 0.5),
    (20, 1.0),
    (20, 2.0),
)

_OPEN = QueryRejectCondition.QUERY_REJECT_CONDITION_NOT_OPEN
_ANY = QueryRejectCondition.QUERY_REJECT_CONDITION_NONE
_FINAL_STATUSES = (
    RPCStatusCode.INVALID_ARGUMENT,  # the run's own answer: its query failed
    RPCStatusCode.UNAUTHENTICATED,
    RPCStatusCode.PERMISSION_DENIED,
    RPCStatusCode.UNIMPLEMENTED,
)


class RunQueries:
    """Queries workflows through a Temporal client.

    The client's own retries are off: after a rejected query they would wait for a second.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def query(
        self,
        execution: WorkflowExecution,
        query: str,
        argument: Any,
        *,
        may_be_closed: bool = False,
    ) -> Any:
        """Return the answer of a workflow; without a run id, of the newest of its id.

        Raises:
            RunNotOpen: it does not exist, or is closed and may not be.
            RunUnresponsive: it did not answer several queries.
        """
        context = WorkflowSerializationContext(self._client.namespace, execution.workflow_id)
        converter = self._client.data_converter.with_context(context)
        request = QueryWorkflowRequest(
            namespace=self._client.namespace,
            execution=execution,
            query_reject_condition=_ANY if may_be_closed else _OPEN,
            query=WorkflowQuery(
                query_type=query, query_args=Payloads(payloads=await converter.encode([argument]))
            ),
        )
        refusal = ""
        for timeout_seconds, pause_seconds in TRIES_SECONDS:
            try:
                response = await self._client.workflow_service.query_workflow(
                    request, retry=False, timeout=timedelta(seconds=timeout_seconds)
                )
            except RPCError as error:
                refusal = f"{error.status.name}: {error.message}"
                if error.status == RPCStatusCode.NOT_FOUND:
                    raise RunNotOpen("the run no longer exists") from None
                if error.status in _FINAL_STATUSES and AHEAD_MESSAGE not in error.message:
                    break
                await asyncio.sleep(pause_seconds)
                continue
            if response.HasField("query_rejected"):
                raise RunNotOpen("the run has ended")
            values = await converter.decode(response.query_result.payloads)
            return values[0] if values else None
        raise RunUnresponsive(refusal)

    async def page(self, run: RunKey, want: ConversationPageRequest) -> ConversationPage:
        """Return the page `want` of a run; raises as `query` does."""
        execution = WorkflowExecution(workflow_id=run.workflow_id, run_id=run.run_id)
        answer = await self.query(execution, REQUEST, want.to_json())
        try:
            return ConversationPage.read(answer)
        except ValidationError:
            raise RunUnresponsive("its answer is no page of a log") from None

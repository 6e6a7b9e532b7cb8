"""Write the current details of a run when Temporal's UI reads them.

The SDK stores current details as a text that has to be ready at all times and is rarely read. This
interceptor writes the text during the query, so that a run without readers spends nothing.
"""

from typing import Any

from temporalio import workflow
from temporalio.worker import (
    HandleQueryInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

# The SDK's own query, with which the UI reads current details.
_METADATA = "__temporal_workflow_metadata"


class DetailsInterceptor(Interceptor):
    """Writes the details of the worker's runs on demand."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """Return the interceptor of each workflow; the SDK calls this."""
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    async def handle_query(self, input: HandleQueryInput) -> Any:
        answer = await super().handle_query(input)
        if input.query == _METADATA:
            answer.current_details = workflow.instance().details()
        return answer

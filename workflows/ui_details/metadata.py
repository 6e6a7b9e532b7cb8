"""What Temporal's UI is told of a run when somebody opens it.

The SDK keeps a run's current details as a text, which has to be ready at all times, and is read
hardly ever. Here the text is written when it is asked for: while nobody looks, it costs nothing.
"""

from typing import Any

from temporalio import workflow
from temporalio.worker import (
    HandleQueryInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

# The SDK's own query, by which the UI asks for current details.
_METADATA = "__temporal_workflow_metadata"


class DetailsInterceptor(Interceptor):
    """Has the runs of a worker write their details when they are asked for."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """What stands around each workflow; the SDK calls this."""
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    async def handle_query(self, input: HandleQueryInput) -> Any:
        answer = await super().handle_query(input)
        if input.query == _METADATA:
            answer.current_details = workflow.instance().details()
        return answer

"""Set a heartbeat timeout on the activities that this worker executes.

The worker sends their heartbeats (`activities/interceptors/auto_heartbeat.py`), so a dead worker is
noticed soon however long an activity takes. An activity with a heartbeat timeout of its own keeps
it, and gets a header so that no worker sends heartbeats for it.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.worker import (
    Interceptor,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names


class HeartbeatPolicyInterceptor(Interceptor):
    """Sets the heartbeat timeout of those activities of workflows that the worker executes."""

    def __init__(self, activities: Collection[str], timeout: timedelta) -> None:
        self._activities, self._timeout = activities, timeout

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """Return the interceptor of each workflow; the SDK calls this."""
        activities, timeout = self._activities, self._timeout

        class Outbound(WorkflowOutboundInterceptor):
            def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
                is_here = input.task_queue in (None, workflow.info().task_queue)
                longest = input.start_to_close_timeout
                if not is_here or input.activity not in activities:
                    pass
                elif input.heartbeat_timeout is not None:
                    mark = workflow.payload_converter().to_payload(None)
                    input.headers = {**input.headers, names.BEATS_ITSELF: mark}
                elif longest is None or longest > timeout:
                    input.heartbeat_timeout = timeout
                return super().start_activity(input)

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(Outbound(outbound))

        return Inbound

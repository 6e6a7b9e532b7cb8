"""Set a heartbeat timeout on the activities that this worker executes.

The worker sends their heartbeats (`activities/interceptors/auto_heartbeat.py`), so a dead worker is
noticed soon however long an activity takes. An activity with a heartbeat timeout of its own keeps
it, and gets a header so that no worker sends heartbeats for it.
"""

from collections.abc import Collection
from dataclasses import dataclass
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


@dataclass(frozen=True)
class HeartbeatPolicy:
    """The activities of the worker, and their heartbeat timeout."""

    activities: Collection[str]
    timeout: timedelta

    def apply(self, activity: StartActivityInput) -> None:
        """Set the timeout of an activity that is about to be scheduled."""
        elsewhere = activity.task_queue not in (None, workflow.info().task_queue)
        if elsewhere or activity.activity not in self.activities:
            return
        if activity.heartbeat_timeout is not None:
            mark = workflow.payload_converter().to_payload(None)
            activity.headers = {**activity.headers, names.BEATS_ITSELF: mark}
        elif (
            activity.start_to_close_timeout is None
            or activity.start_to_close_timeout > self.timeout
        ):
            activity.heartbeat_timeout = self.timeout


class HeartbeatPolicyInterceptor(Interceptor):
    """Applies the policy to the activities of the worker's workflows."""

    def __init__(self, carried: Collection[str], timeout: timedelta) -> None:
        self._watch = HeartbeatPolicy(carried, timeout)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """Return the interceptor of each workflow; the SDK calls this."""
        watch = self._watch

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(_Outbound(outbound, watch))

        return Inbound


class _Outbound(WorkflowOutboundInterceptor):
    def __init__(self, inner: WorkflowOutboundInterceptor, watch: HeartbeatPolicy) -> None:
        super().__init__(inner)
        self._watch = watch

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        self._watch.apply(input)
        return super().start_activity(input)

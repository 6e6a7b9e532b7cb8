"""Which activities are watched: what this worker carries out gets a heartbeat timeout.

The worker beats for them (`activities/pulse.py`), so whoever began one and died is noticed soon,
however long it may take. What has a heartbeat timeout of its own keeps it, and is marked: no worker
is to beat in its place. This is no decision of a run: it is how this worker has activities run.
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
class Watch:
    """The activities that the worker carries out and beats for, and for how long it may not."""

    carried: Collection[str]
    timeout: timedelta

    def over(self, begun: StartActivityInput) -> None:
        """Watch over an activity that is about to be scheduled."""
        elsewhere = begun.task_queue not in (None, workflow.info().task_queue)
        if elsewhere or begun.activity not in self.carried:
            return
        if begun.heartbeat_timeout is not None:
            mark = workflow.payload_converter().to_payload(None)
            begun.headers = {**begun.headers, names.BEATS_ITSELF: mark}
        elif begun.start_to_close_timeout is None or begun.start_to_close_timeout > self.timeout:
            begun.heartbeat_timeout = self.timeout


class HeartbeatPolicyInterceptor(Interceptor):
    """Has the activities of the worker's workflows watched."""

    def __init__(self, carried: Collection[str], timeout: timedelta) -> None:
        self._watch = Watch(carried, timeout)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """What stands around each workflow; the SDK calls this."""
        watch = self._watch

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(_Outbound(outbound, watch))

        return Inbound


class _Outbound(WorkflowOutboundInterceptor):
    def __init__(self, inner: WorkflowOutboundInterceptor, watch: Watch) -> None:
        super().__init__(inner)
        self._watch = watch

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        self._watch.over(input)
        return super().start_activity(input)

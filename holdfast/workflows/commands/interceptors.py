"""Set headers and heartbeat timeouts on what a run starts, record its spans, and show its page.

A workflow creates no span: another process may replay it tomorrow. It passes on the header of
Temporal's own tracing, and a local activity records the spans that have ended. Nothing that a run
does depends on either.

The worker sends its activities' heartbeats (`activities/interceptors/auto_heartbeat.py`), so a dead
worker is noticed soon however long an activity takes. An activity with a heartbeat timeout of its
own keeps it, and gets a header so that no worker sends heartbeats for it. The activity of a call
that may run once gets a header too (`activities/interceptors/once.py`).
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError
from temporalio.worker import (
    ContinueAsNewInput,
    HandleQueryInput,
    Interceptor,
    StartActivityInput,
    StartChildWorkflowInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.base import rfc3339
    from holdfast.schemas.internal import tracing

from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.log.spans import Spans, SpansProgress, Subject
from holdfast.workflows.engine.run import AgentRun
from holdfast.workflows.permits import Started, sign

# The activity only fills a queue of the worker. The timeout is shorter than the time until the SDK
# extends the workflow task, so that people's input is not delayed.
RECORD_TIMEOUT = timedelta(seconds=5)
MAX_RECORD_ATTEMPTS = 3
MAX_SPANS_AT_ONCE = 500

# The SDK's own query, with which Temporal's UI reads current details.
_METADATA = "__temporal_workflow_metadata"


class Trace:
    """The position of one run in a trace."""

    def __init__(self) -> None:
        info = workflow.info()
        self._origin = tracing.TraceOrigin(
            info.namespace, info.workflow_id, info.first_execution_run_id
        )
        # The position in the trace that the starter of the run has sent.
        self._starter: tracing.Place | None = None
        if tracing.HEADER in info.headers:
            with suppress(Exception):  # another tracer's format
                header = workflow.payload_converter().from_payload(info.headers[tracing.HEADER])
                self._starter = tracing.read_header(header)
        self._tracing: tracing.Tracing | None = None
        self._endpoint: str | None = None
        self._spans: Spans | None = None

    def begin(
        self, work: ExecutionBase, facts: WorkerFacts, previous: SpansProgress | None
    ) -> None:
        """Start recording; `previous` is the state of the chain's previous run."""
        self._tracing = facts.tracing
        if self._tracing is None:
            return
        model = work.agent.model if isinstance(work, AgentRun) else None
        self._endpoint = None if model is None else model.endpoint
        subject = Subject(
            origin=self._origin,
            parent_id=None if self._starter is None else self._starter.span_id,
            agent=work.agent_name,
            model=None if model is None else model.name,
            content=self._tracing.content,
        )
        began = rfc3339(workflow.info().workflow_start_time)
        self._spans = Spans(subject, previous or SpansProgress(began=began))

    @property
    def progress(self) -> SpansProgress | None:
        """Return the recorded part of the run, for the next run of the chain."""
        return None if self._spans is None else self._spans.progress

    def call_ended(self, call_id: str) -> None:
        if self._spans is not None:
            self._spans.ended[call_id] = rfc3339(workflow.now())

    async def record_spans(self, work: ExecutionBase) -> None:
        """Record the spans that have ended since the last call."""
        if self._spans is None or self._tracing is None:
            return
        ready = self._spans.take(work.state.log, work.get_spent)
        for first in range(0, len(ready), MAX_SPANS_AT_ONCE):
            batch = tracing.SpanBatch(
                trace_id=self._own().trace_id,
                flags=self._tracing.flags,
                endpoint=self._endpoint,
                spans=ready[first : first + MAX_SPANS_AT_ONCE],
            )
            recording = workflow.start_local_activity(
                names.RECORD_SPANS,
                batch.to_json(),
                schedule_to_close_timeout=RECORD_TIMEOUT,
                retry_policy=RetryPolicy(maximum_attempts=MAX_RECORD_ATTEMPTS),
                summary=f"Records {len(batch.spans)} spans of the trace",
            )
            with suppress(FailureError):
                # Also if the run is cancelled meanwhile: the batch is not recorded again.
                await asyncio.shield(recording)

    def header(self, call_id: str | None) -> Payload | None:
        """Return the header for the activity or the delegate of a call: the span of the call.

        If the run is not traced, or not yet, and for the next run of the chain (without a call), it
        is the run's own header.
        """
        place = self._starter
        if call_id is not None and self._tracing is not None:
            span_id, flags = self._origin.span_id(call_id), self._tracing.flags
            place = replace(self._own(), span_id=span_id, flags=flags)
        return None if place is None else workflow.payload_converter().to_payload(place.header())

    def _own(self) -> tracing.Place:
        return self._starter or self._origin.place()


class _Outbound(WorkflowOutboundInterceptor):
    def __init__(
        self, outbound: WorkflowOutboundInterceptor, activities: Collection[str], timeout: timedelta
    ) -> None:
        super().__init__(outbound)
        self._activities, self._timeout = activities, timeout

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        is_here = input.task_queue in (None, workflow.info().task_queue)
        is_own = is_here and input.activity in self._activities
        longest = input.start_to_close_timeout
        if is_own and input.heartbeat_timeout is not None:
            mark = workflow.payload_converter().to_payload(None)
            input.headers = {**input.headers, names.BEATS_ITSELF: mark}
        elif is_own and (longest is None or longest > self._timeout):
            input.heartbeat_timeout = self._timeout
        _add_header(input, input.activity_id or "")
        runs_once = getattr(workflow.instance(), "runs_once", None)
        if runs_once is not None and runs_once(input.activity_id):
            # Without metadata, which would take as many bytes again.
            mark = Payload(data=workflow.info().run_id.encode())
            input.headers = {**input.headers, names.ONCE: mark}
        if input.activity_id is not None and input.activity not in names.EXEMPT_ACTIVITIES:
            sign(input, "activity", input.activity_id, input.activity)
        return super().start_activity(input)

    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:
        _add_header(input, input.activity_id or "")
        return super().start_local_activity(input)

    async def start_child_workflow(
        self, input: StartChildWorkflowInput
    ) -> workflow.ChildWorkflowHandle[Any, Any]:
        _add_header(
            input, input.id.removeprefix(names.delegate_id(workflow.info().workflow_id, ""))
        )
        sign(input, "delegate", input.id, input.workflow)
        return await super().start_child_workflow(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        _add_header(input, None)
        sign(input, "continued", "", workflow.info().workflow_type)
        super().continue_as_new(input)


def _add_header(input: Started | StartLocalActivityInput, id: str | None) -> None:
    """Add the header for the call of an activity or a delegate, or for the next run of the chain.

    A memory has no trace. An `isinstance` check of it fails: the sandbox has a class of its own.
    """
    trace: Trace | None = getattr(workflow.instance(), "trace", None)
    if trace is not None:
        header = trace.header(None if id is None else names.call_of(id))
        if header is not None:
            input.headers = {**input.headers, tracing.HEADER: header}


class CommandInterceptor(Interceptor):
    """Sets headers, and heartbeat timeouts of the activities that the worker executes.

    It also writes the page of a run during the query for it, so that an unread page costs nothing:
    the SDK stores current details as a text that has to be ready at all times.
    `externs` are functions of the worker that its workflows call.
    """

    def __init__(
        self,
        activities: Collection[str],
        timeout: timedelta,
        externs: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self._activities, self._timeout, self._externs = activities, timeout, externs or {}

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """Return the interceptor of each workflow; the SDK calls this."""
        activities, timeout = self._activities, self._timeout
        input.unsafe_extern_functions.update(self._externs)

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(_Outbound(outbound, activities, timeout))

            async def handle_query(self, input: HandleQueryInput) -> Any:
                answer = await super().handle_query(input)
                if input.query == _METADATA:
                    answer.current_details = workflow.instance().details()
                return answer

        return Inbound

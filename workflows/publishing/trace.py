"""A run's place in a trace: where it comes from, what it passes on, and how its spans are told.

A workflow makes no span: it may be replayed tomorrow, by another process. It passes on where those
hang that others make (the header of Temporal's own tracing, in every language), and has an activity
of its worker write down what is over. Nothing that a run does depends on either.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError
from temporalio.worker import (
    ContinueAsNewInput,
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
    from holdfast.schemas.internal.tracing import (
        HEADER,
        Place,
        SpanBatch,
        TraceOrigin,
        Tracing,
        read_header,
    )

from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.log.spans import Spans, SpansProgress, Subject
from holdfast.workflows.engine.run import Run

# They are put in a queue of the worker. With less time than it takes until the server is told that
# a workflow task goes on: nothing that people say meanwhile is to come too late for the run.
RECORD_TIMEOUT = timedelta(seconds=5)
MAX_RECORD_ATTEMPTS = 3
MAX_SPANS_AT_ONCE = 500

Headers = Mapping[str, Payload]
InputT = TypeVar("InputT", StartActivityInput, StartLocalActivityInput, StartChildWorkflowInput)


class Trace:
    """One run's place in a trace."""

    def __init__(self) -> None:
        info = workflow.info()
        self._origin = TraceOrigin(info.namespace, info.workflow_id, info.first_execution_run_id)
        self._starter = _read(info.headers)
        self._wanted: Tracing | None = None
        self._endpoint: str | None = None
        self._spans: Spans | None = None

    def begin(self, work: ExecutionBase, facts: WorkerFacts, left: SpansProgress | None) -> None:
        """The run has begun, or goes on as a new one."""
        self._wanted = facts.tracing
        if self._wanted is None:
            return
        model = work.agent.model if isinstance(work, Run) else None
        self._endpoint = None if model is None else model.endpoint
        subject = Subject(
            origin=self._origin,
            parent_id=None if self._starter is None else self._starter.span_id,
            agent=work.agent_name,
            model=None if model is None else model.name,
            content=self._wanted.content,
        )
        began = rfc3339(workflow.info().workflow_start_time)
        self._spans = Spans(subject, left or SpansProgress(began=began))

    @property
    def progress(self) -> SpansProgress | None:
        """What the next run of the chain goes on from."""
        return None if self._spans is None else self._spans.progress

    def ended(self, call_id: str) -> None:
        """A call has ended just now."""
        if self._spans is not None:
            self._spans.ended[call_id] = rfc3339(workflow.now())

    async def tell(self, work: ExecutionBase) -> None:
        """Have what is over since the last time written down."""
        if self._spans is None or self._wanted is None:
            return
        ready = self._spans.take(work.state.log, work.get_spent)
        for first in range(0, len(ready), MAX_SPANS_AT_ONCE):
            told = SpanBatch(
                trace_id=self._own().trace_id,
                flags=self._wanted.flags,
                endpoint=self._endpoint,
                spans=ready[first : first + MAX_SPANS_AT_ONCE],
            )
            with suppress(FailureError):
                await _record(told)

    def header(self, call_id: str) -> Payload | None:
        """What an activity or a delegate is sent: where what is made in it hangs, or what the run
        itself was sent, where it is not traced, or that is not known yet."""
        if self._wanted is not None:
            place = self._own().at(self._origin.span_id(call_id), self._wanted.flags)
        elif self._starter is not None:
            place = self._starter
        else:
            return None
        return workflow.payload_converter().to_payload(place.header())

    def to_next(self) -> Payload | None:
        """What the next run of the chain is sent: what this one was."""
        if self._starter is None:
            return None
        return workflow.payload_converter().to_payload(self._starter.header())

    def _own(self) -> Place:
        return self._starter or self._origin.place()


def _record(told: SpanBatch) -> asyncio.Future[Any]:
    """Written down also where the run is cancelled meanwhile: it is not told a second time."""
    return asyncio.shield(
        workflow.start_local_activity(
            names.RECORD_SPANS,
            told.to_json(),
            schedule_to_close_timeout=RECORD_TIMEOUT,
            retry_policy=RetryPolicy(maximum_attempts=MAX_RECORD_ATTEMPTS),
            summary=f"Tells {len(told.spans)} spans of the trace",
        )
    )


def _read(headers: Headers) -> Place | None:
    """The place that whoever started the run has sent along."""
    if HEADER not in headers:
        return None
    try:
        return read_header(workflow.payload_converter().from_payload(headers[HEADER]))
    except Exception:
        return None  # it is somebody else's, in another form


class TracingInterceptor(Interceptor):
    """Passes the place of each workflow's trace on to what it starts."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """What stands around each workflow; the SDK calls this."""
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))


class _Outbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        return super().start_activity(_sent(input, input.activity_id or ""))

    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:
        return super().start_local_activity(_sent(input, input.activity_id or ""))

    async def start_child_workflow(
        self, input: StartChildWorkflowInput
    ) -> workflow.ChildWorkflowHandle[Any, Any]:
        call_id = input.id.removeprefix(names.delegate_id(workflow.info().workflow_id, ""))
        return await super().start_child_workflow(_sent(input, call_id))

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        trace = _trace()
        sent = None if trace is None else trace.to_next()
        if sent is not None:
            input.headers = {**input.headers, HEADER: sent}
        super().continue_as_new(input)


def _sent(input: InputT, id: str) -> InputT:
    trace = _trace()
    sent = None if trace is None else trace.header(names.call_of(id))
    if sent is not None:
        input.headers = {**input.headers, HEADER: sent}
    return input


def _trace() -> Trace | None:
    """That of the workflow that runs: a memory has none. Its class is read in the sandbox, and is
    another than here."""
    found: Trace | None = getattr(workflow.instance(), "trace", None)
    return found

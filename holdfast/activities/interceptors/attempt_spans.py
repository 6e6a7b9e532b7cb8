"""A span for each attempt of this worker's activities, under the span of its call or run.

Its name and first attributes are those of Temporal's own tracing in every language.
"""

import asyncio
from contextvars import ContextVar
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode
from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.runtime.telemetry.trace_context import (
    activity_input,
    activity_span,
    context_below,
    place_from_headers,
)
from holdfast.schemas import names
from holdfast.schemas.internal.tracing import SAMPLED, Place, TraceOrigin, Tracing

# Activities with spans of their own, or outside a run.
_WITHOUT_SPAN = (names.GENERATE, names.RECORD_SPANS, names.RESOLVE_AGENT, names.RESOLVE_TOOL)

_place: ContextVar[Place | None] = ContextVar("holdfast-place", default=None)


def current_place() -> Place | None:
    """Return the running activity's place in a trace; None if it is not traced."""
    place = _place.get()
    return place if place is not None and place.flags == SAMPLED else None


def current_tracing(telemetry: Telemetry) -> Tracing:
    """Return how the run of the running activity is traced.

    The caller of the run decides, or else the id of its trace.
    """
    info, place = activity.info(), _place.get()
    run = TraceOrigin(
        info.workflow_namespace or "", info.workflow_id or "", info.workflow_run_id or ""
    )
    flags = telemetry.flags(run.trace_id(), place)
    return Tracing(flags=flags, content=telemetry.content)


class AttemptSpans(ActivityInboundInterceptor):
    """Records the attempts of a worker's activities, and sets the place of each."""

    def __init__(self, inner: ActivityInboundInterceptor, telemetry: Telemetry | None) -> None:
        super().__init__(inner)
        self._telemetry = telemetry

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        """Execute the activity in its span; the SDK calls this."""
        info = activity.info()
        if info.activity_type == names.GENERATE and isinstance(input.args[0], dict):
            activity_input.set(input.args[0])
        place = place_from_headers(input.headers) if self._telemetry is not None else None
        _place.set(place)
        if self._telemetry is None or place is None:
            return await super().execute_activity(input)
        if info.activity_type in _WITHOUT_SPAN or place.flags != SAMPLED:
            above = trace.get_current_span(context_below(place))
            activity_span.set(above)
            with trace.use_span(above):
                return await super().execute_activity(input)
        attributes = {
            "temporalWorkflowID": info.workflow_id or "",
            "temporalRunID": info.workflow_run_id or "",
            "temporalActivityID": info.activity_id,
            "holdfast.attempt": info.attempt,
        }
        name = f"RunActivity:{info.activity_type}"
        span = self._telemetry.start_span(name, place, attributes)
        activity_span.set(span)
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                return await super().execute_activity(input)
        except BaseException as error:
            kind = type(error).__name__
            if isinstance(error, CancelledError | asyncio.CancelledError):
                kind = "cancelled"
            elif isinstance(error, ApplicationError) and error.type:
                kind = error.type
            span.set_attribute("error.type", kind)
            span.set_status(Status(StatusCode.ERROR, kind))
            raise
        finally:
            span.end()

"""Each attempt at an activity of this worker, as a span of the name that Temporal's own tracing
gives it in every language: it hangs under the call, or the run, that it is made for."""

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode
from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from holdfast.runtime.telemetry.span_ids import context_below, place_from_headers
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.runtime.telemetry.trace_context import enter_activity, enter_span
from holdfast.schemas import names
from holdfast.schemas.internal.tracing import SAMPLED, Place, TraceOrigin, Tracing

# What tells of itself in a better way, or is none of a run's doing.
_UNTOLD = (names.GENERATE, names.RECORD_SPANS, names.RESOLVE_AGENT, names.RESOLVE_TOOL)

_place: ContextVar[Place | None] = ContextVar("holdfast-place", default=None)


def current_place() -> Place | None:
    """Where the running activity hangs in a trace; None where that is not traced."""
    place = _place.get()
    return place if place is not None and place.flags == SAMPLED else None


def current_tracing(telemetry: Telemetry) -> Tracing:
    """How the run is to be traced that has the running activity resolve what it is asked for: as
    whoever started it says, or else by what its trace will be."""
    info, place = activity.info(), _place.get()
    run = TraceOrigin(
        info.workflow_namespace or "", info.workflow_id or "", info.workflow_run_id or ""
    )
    flags = telemetry.flags(run.trace_id(), place)
    return Tracing(flags=flags, content=telemetry.content)


class AttemptSpanInterceptor(Interceptor):
    """Tells of the attempts of a worker, and lets each know where it is."""

    def __init__(self, telemetry: Telemetry | None) -> None:
        self._telemetry = telemetry

    def intercept_activity(self, inner: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap one execution; the SDK calls this."""
        return _Told(inner, self._telemetry)


class _Told(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, telemetry: Telemetry | None) -> None:
        super().__init__(inner)
        self._telemetry = telemetry

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        if info.activity_type == names.GENERATE and isinstance(input.args[0], dict):
            enter_activity(input.args[0])
        place = place_from_headers(input.headers) if self._telemetry is not None else None
        _place.set(place)
        if self._telemetry is None or place is None:
            return await super().execute_activity(input)
        if info.activity_type in _UNTOLD or place.flags != SAMPLED:
            above = trace.get_current_span(context_below(place))
            enter_span(above)
            with trace.use_span(above):
                return await super().execute_activity(input)
        return await self._told(input, place, self._telemetry)

    async def _told(self, input: ExecuteActivityInput, place: Place, telemetry: Telemetry) -> Any:
        span = telemetry.start_span(f"RunActivity:{activity.info().activity_type}", place, _about())
        enter_span(span)
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                return await super().execute_activity(input)
        except BaseException as error:
            kind = _kind_of(error)
            span.set_attribute("error.type", kind)
            span.set_status(Status(StatusCode.ERROR, kind))
            raise
        finally:
            span.end()


def _about() -> Mapping[str, Any]:
    """What Temporal's own tracing says of an activity, and which attempt it is."""
    info = activity.info()
    return {
        "temporalWorkflowID": info.workflow_id or "",
        "temporalRunID": info.workflow_run_id or "",
        "temporalActivityID": info.activity_id,
        "holdfast.attempt": info.attempt,
    }


def _kind_of(error: BaseException) -> str:
    match error:
        case ApplicationError(type=str(kind)) if kind:
            return kind
        case CancelledError() | asyncio.CancelledError():
            return "cancelled"
        case _:
            return type(error).__name__

"""The place of this thread's work: its run, turn and call, and its span in a trace.

Every log record has this place, so that a log line leads to its run, and a run to its log lines.
The ids of some spans are known in advance, so that other processes can name them as parents.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadConverter

from holdfast.schemas import names
from holdfast.schemas.internal.tracing import HEADER, Place, read_header

activity_input: ContextVar[dict[str, Any]] = ContextVar("holdfast-told")
"""The input of the running activity, where it names the turn and the call."""
activity_span: ContextVar[trace.Span] = ContextVar("holdfast-span")
"""The span of the running activity, for its log records too."""


def current_place() -> dict[str, str]:
    """Return the run, turn, call and span of this thread; empty outside of a run."""
    found: dict[str, Any] = {}
    if activity.in_activity():
        info = activity.info()
        place = activity_input.get({})
        call = place.get("call") or names.call_of(info.activity_id)
        turn = place.get("turn") or names.turn_of(call)
        found = {"run": info.workflow_id, "turn": turn, "call": call}
    elif workflow.in_workflow():
        turn = getattr(workflow.instance(), "turn", 0)
        found = {"run": workflow.info().workflow_id, "turn": turn}
    current = trace.get_current_span()
    context = current.get_span_context()
    if not context.is_valid:
        context = activity_span.get(current).get_span_context()
    if context.is_valid:
        found["trace_id"] = trace.format_trace_id(context.trace_id)
        found["span_id"] = trace.format_span_id(context.span_id)
    return {name: str(value) for name, value in found.items() if value}


class TraceContextFilter(logging.Filter):
    """Add its place to each log record: `place` as text, `at` by name."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the place to a record; logging calls this."""
        record.at = at = current_place()
        text = " ".join(f"{name}={value}" for name, value in at.items())
        record.place = f" [{text}]" if text else ""
        return True


# The ids of the next trace and span, where they are known.
_known: ContextVar[tuple[int, int] | None] = ContextVar("holdfast-known-ids", default=None)


class PresetIdGenerator(RandomIdGenerator):
    """Generate random ids, except where `preset_ids` has set them."""

    def generate_trace_id(self) -> int:
        """Return the trace id of a span without a parent; the SDK calls this."""
        known = _known.get()
        return super().generate_trace_id() if known is None else known[0]

    def generate_span_id(self) -> int:
        """Return the id of a span; the SDK calls this."""
        known = _known.get()
        return super().generate_span_id() if known is None else known[1]

    def is_trace_id_random(self) -> bool:
        """Return False for an id derived from a digest."""
        return _known.get() is None


@contextmanager
def preset_ids(trace_id: str, span_id: str) -> Iterator[None]:
    """Give these ids to the span that is made in this context."""
    token = _known.set((int(trace_id, 16), int(span_id, 16)))
    try:
        yield
    finally:
        _known.reset(token)


def context_below(place: Place) -> Context:
    """Return the context for spans under a span of another process."""
    return TraceContextTextMapPropagator().extract(place.header())


def place_from_headers(headers: Mapping[str, Payload]) -> Place | None:
    """Return the place in a trace that an activity's headers name, or None."""
    if HEADER not in headers:
        return None
    try:
        return read_header(PayloadConverter.default.from_payload(headers[HEADER]))
    except Exception:
        return None  # in another form: it is not ours

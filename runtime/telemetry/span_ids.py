"""Spans whose ids are known in advance, so that other processes can name them as parents."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    set_span_in_context,
)
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadConverter

from holdfast.schemas.internal.tracing import HEADER, Place, read_header

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
    state = TraceState.from_header([place.more.get("tracestate", "")])
    context = SpanContext(
        trace_id=int(place.trace_id, 16),
        span_id=int(place.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(place.flags, 16)),
        trace_state=state,
    )
    return set_span_in_context(NonRecordingSpan(context), Context())


def place_from_headers(headers: Mapping[str, Payload]) -> Place | None:
    """Return the place in a trace that an activity's headers name, or None."""
    if HEADER not in headers:
        return None
    try:
        return read_header(PayloadConverter.default.from_payload(headers[HEADER]))
    except Exception:
        return None  # in another form: it is not ours

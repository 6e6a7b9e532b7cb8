"""The spans, metrics and log records that a process sends to a collector, and their shutdown.

Signals go into bounded queues, which threads of their own send: a collector that is slow or away
delays nothing. A signal that finds its queue full is dropped.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from time import monotonic
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from holdfast.runtime.secrets import Secrets
from holdfast.runtime.telemetry.metrics import Metrics
from holdfast.runtime.telemetry.trace_context import PresetIdGenerator, context_below, preset_ids
from holdfast.schemas.internal.tracing import SAMPLED, UNSAMPLED, Place, SpanBatch, SpanRecord

SCOPE: Final = "holdfast"
# The time limit for sending the queues when a process stops.
FLUSH_SECONDS: Final = 5.0


class Telemetry:
    """The traces and metrics of one process.

    Args:
        processor: receives the spans; None for no spans.
        reader: reads the metrics; None for no metrics.
        content: whether spans include arguments, results and messages.
        secrets: the values to remove from all signals.
    """

    def __init__(
        self,
        processor: SpanProcessor | None = None,
        reader: MetricReader | None = None,
        *,
        content: bool = False,
        secrets: Secrets | None = None,
        resource: Resource | None = None,
    ) -> None:
        self.content = content
        self._secrets = secrets or Secrets()
        self._about = about = resource or Resource.create()
        self.spans = TracerProvider(
            resource=about, id_generator=PresetIdGenerator(), shutdown_on_exit=False
        )
        if processor is not None:
            self.spans.add_span_processor(processor)
        readers = [] if reader is None else [reader]
        provider = MeterProvider(readers, about, shutdown_on_exit=False)
        self._traced = processor is not None
        self._tracer = self.spans.get_tracer(SCOPE)
        self.meter: Meter = provider.get_meter(SCOPE)
        self.metrics = Metrics(self.meter)
        self._stops: list[Callable[[], object]] = [self.spans.shutdown, provider.shutdown]

    @property
    def identity(self) -> dict[str, str]:
        """Return the attributes that identify this process."""
        known = ("service.namespace", "service.name", "service.instance.id")
        attributes = self._about.attributes
        return {name: str(attributes[name]) for name in known if name in attributes}

    def flags(self, trace_id: str, place: Place | None) -> str:
        """Return the sampler's decision for a run's own trace or for its starter's."""
        if not self._traced:
            return UNSAMPLED
        parent = None if place is None else context_below(place)
        own = int(trace_id if place is None else place.trace_id, 16)
        result = self.spans.sampler.should_sample(parent, own, "", SpanKind.INTERNAL)
        return SAMPLED if result.decision is Decision.RECORD_AND_SAMPLE else UNSAMPLED

    def start_span(
        self,
        name: str,
        place: Place | None,
        attributes: Mapping[str, Any],
        kind: SpanKind = SpanKind.INTERNAL,
        start: int | None = None,
    ) -> Span:
        """Start a span, now or at `start` (ns since 1970), under a place in a trace if any."""
        parent = Context() if place is None else context_below(place)
        about = self.clean(attributes)
        name = self._secrets.clean(name)
        return self._tracer.start_span(name, parent, kind, about, start_time=start)

    def record_span(self, span: SpanRecord, told: SpanBatch) -> None:
        """Record a span that has ended."""
        start, end = _nanoseconds(span.start), _nanoseconds(span.end)
        self.metrics.record_span_end(span, (end - start) / 1e9)
        if told.flags != SAMPLED:
            return
        parent = None
        if span.parent_id is not None:
            parent = Place(told.trace_id, span.parent_id, told.flags)
        with preset_ids(told.trace_id, span.span_id):
            made = self.start_span(span.name, parent, span.attributes, start=start)
        if span.error is not None:
            made.set_attribute("error.type", span.error)
            made.set_status(Status(StatusCode.ERROR, span.error))
        made.end(end)

    def clean(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._secrets.clean_value(value) for name, value in attributes.items()}

    def on_close(self, stop: Callable[[], object]) -> None:
        """Call a function when this is closed, such as the shutdown of another provider."""
        self._stops.append(stop)

    def close(self) -> None:
        """Send what is queued, within the time limit; never raises."""

        def quietly(stop: Callable[[], object]) -> None:
            with suppress(Exception):
                stop()

        stops, self._stops = self._stops, []
        threads = [threading.Thread(target=quietly, args=[stop], daemon=True) for stop in stops]
        for thread in threads:
            thread.start()
        end = monotonic() + FLUSH_SECONDS
        for thread in threads:
            thread.join(max(0.0, end - monotonic()))


def _nanoseconds(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp() * 1_000) * 1_000_000

"""The activity `record_spans`: the finished parts of a run as spans and metrics.

No process can hold a span open for days. So a run reports each part once it is over, and here it is
recorded with its own times. A run reports it again only if its worker dies at that moment: the ids
are then the same.
"""

from typing import Any

from temporalio import activity

from holdfast.activities.model.chat_telemetry import provider_name
from holdfast.catalog.endpoints import ModelEndpoints
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.schemas.internal.tracing import SpanBatch
from holdfast.schemas.names import RECORD_SPANS


class SpanRecorder:
    """Records the spans of runs; without `telemetry`, none: a run may have started with it."""

    def __init__(self, telemetry: Telemetry | None, models: ModelEndpoints) -> None:
        self._telemetry = telemetry
        self._models = models

    @activity.defn(name=RECORD_SPANS)
    async def record_spans(self, batch: dict[str, Any]) -> None:
        """Record the finished spans of a `SpanBatch`."""
        if self._telemetry is None:
            return
        spans = SpanBatch.read(batch)
        for span in spans.spans:
            if span.kind == "run" and spans.endpoint in self._models.names:
                served = self._models.find(spans.endpoint)
                span.attributes["gen_ai.provider.name"] = provider_name(served.target)
            self._telemetry.record_span(span, spans)

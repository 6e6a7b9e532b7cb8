"""The activity `record_spans`: what is over of a run, as spans and in the metrics.

A span that lasts for days cannot be held open by a process. So a run says, when a part of it is
over, what that was; here it is written down with the times that it had. A run says so once. Where
its worker dies in that very moment it may say so again: the ids are the same then.
"""

from typing import Any

from temporalio import activity

from holdfast.activities.model.chat_telemetry import provider_name
from holdfast.catalog.endpoints import ModelEndpoints
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.schemas.internal.tracing import SpanBatch
from holdfast.schemas.names import RECORD_SPANS


class SpanRecorder:
    """Writes down what runs tell; without `telemetry`, nothing: a run may have begun with it."""

    def __init__(self, telemetry: Telemetry | None, models: ModelEndpoints) -> None:
        self._telemetry = telemetry
        self._models = models

    @activity.defn(name=RECORD_SPANS)
    async def record_spans(self, told: dict[str, Any]) -> None:
        """Write down what is over.

        Args:
            told: a `schemas.internal.tracing.Told` as JSON.
        """
        if self._telemetry is None:
            return
        said = SpanBatch.read(told)
        for span in said.spans:
            if span.kind == "run" and said.endpoint in self._models.names:
                served = self._models.find(said.endpoint)
                span.attributes["gen_ai.provider.name"] = provider_name(served.target)
            self._telemetry.record_span(span, said)

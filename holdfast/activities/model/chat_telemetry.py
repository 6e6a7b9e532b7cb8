"""Spans and metrics of runs: each attempt of a request to a model, and a run's finished parts.

No process can hold a span open for days. So a run reports each part once it is over, to the
activity `record_spans`, and it is recorded with its own times. A run reports it again only if its
worker dies at that moment: the ids are then the same.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final

from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode, use_span
from temporalio import activity

from holdfast.activities.interceptors.attempt_spans import current_place
from holdfast.catalog.endpoints import ModelEndpoints
from holdfast.providers.answer.call_draft import arguments_text
from holdfast.providers.base import ProviderRefused
from holdfast.providers.transport.target import EndpointTarget
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.schemas.internal.model_request import Ask, ConversationPointer
from holdfast.schemas.internal.solution import Solution, StopReason
from holdfast.schemas.internal.tracing import SpanBatch
from holdfast.schemas.names import RECORD_SPANS

MAX_CONTENT_CHARACTERS: Final = 8_000
# The names of the OpenTelemetry conventions; other providers have their own.
_PROVIDERS = {"gemini": "gcp.gemini", "bedrock": "aws.bedrock"}
_FINISHES: dict[StopReason, str] = {
    "stop": "stop",
    "calls": "tool_call",
    "length": "length",
    "filtered": "content_filter",
}


def provider_name(target: EndpointTarget) -> str:
    provider = target.endpoint.provider
    return _PROVIDERS.get(provider, provider)


@contextmanager
def record_chat(
    telemetry: Telemetry | None,
    ask: Ask,
    target: EndpointTarget,
    pointer: ConversationPointer,
    attempt: int,
) -> Iterator["ChatRecord | None"]:
    """Record one request, from its start to its answer, with the worker's telemetry if any."""
    if telemetry is None:
        yield None
        return
    labels = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_name(target),
        "gen_ai.request.model": ask.model.name or "",
    }
    span: Span = INVALID_SPAN
    if (place := current_place()) is not None:
        attributes = {
            **labels,
            "server.address": target.host if target.endpoint.base_url else None,
            "gen_ai.request.temperature": ask.model.temperature,
            "gen_ai.request.max_tokens": ask.model.max_output_tokens,
            "gen_ai.output.type": None if ask.output is None else "json",
            "gen_ai.tool.call.id": pointer.call,
            "holdfast.turn": pointer.turn,
            "holdfast.attempt": attempt,
            "holdfast.summary": pointer.summary or None,
        }
        known = {name: value for name, value in attributes.items() if value is not None}
        name = f"chat {ask.model.name or target.name}"
        span = telemetry.start_span(name, place, known, SpanKind.CLIENT)
    is_turn = pointer.call is None and not pointer.summary
    chat = ChatRecord(telemetry, labels, span, is_turn=is_turn)
    with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield chat
        except BaseException as error:
            chat.record_failure(error)
            raise


class ChatRecord:
    """One request and its outcome."""

    def __init__(
        self, telemetry: Telemetry, labels: dict[str, str], span: Span, *, is_turn: bool
    ) -> None:
        self._telemetry = telemetry
        self._labels = labels
        self._span = span
        self._is_turn = is_turn
        self._began = monotonic()

    def record_answer(self, solution: Solution, first_output_at: float | None) -> None:
        """Record the model's answer, whose first output came then, by the monotonic clock."""
        usage, seconds = solution.usage, self._seconds
        first_seconds = None if first_output_at is None else first_output_at - self._began
        self._telemetry.metrics.record_answer(
            self._labels, usage, seconds, first_seconds, turn=self._is_turn
        )
        if not self._span.is_recording():
            return
        attributes: dict[str, Any] = {
            "gen_ai.response.model": solution.model,
            "gen_ai.response.finish_reasons": [_FINISHES[solution.stop_reason]],
            "gen_ai.response.time_to_first_chunk": first_seconds,
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.written_tokens,
            "holdfast.usage.cost": usage.cost,
        }
        if self._telemetry.content:
            parts: list[dict[str, Any]] = []
            if solution.text:
                parts.append({"type": "text", "content": solution.text[:MAX_CONTENT_CHARACTERS]})
            for call in solution.calls:
                arguments = arguments_text(call.arguments)[:MAX_CONTENT_CHARACTERS]
                parts.append({"type": "tool_call", "name": call.tool, "arguments": arguments})
            finish = _FINISHES[solution.stop_reason]
            message = {"role": "assistant", "parts": parts, "finish_reason": finish}
            attributes["gen_ai.output.messages"] = json.dumps([message], ensure_ascii=False)
        known = {name: value for name, value in attributes.items() if value is not None}
        self._span.set_attributes(self._telemetry.clean(known))

    def record_failure(self, error: BaseException) -> None:
        """Record that there is no answer."""
        kind = str(error.status) if isinstance(error, ProviderRefused) else type(error).__name__
        self._telemetry.metrics.record_failure(self._labels, self._seconds, kind)
        self._span.set_attribute("error.type", kind)
        self._span.set_status(Status(StatusCode.ERROR, kind))

    @property
    def _seconds(self) -> float:
        return monotonic() - self._began


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

"""One request to a model, as a span and in the metrics: each attempt is one of its own."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic
from typing import Any, Final

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, use_span

from holdfast.activities.interceptors.attempt_spans import current_place
from holdfast.providers.base import AnswerSink, ProviderRefused
from holdfast.providers.transport.target import EndpointTarget
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.schemas.internal.model_request import Ask, ConversationPointer
from holdfast.schemas.internal.solution import Solution, StopReason

MAX_CONTENT_CHARACTERS: Final = 8_000
# As the conventions name them; the others are of this house.
_PROVIDERS = {"gemini": "gcp.gemini"}
_FINISHES: dict[StopReason, str] = {
    "stop": "stop",
    "calls": "tool_call",
    "length": "length",
    "filtered": "content_filter",
}


def provider_name(target: EndpointTarget) -> str:
    """The name by which the conventions know who is asked at an endpoint."""
    provider = target.endpoint.provider
    return _PROVIDERS.get(provider, provider)


class ChatTelemetry:
    """Tells of the requests that a worker makes."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    @contextmanager
    def record_request(
        self, ask: Ask, target: EndpointTarget, pointer: ConversationPointer, attempt: int
    ) -> Iterator["ChatRecord"]:
        """What stands around one request, from when it is made until it is answered."""
        chat = ChatRecord(self._telemetry, ask, target, pointer, attempt)
        try:
            with chat.current():
                yield chat
        except BaseException as error:
            chat.record_failure(error)
            raise
        finally:
            chat.end()


class ChatRecord:
    """One request: what is known of it, and what comes of it."""

    def __init__(
        self,
        telemetry: Telemetry,
        ask: Ask,
        target: EndpointTarget,
        pointer: ConversationPointer,
        attempt: int,
    ) -> None:
        self._telemetry = telemetry
        self._labels = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_name(target),
            "gen_ai.request.model": ask.model.name or "",
        }
        self._turn = pointer.call is None and not pointer.summary
        self._began = monotonic()
        self.first_seconds: float | None = None
        place = current_place()
        self._span: Span | None = None
        if place is not None:
            said = self._labels | _asked(ask, target, pointer, attempt)
            name = f"chat {ask.model.name or target.name}"
            self._span = telemetry.start_span(name, place, said, SpanKind.CLIENT)

    def current(self) -> AbstractContextManager[Any]:
        """Have what is done meanwhile hang under it."""
        if self._span is None:
            return nullcontext()
        return use_span(self._span, record_exception=False, set_status_on_exception=False)

    def observe(self, sink: AnswerSink) -> AnswerSink:
        """A sink before another one, that notes when something is said first."""
        return _First(sink, self)

    def note_output(self) -> None:
        """Something was said."""
        if self.first_seconds is None:
            self.first_seconds = self._seconds

    def record_answer(self, solution: Solution) -> Solution:
        """The model has answered."""
        usage, seconds = solution.usage, self._seconds
        self._telemetry.metrics.record_answer(
            self._labels, usage, seconds, self.first_seconds, turn=self._turn
        )
        if self._span is None:
            return solution
        said: dict[str, Any] = {
            "gen_ai.response.model": solution.model,
            "gen_ai.response.finish_reasons": [_FINISHES[solution.stop_reason]],
            "gen_ai.response.time_to_first_chunk": self.first_seconds,
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.written_tokens,
            "holdfast.usage.cost": usage.cost,
        }
        if self._telemetry.content:
            said["gen_ai.output.messages"] = _message(solution)
        known = {name: value for name, value in said.items() if value is not None}
        self._span.set_attributes(self._telemetry.clean(known))
        return solution

    def record_failure(self, error: BaseException) -> None:
        """There is no answer."""
        kind = str(error.status) if isinstance(error, ProviderRefused) else type(error).__name__
        self._telemetry.metrics.record_failure(self._labels, self._seconds, kind)
        if self._span is not None:
            self._span.set_attribute("error.type", kind)
            self._span.set_status(Status(StatusCode.ERROR, kind))

    def end(self) -> None:
        """The request is over."""
        if self._span is not None:
            self._span.end()

    @property
    def _seconds(self) -> float:
        return monotonic() - self._began


class _First:
    def __init__(self, sink: AnswerSink, chat: ChatRecord) -> None:
        self._sink = sink
        self._chat = chat

    def text(self, piece: str) -> None:
        self._chat.note_output()
        self._sink.text(piece)

    def call(self, index: int, tool: str, piece: str) -> None:
        self._chat.note_output()
        self._sink.call(index, tool, piece)


def _asked(
    ask: Ask, target: EndpointTarget, pointer: ConversationPointer, attempt: int
) -> dict[str, Any]:
    """What is known before there is an answer."""
    said: dict[str, Any] = {
        "server.address": target.host if target.endpoint.base_url else None,
        "gen_ai.request.temperature": ask.model.temperature,
        "gen_ai.request.max_tokens": ask.model.max_output_tokens,
        "gen_ai.output.type": None if ask.output is None else "json",
        "gen_ai.tool.call.id": pointer.call,
        "holdfast.turn": pointer.turn,
        "holdfast.attempt": attempt,
        "holdfast.summary": pointer.summary or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _message(solution: Solution) -> str:
    """What the model said, as the conventions write it."""
    parts: list[dict[str, Any]] = []
    if solution.text:
        parts.append({"type": "text", "content": solution.text[:MAX_CONTENT_CHARACTERS]})
    for call in solution.calls:
        said = call.arguments
        text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        arguments = text[:MAX_CONTENT_CHARACTERS]
        parts.append({"type": "tool_call", "name": call.tool, "arguments": arguments})
    message = {
        "role": "assistant",
        "parts": parts,
        "finish_reason": _FINISHES[solution.stop_reason],
    }
    return json.dumps([message], ensure_ascii=False)

"""One request to a model, as a span and in the metrics: by the names of the conventions."""

import json
from typing import Any

import pytest

from holdfast.activities.model import chat_telemetry as chats
from holdfast.activities.model.chat_telemetry import MAX_CONTENT_CHARACTERS, record_chat
from holdfast.activities.model.progress import Progress
from holdfast.providers.base import ProviderRefused
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.internal.model_request import Ask, ConversationPointer
from holdfast.schemas.internal.solution import Solution, StopReason, Usage, WrittenCall
from holdfast.schemas.internal.tracing import Place
from holdfast.schemas.settings.endpoints import Endpoint
from tests.support.traces import Recorder, Seen

ASK = Ask(model=ModelSettings(endpoint="house", name="m", max_output_tokens=9), instructions="")
USAGE = Usage(input_tokens=10, output_tokens=5, cached_tokens=4, written_tokens=2, cost=0.5)


def pointer(**more: Any) -> ConversationPointer:
    return ConversationPointer.model_validate({"turn": 3, "entries": 1, "digest": "d", **more})


def target(**endpoint: Any) -> EndpointTarget:
    said = {"provider": "openai", "baseUrl": "http://user:pass@models:8080/v1", **endpoint}
    return EndpointTarget("house", Endpoint.model_validate(said), {})


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr(chats, "current_place", lambda: Place("a" * 32, "b" * 16))
    return Recorder(content=True, secrets=["sk-Sesame-42"])


def answered(
    recorder: Recorder, solution: Solution, at: EndpointTarget, of: ConversationPointer
) -> Seen:
    with record_chat(recorder.telemetry, ASK, at, of, 1) as chat:
        assert chat is not None
        progress = Progress("request/1", 1)
        progress.call(0, "look", "{")
        first = progress.first_output_at
        progress.text("more")
        assert progress.first_output_at == first is not None
        chat.record_answer(solution, first)
    [span] = recorder.seen()
    return span


def test_a_request_records_its_model_and_its_usage(recorder: Recorder) -> None:
    span = answered(recorder, Solution(usage=USAGE, model="m-1"), target(), pointer())
    said = span.attributes
    assert said.pop("gen_ai.response.time_to_first_chunk") >= 0
    assert json.loads(said.pop("gen_ai.output.messages"))[0]["finish_reason"] == "stop"
    assert (span.name, span.parent_id) == ("chat m", "b" * 16)
    assert said == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.temperature": 0.7,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.response.model": "m-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 2,
        "holdfast.usage.cost": 0.5,
        "holdfast.turn": 3,
        "holdfast.attempt": 1,
        "server.address": "models",
    }


@pytest.mark.parametrize(("of", "turns"), [({}, 1), ({"call": "t3c1"}, 0), ({"summary": True}, 0)])
def test_an_answer_to_the_run_itself_is_a_turn(
    recorder: Recorder, of: dict[str, Any], turns: int
) -> None:
    answered(recorder, Solution(usage=USAGE), target(), pointer(**of))
    measured = recorder.measured()
    assert sum(amount for _, amount in measured.get("holdfast.turns", [])) == turns
    assert [amount for _, amount in measured["holdfast.cost"]] == [0.5]


@pytest.mark.parametrize(
    ("reason", "said"),
    [("calls", "tool_call"), ("length", "length"), ("filtered", "content_filter")],
)
def test_how_it_ended_and_who_was_asked_are_named_as_everywhere(
    recorder: Recorder, reason: StopReason, said: str
) -> None:
    at = target(provider="gemini")
    found = answered(recorder, Solution(stop_reason=reason), at, pointer()).attributes
    assert found["gen_ai.response.finish_reasons"] == (said,)
    assert found["gen_ai.provider.name"] == "gcp.gemini"


def test_the_text_of_a_model_is_recorded_in_part_and_without_secrets(recorder: Recorder) -> None:
    long = "x" * 2 * MAX_CONTENT_CHARACTERS
    calls = [WrittenCall(tool="look", arguments={"text": long})]
    solution = Solution(text=f"sk-Sesame-42 {long}", calls=calls, model="sk-Sesame-42")
    said = answered(recorder, solution, target(), pointer()).attributes
    assert said["gen_ai.response.model"] == "[secret]"
    [message] = json.loads(said["gen_ai.output.messages"])
    text, call = message["parts"]
    assert text["content"].startswith("[secret] xxx")
    assert len(text["content"]) <= MAX_CONTENT_CHARACTERS
    assert len(call["arguments"]) == MAX_CONTENT_CHARACTERS


@pytest.mark.parametrize(
    ("error", "kind"), [(ProviderRefused(503, "busy"), "503"), (TimeoutError(), "TimeoutError")]
)
def test_a_request_without_an_answer_records_the_reason(
    recorder: Recorder, error: Exception, kind: str
) -> None:
    with pytest.raises(type(error)), record_chat(recorder.telemetry, ASK, target(), pointer(), 2):
        raise error
    [span] = recorder.seen()
    assert (span.attributes["error.type"], span.attributes["holdfast.attempt"]) == (kind, 2)
    labels = {"error.type": kind, "holdfast.of": "model"}
    assert recorder.measured()["holdfast.errors"] == [(labels, 1)]


def test_text_is_the_first_output_of_a_request() -> None:
    progress = Progress("request/1", 1)
    assert progress.first_output_at is None
    progress.text("more")
    assert progress.first_output_at is not None

"""What a model's server sends, spoilt and cut in every way: a solution or one clear error (§12)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.providers.answer.streamed_answer import MAX_SOLUTION_BYTES, StreamedAnswer, size_bytes
from holdfast.providers.anthropic.format import AnthropicFormat
from holdfast.providers.base import ProviderError, ToolNames
from holdfast.providers.gemini.format import GeminiFormat
from holdfast.providers.model_errors import provider_error
from holdfast.providers.ollama.format import OllamaFormat
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.transport.error_response import error_of_response
from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.internal.solution import Solution
from tests.fuzz.strategies import json_values, pieces, spoilt
from tests.providers.fakes import ReceivedText, calls, chunk, stream, target

USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}


def sse(*events: dict[str, Any]) -> bytes:
    """Events as Anthropic's and Google's servers send them."""
    named = (f"event: {each['type']}\n" if "type" in each else "" for each in events)
    return "".join(
        f"{name}data: {json.dumps(each)}\n\n" for name, each in zip(named, events, strict=True)
    ).encode()


GOOD: dict[str, tuple[ProviderFormat, bytes]] = {
    "openai": (
        OpenAIFormat(),
        stream(
            [
                chunk({"role": "assistant", "content": "Let me "}),
                chunk({"content": "see."}),
                calls((0, "call_1", "refund", "")),
                calls((0, None, None, '{"amount": 1.5, ')),
                calls((0, None, None, '"to": "é"}')),
                chunk({}, "tool_calls"),
                chunk(usage=USAGE),
            ]
        ),
    ),
    "openai, in one": (
        OpenAIFormat(),
        json.dumps(
            {
                "object": "chat.completion",
                "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}],
                "usage": USAGE,
            }
        ).encode(),
    ),
    "anthropic": (
        AnthropicFormat(),
        sse(
            {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 9}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
            {"type": "content_block_delta", "index": 0,
             "delta": {"type": "thinking_delta", "thinking": "Hm."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1,
             "content_block": {"type": "tool_use", "id": "t1", "name": "refund", "input": {}}},
            {"type": "content_block_delta", "index": 1,
             "delta": {"type": "input_json_delta", "partial_json": '{"amount": 1}'}},
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"},
             "usage": {"output_tokens": 4}},
            {"type": "message_stop"},
        ),
    ),
    "gemini": (
        GeminiFormat(),
        sse(
            {"candidates": [{"content": {"parts": [{"text": "Let me see."}], "role": "model"}}]},
            {"candidates": [{"finishReason": "STOP", "content": {"parts": [
                {"functionCall": {"name": "refund", "args": {}}}]}}],
             "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4}},
        ),
    ),
    "ollama": (
        OllamaFormat(),
        b'{"model":"m","message":{"role":"assistant","content":"Hi"},"done":false}\n'
        b'{"model":"m","message":{"content":"","tool_calls":[{"function":{"name":"refund",'
        b'"arguments":{"amount":1}}}]},"done":false}\n'
        b'{"model":"m","message":{"content":""},"done":true,"done_reason":"stop",'
        b'"prompt_eval_count":9,"eval_count":4}\n',
    ),
}  # fmt: skip


def read(spoken: ProviderFormat, brought: list[bytes]) -> Solution | ProviderError:
    """What becomes of an answer that arrives in these pieces."""
    taken, reading = (
        spoken.event_decoder(),
        spoken.answer_reader(StreamedAnswer(ReceivedText(), ToolNames([]))),
    )
    try:
        for piece in brought:
            for event in taken.feed(piece):
                reading.read(event)
        reading.finish(taken.rest() or "", taken.stray)
        return reading.solution()
    except ProviderError as error:
        return error


@pytest.mark.parametrize("kind", GOOD)
def test_what_is_spoilt_here_is_good(kind: str) -> None:
    spoken, whole = GOOD[kind]
    solution = read(spoken, [whole])
    assert isinstance(solution, Solution)
    assert solution.text or solution.calls


@pytest.mark.parametrize("kind", GOOD)
@given(data=st.data())
def test_a_spoilt_answer_is_a_solution_or_an_expected_error(kind: str, data: st.DataObject) -> None:
    spoken, whole = GOOD[kind]
    outcome = read(spoken, data.draw(pieces(data.draw(spoilt(whole)))))
    if isinstance(outcome, Solution):
        assert size_bytes(outcome.to_json()) <= MAX_SOLUTION_BYTES
    else:
        failure = provider_error(outcome, target(), "gpt-test", 1)
        assert failure.message
        assert len(failure.message) < 5_000


@pytest.mark.parametrize("kind", GOOD)
@given(data=st.data())
def test_however_an_answer_is_cut_it_is_the_same(kind: str, data: st.DataObject) -> None:
    spoken, whole = GOOD[kind]
    assert read(spoken, data.draw(pieces(whole))) == read(spoken, [whole])


def as_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


BODIES = (
    json_values.map(as_bytes)
    | json_values.map(lambda value: as_bytes({"error": value}))
    | spoilt(b'{"error": {"code": 429, "message": "slow", "details": [{"retryDelay": "3s"}]}}')
)
TIMES = (
    st.text(max_size=30)
    | st.sampled_from(["1e999", "-1", "nan", "٣", "9" * 400, "Wed, 99 Foo 9999 99:99:99 GMT"])
    | st.datetimes().map(lambda at: f"{at:%a, %d %b %Y %H:%M:%S} GMT")
)


@given(status=st.integers(400, 599), body=BODIES, after=TIMES)
def test_a_refusal_is_reported_with_the_time_to_retry(status: int, body: bytes, after: str) -> None:
    refused = error_of_response(status, {"retry-after": after, "retry-after-ms": after}, body)
    failure = provider_error(refused, target(), "gpt-test", 1)
    assert failure.message
    delay = failure.next_retry_delay
    assert delay is None or 0 <= delay.total_seconds() <= 3_600

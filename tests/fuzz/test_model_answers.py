"""What a model's server sends, spoilt and cut in every way: a solution or one clear error (§12)."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.providers.answer.streamed_answer import MAX_SOLUTION_BYTES, StreamedAnswer, size_bytes
from holdfast.providers.base import ProviderError, ToolNames
from holdfast.providers.model_errors import provider_error
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.transport.error_response import error_of_response
from holdfast.providers.transport.event_decoders import EventDecoder
from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.internal.solution import Solution
from tests.fuzz.strategies import changed, json_values, pieces, spoilt
from tests.providers.fakes import ReceivedText, target
from tests.providers.wire.wires import WIRES
from tests.providers.writers import chat_completions
from tests.providers.writers.abstract_answer import AbstractAnswer, Call, Choices, Thought

ANSWER = AbstractAnswer(
    [Thought("Hm."), "Let me see.", Call(0, "refund", {"amount": 1.5, "to": "é"})]
)
WHOLE = chat_completions.completion(ANSWER, Choices())
GOOD: dict[str, tuple[ProviderFormat, bytes]] = {
    **{kind: (wire.format, wire.writer.write(ANSWER, Choices())) for kind, wire in WIRES.items()},
    "openai, in one": (OpenAIFormat(), json.dumps(WHOLE).encode()),
}


def read(spoken: ProviderFormat, brought: list[bytes]) -> Solution | ProviderError:
    """What becomes of an answer that arrives in these pieces."""
    decoder = spoken.event_decoder()
    events = (event for piece in brought for event in decoder.feed(piece))
    return read_events(spoken, events, decoder)


def read_events(
    spoken: ProviderFormat, events: Iterable[str], decoder: EventDecoder
) -> Solution | ProviderError:
    """What becomes of an answer of these events, and of what is left in a decoder."""
    reading = spoken.answer_reader(StreamedAnswer(ReceivedText(), ToolNames([])))
    try:
        for event in events:
            reading.read(event)
        reading.finish(decoder.rest() or "", decoder.stray)
        return reading.solution()
    except ProviderError as error:
        return error


def check(outcome: Solution | ProviderError) -> None:
    """A solution is JSON that a run's history has room for, and can be read again."""
    if isinstance(outcome, Solution):
        assert size_bytes(outcome.to_json()) <= MAX_SOLUTION_BYTES
        kept = Solution.read(json.loads(json.dumps(outcome.to_json())))
        # What was written to a cache is priced where it is read, and not reported.
        reported = outcome.usage.model_copy(update={"written_tokens": None})
        assert kept == outcome.model_copy(update={"usage": reported})
    else:
        failure = provider_error(outcome, target(), "gpt-test", 1)
        assert failure.message
        assert len(failure.message) < 5_000


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
    check(read(spoken, data.draw(pieces(data.draw(spoilt(whole))))))


@pytest.mark.parametrize("kind", GOOD)
@given(data=st.data())
def test_any_value_in_any_place_of_an_event_is_read_or_refused(
    kind: str, data: st.DataObject
) -> None:
    spoken, whole = GOOD[kind]
    decoder = spoken.event_decoder()
    events = [*decoder.feed(whole), *filter(None, [decoder.rest()])]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(events) - 1))
        is_word = events[place].startswith("[DONE")
        value = events[place] if is_word else json.loads(events[place])
        events[place] = json.dumps(data.draw(changed(value)))
    check(read_events(spoken, events, spoken.event_decoder()))


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

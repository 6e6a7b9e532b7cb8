"""Answers of Converse, read: the bytes of the stream, reasoning, what is broken."""

import json
from typing import Any

import pytest

from holdfast.providers.base import TruncatedAnswer
from holdfast.providers.bedrock.event_stream import EventStreamDecoder
from holdfast.providers.bedrock.format import BedrockFormat
from holdfast.schemas.internal.solution import Solution
from tests.providers.fakes import chat_message, read_answer, sent_body
from tests.providers.wire.bedrock import (
    STARTED,
    call,
    delta,
    events,
    frame,
    stopped,
    taken,
    text,
)

ENDED = stopped("tool_use")


def read(*said_events: Any) -> Solution:
    return read_answer(BedrockFormat(), events([STARTED, *said_events]))


def again(solution: Solution) -> list[Any]:
    """The blocks of an answer as it is sent back with the next request."""
    calls = [
        {"id": f"t1c{number}", "providerId": each.provider_id, **each.to_json()}
        for number, each in enumerate(solution.calls, 1)
    ]
    data = solution.to_json().get("providerData")
    answer = chat_message("assistant", solution.text, calls=calls, providerData=data)
    results = [
        chat_message(
            "tool", "ok", callId=each["id"], providerId=each["providerId"], tool=each["tool"]
        )
        for each in calls
    ]
    body = sent_body(BedrockFormat(), chat_message("user", "Hi"), answer, *results)
    blocks: list[Any] = taken("/model/gpt-test/converse-stream", body)["messages"][1]["content"]
    return blocks


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_events_are_the_same_however_their_bytes_are_cut(size: int) -> None:
    body = events([STARTED, *text(0, "Zoë 😀" * 100), *ENDED])
    decoder = EventStreamDecoder()
    found = [
        event
        for start in range(0, len(body), size)
        for event in decoder.feed(body[start : start + size])
    ]
    assert [next(iter(json.loads(event))) for event in found] == [
        *("messageStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata")
    ]
    assert (decoder.rest(), decoder.stray) == (None, "")


def test_a_long_message_in_many_pieces_takes_linear_time() -> None:
    body = frame(json.dumps("x" * 4_000_000).encode(), event_type="x", message_type="event")
    decoder = EventStreamDecoder()
    # By the square of its length, this would take minutes.
    found = [each for at in range(0, len(body), 100) for each in decoder.feed(body[at : at + 100])]
    assert len(found) == 1


def test_nothing_behind_a_broken_message_is_read() -> None:
    broken = bytearray(events(text(1, "Bye")))
    broken[40] ^= 1
    body = events([STARTED, *text(0, "Hi")]) + bytes(broken) + events(ENDED)
    with pytest.raises(TruncatedAnswer):
        read_answer(BedrockFormat(), body)


def test_signed_reasoning_is_sent_back_where_it_was() -> None:
    pieces = [delta(0, reasoningContent={"text": each}) for each in ("Let me", " think.")]
    signature = delta(0, reasoningContent={"signature": "c2lnbmVk"})
    hidden = delta(1, reasoningContent={"redactedContent": "aGlkZGVu"})
    solution = read(
        *pieces, signature, hidden, *text(2, "One moment."), *call(3, "refund", '{"n": 1}'), *ENDED
    )
    assert solution.text == "One moment."
    assert again(solution) == [
        {"reasoningContent": {"reasoningText": {"text": "Let me think.", "signature": "c2lnbmVk"}}},
        {"reasoningContent": {"redactedContent": "aGlkZGVu"}},
        {"text": "One moment."},
        {"toolUse": {"toolUseId": "tooluse_3", "name": "refund", "input": {"n": 1}}},
    ]


def test_unsigned_reasoning_is_no_part_of_an_answer() -> None:
    solution = read(delta(0, reasoningContent={"text": "Hm."}), *text(1, "Yes"), *ENDED)
    assert (solution.text, solution.provider_data) == ("Yes", None)


def test_a_whole_answer_has_reasoning_and_citations() -> None:
    thought = {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}
    cited = {"content": [{"text": "By page 2"}], "citations": []}
    blocks = [{"reasoningContent": thought}, {"citationsContent": cited}, {"text": ", yes"}]
    answer = {"output": {"message": {"role": "assistant", "content": blocks}}}
    solution = read_answer(
        BedrockFormat(), json.dumps(answer | {"stopReason": "end_turn"}).encode()
    )
    assert solution.text == "By page 2, yes"
    assert again(solution)[0] == {"reasoningContent": thought}


@pytest.mark.parametrize("reason", ["malformed_tool_use", "malformed_model_output"])
def test_an_answer_that_amazon_could_not_read_is_empty(reason: str) -> None:
    solution = read(*text(0, '<tool>{"a'), *stopped(reason))
    assert (solution.text, solution.calls, solution.stop_reason) == ("", [], "stop")
    assert solution.notices == [f"the provider could not read what the model wrote (`{reason}`)"]

"""What responses contain, as OpenAI's own server sends them and as others do."""

import json
from typing import Any

import pytest

from holdfast.providers.base import ContextOverflow
from holdfast.providers.openai_responses.format import OpenAIResponsesFormat
from holdfast.schemas.internal.solution import Solution
from tests.providers.fakes import ReceivedText, read_answer, stream
from tests.providers.wire.openai_responses import (
    call,
    ended,
    events,
    message,
    opening,
    piecemeal,
    response,
    text,
    text_output,
    thought,
)

REFUND = call(1, "refund", '{"n": 1}')


def read(*said: dict[str, Any], heard: ReceivedText | None = None) -> Solution:
    return read_answer(OpenAIResponsesFormat(), stream(said, end=""), heard=heard)


def parts(solution: Solution) -> Any:
    """What is kept beside an answer, and comes back with it."""
    return solution.to_json().get("providerData")


def test_reasoning_is_kept_in_its_place_and_as_it_is_at_its_end() -> None:
    first, second = thought(0, "gAAAA-first", "I look."), thought(2, "gAAAA-second")
    told = opening(
        *(piecemeal(0, first), text_output(1, "Let me", " see."), piecemeal(2, second)),
        piecemeal(3, REFUND, '{"n"', ": 1}"),
    )
    heard = ReceivedText()
    solution = read_answer(OpenAIResponsesFormat(), events(*told, ended()), heard=heard)
    assert (solution.text, heard.texts) == ("Let me see.", ["Let me", " see."])
    assert [(each.provider_id, each.arguments) for each in solution.calls] == [("call_1", {"n": 1})]
    assert parts(solution) == [
        first,
        {"type": "text", "characters": 11, "id": "msg_1"},
        second,
        {"type": "call", "id": "fc_1"},
    ]


def test_nothing_is_kept_beside_an_answer_without_reasoning() -> None:
    told = opening(text_output(0, "Hi"), piecemeal(1, REFUND, '{"n": 1}'))
    assert parts(read(*told, ended())) is None


def test_reasoning_that_only_the_server_could_read_is_not_kept() -> None:
    assert (
        parts(read(*opening(piecemeal(0, thought(0, None)), text_output(1, "Hi")), ended())) is None
    )


def test_reasoning_that_is_shown_is_kept() -> None:
    """As of gpt-oss, on servers that encrypt nothing."""
    shown = {"type": "reasoning_text", "text": "Hm."}
    item = {**thought(0, None), "content": [shown]}
    [kept, _] = parts(read(*opening(piecemeal(0, item), text_output(1, "Hi")), ended()))
    assert kept == {"type": "reasoning", "id": "rs_0", "summary": [], "content": [shown]}


def test_two_messages_are_one_text_and_each_keeps_its_phase() -> None:
    told = opening(text_output(0, "I look.", phase="commentary"), text_output(1, "5", " days."))
    heard = ReceivedText()
    solution = read(*told, ended(), heard=heard)
    assert solution.text == "".join(heard.texts) == "I look.\n\n5 days."
    assert parts(solution) == [
        {"type": "text", "characters": 7, "phase": "commentary"},
        {"type": "text", "characters": 9},
    ]


def test_a_refusal_is_a_text() -> None:
    item = message({"type": "refusal", "refusal": "I will not."})
    assert read(*opening(piecemeal(0, item, "I will", " not.")), ended()).text == "I will not."


def test_pieces_of_parallel_calls_may_come_mixed() -> None:
    one = list(piecemeal(0, call(0, "refund", '{"n": 1}'), '{"n"', ": 1}"))
    other = list(piecemeal(1, call(1, "mail", '{"to": "x"}'), '{"to"', ': "x"}'))
    told = [event for pair in zip(one, other, strict=True) for event in pair]
    solution = read(*opening(), *told, ended())
    assert [(each.tool, each.arguments) for each in solution.calls] == [
        ("refund", {"n": 1}),
        ("mail", {"to": "x"}),
    ]


ITEMS = (message(text("One moment.")), REFUND)
INDEXED = opening(piecemeal(0, ITEMS[0], "One", " moment."), piecemeal(1, REFUND, '{"n": 1}'))
LOOSE = {
    "no indices": [
        {name: value for name, value in each.items() if name != "output_index"} for each in INDEXED
    ],
    "no pieces": [each for each in INDEXED if not each["type"].endswith(".delta")],
    "items at their end alone": [each for each in INDEXED if each["type"].endswith("item.done")],
    "items at their begin alone": [each for each in INDEXED if not each["type"].endswith(".done")],
    "nothing before the end": [],
}


@pytest.mark.parametrize("told", LOOSE.values(), ids=LOOSE)
def test_an_answer_is_the_same_however_a_server_sends_its_items(told: Any) -> None:
    last = ended()
    last["response"]["output"] = [] if told else list(ITEMS)
    solution = read(*told, last)
    assert solution.text == "One moment."
    assert [(each.tool, each.arguments) for each in solution.calls] == [("refund", {"n": 1})]


def test_an_incomplete_response_is_cut_and_may_hold_a_call() -> None:
    told = opening(piecemeal(0, call(0, "refund", '{"n": '), '{"n": '))
    why = {"incomplete_details": {"reason": "max_output_tokens"}}
    solution = read(*told, ended("incomplete", **why))
    assert solution.stop_reason == "length"
    assert [each.arguments for each in solution.calls] == ['{"n": ']


def test_a_conversation_that_is_too_long_is_known_within_a_stream() -> None:
    error = {"code": "context_length_exceeded", "message": "Your input is too long."}
    failed = {**response(status="in_progress"), "status": "failed", "error": error}
    for event in ({"type": "response.failed", "response": failed}, {"type": "error", **error}):
        with pytest.raises(ContextOverflow):
            read(*opening(), event)
    with pytest.raises(ContextOverflow):
        read_answer(OpenAIResponsesFormat(), json.dumps(failed).encode())


def test_half_characters_do_not_spoil_what_is_kept() -> None:
    half = "\ud83d"
    item = {**thought(0, half, half), "id": half}
    told = [{"type": "response.output_item.done", "output_index": 0, "item": item}]
    [kept] = parts(read(*told, ended()))
    assert json.dumps(kept, ensure_ascii=False).encode()

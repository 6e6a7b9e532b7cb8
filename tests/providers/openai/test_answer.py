"""What chat completions contain, as OpenAI's own server and as others send it."""

import json
from typing import Any

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter

from holdfast.providers.answer.streamed_answer import StreamedAnswer
from holdfast.providers.base import ProviderRefused, ToolNames
from holdfast.providers.openai.answer import OpenAIAnswerReader
from holdfast.schemas.internal.solution import Solution
from tests.providers.fakes import TOOLS, ReceivedText, ask, calls, chunk


def read(*chunks: Any, heard: ReceivedText | None = None) -> Solution:
    names = ToolNames(ask(tools=TOOLS).tools)
    completion = OpenAIAnswerReader(StreamedAnswer(heard or ReceivedText(), names))
    for each in chunks:
        completion.read(each if isinstance(each, str) else json.dumps(each))
    return completion.solution()


def loose(*items: dict[str, Any]) -> dict[str, Any]:
    """A chunk with items of `tool_calls` that are not as the format has them."""
    return {"choices": [{"delta": {"tool_calls": list(items)}}]}


def written(solution: Solution) -> list[tuple[str | None, str, Any]]:
    """The calls of a solution: id, tool, arguments."""
    return [(call.provider_id, call.tool, call.arguments) for call in solution.calls]


def test_pieces_of_parallel_calls_may_come_mixed() -> None:
    solution = read(
        calls((0, "a", "refund", ""), (1, "b", "mail", '{"to"')),
        calls((1, None, None, ': "x"')),
        calls((0, None, None, '{"n": 1}'), (1, None, None, "}")),
        chunk(finish="tool_calls"),
    )
    assert written(solution) == [("a", "refund", {"n": 1}), ("b", "mail", {"to": "x"})]


def whole(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {**more, "function": {"name": name, "arguments": arguments}}


WHOLE = {
    "no index": [whole("a", '{"n":1}', id="x"), whole("b", '{"n":2}', id="y")],
    "one index for all": [
        whole("a", '{"n":1}', index=0, id="x"),
        whole("b", '{"n":2}', index=0, id="y"),
    ],
    "neither index nor id": [whole("a", '{"n":1}'), whole("b", '{"n":2}')],
    "one index, no ids": [whole("a", '{"n":1}', index=0), whole("b", '{"n":2}', index=0)],
    "objects for texts": [whole("a", {"n": 1}, index=None), whole("b", {"n": 2}, index=None)],
    "no index, one id twice": [whole("a", '{"n":1}', id="x"), whole("b", '{"n":2}', id="x")],
    "one index and one id for all": [
        whole("a", '{"n":1}', index=0, id="x"),
        whole("b", '{"n":2}', index=0, id="x"),
    ],
    "one id twice": [
        whole("a", '{"n":1}', index=0, id="x"),
        whole("b", '{"n":2}', index=1, id="x"),
    ],
}


@pytest.mark.parametrize("items", WHOLE.values(), ids=WHOLE)
@pytest.mark.parametrize("together", [True, False])
def test_whole_calls_stay_apart_however_a_server_marks_them(items: Any, together: bool) -> None:
    chunks = [loose(*items)] if together else [loose(item) for item in items]
    solution = read(*chunks, chunk(finish="tool_calls"))
    assert [(call.tool, call.arguments) for call in solution.calls] == [
        ("a", {"n": 1}),
        ("b", {"n": 2}),
    ]
    assert [call.provider_id for call in solution.calls] == [item.get("id") for item in items]


def test_a_call_whose_digits_parsing_would_change_is_whole_too() -> None:
    twice = loose(whole("a", '{"n":1.10}', index=0), whole("a", '{"n":2.20}', index=0))
    solution = read(twice, chunk(finish="tool_calls"))
    assert [call.arguments for call in solution.calls] == ['{"n":1.10}', '{"n":2.20}']


def test_pieces_without_index_go_to_the_call_of_their_id_or_to_the_last_one() -> None:
    solution = read(
        loose({"id": "x", "function": {"name": "a", "arguments": "{"}}),
        loose({"id": "y", "function": {"name": "b", "arguments": "{"}}),
        loose({"id": "x", "function": {"arguments": '"n":1'}}),
        loose({"function": {"arguments": "}"}}),
        loose({"id": "y", "function": {"name": "b", "arguments": "}"}}),
        chunk(finish="tool_calls"),
    )
    assert written(solution) == [("x", "a", {"n": 1}), ("y", "b", {})]


def test_a_name_may_come_in_pieces_or_late_or_again_and_again() -> None:
    solution = read(
        calls((0, "x", "ref", "")),
        calls((0, None, "und", "")),
        calls((0, None, "refund", "{")),
        calls((0, None, "refund", "}")),
        calls((1, "y", None, "{}")),
        calls((1, None, "mail", "")),
        chunk(finish="tool_calls"),
    )
    assert written(solution) == [("x", "refund", {}), ("y", "mail", {})]


def test_a_long_call_whose_name_comes_with_each_piece_is_read_in_a_moment() -> None:
    arguments = json.dumps({"words": ["abc"] * 30_000})
    pieces = [arguments[at : at + 8] for at in range(0, len(arguments), 8)]
    functions = [{"name": "refund", "arguments": piece} for piece in pieces]
    [call] = read(*(loose({"index": 0, "function": each}) for each in functions), "[DONE]").calls
    assert call.arguments == json.loads(arguments)


def test_a_call_in_the_old_form_is_one() -> None:
    old = {"function_call": {"name": "refund", "arguments": '{"n":'}}
    rest = {"function_call": {"arguments": "1}"}}
    solution = read(chunk(old), chunk(rest), chunk(finish="function_call"))
    assert written(solution) == [(None, "refund", {"n": 1})]
    assert solution.stop_reason == "calls"


@pytest.mark.parametrize(
    "text",
    [
        '{"n": ',
        "n=1",
        "[1]",
        '{"n": NaN}',
        '{"n": 1e999}',
        "[" * 5000,
        '{"n":' * 150 + "1" + "}" * 150,
    ],
)
def test_arguments_that_are_no_good_object_stay_the_text_that_they_are(text: str) -> None:
    solution = read(calls((0, "x", "refund", text)), chunk(finish="length"))
    assert written(solution) == [("x", "refund", text)]
    assert solution.stop_reason == "length"


def test_calls_count_more_than_the_word_stop() -> None:
    solution = read(calls((0, "x", "refund", "{}")), chunk(finish="stop"))
    assert solution.stop_reason == "calls"
    assert read(chunk({"content": "no"}, "tool_calls")).stop_reason == "stop"


def test_thoughts_are_no_text_but_a_refusal_is() -> None:
    thought = {"choices": [{"delta": {"reasoning_content": "hm", "content": None}}]}
    parts = {
        "choices": [{"delta": {"content": [{"type": "text", "text": "A"}, {"type": "thinking"}]}}]
    }
    assert read(thought, parts, chunk({"refusal": "I will not."}, "stop")).text == "AI will not."


def test_thoughts_are_kept_beside_the_answer_where_the_server_sends_them() -> None:
    thought = {"choices": [{"delta": {"reasoning_content": "I should look."}}]}
    heard = ReceivedText()
    solution = read(thought, calls((0, "c1", "refund", "{}")), chunk(finish="stop"), heard=heard)
    assert solution.provider_data == {"reasoning_content": "I should look."}
    assert (solution.text, heard.texts) == ("", [])
    silent = {"choices": [{"delta": {"reasoning_content": ""}, "finish_reason": "stop"}]}
    assert read(silent).provider_data == {"reasoning_content": ""}
    none = {"choices": [{"delta": {"reasoning_content": None}, "finish_reason": "stop"}]}
    assert read(none).provider_data is None


def test_a_character_cut_in_two_is_whole_again_and_half_a_one_is_replaced_in_a_text() -> None:
    pieces = [
        '{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        '{"choices":[{"delta":{"content":"\\ude00"}}]}',
    ]
    assert read(*pieces, chunk(finish="stop")).text == "😀"
    assert read(pieces[0], chunk(finish="stop")).text == "�"


def test_another_model_s_way_to_call_is_text() -> None:
    text = '<tool_call>{"name": "refund"}</tool_call>'
    solution = read(chunk({"content": text}, "stop"))
    assert (solution.text, solution.calls) == (text, [])


@pytest.mark.parametrize("last", ["[DONE]", chunk(finish="stop")])
def test_either_end_is_enough(last: Any) -> None:
    assert read(chunk({"content": "Gut"}), last).text == "Gut"


def test_half_characters_anywhere_do_not_spoil_the_result() -> None:
    half = "\ud83d"
    solution = read(
        {
            **loose({"id": half, "function": {"name": half, "arguments": f'{{"{half}": 1}}'}}),
            "model": half,
        },
        chunk({"content": half}, "stop"),
    )
    [payload] = pydantic_data_converter.payload_converter.to_payloads([solution.to_json()])
    assert b"model" in payload.data
    with pytest.raises(ProviderRefused) as refused:
        read({"error": {"message": half}})
    assert refused.value.message == "�"

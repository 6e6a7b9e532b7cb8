"""What chat completions say, as OpenAI's own server and as others send it."""

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion
from pydantic import TypeAdapter
from temporalio.contrib.pydantic import pydantic_data_converter

from holdfast.providers.base import ProviderRefused, ToolNames, TruncatedAnswer, UnreadableAnswer
from holdfast.providers.openai.answer import OpenAIAnswerReader
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.schemas.internal.solution import Solution, Usage
from tests.activities.fakes import TOOLS, Heard, ask, calls, chunk


def read(*chunks: Any, heard: Heard | None = None) -> Solution:
    """The solution of a stream of these chunks."""
    names = ToolNames(ask(tools=TOOLS).tools)
    completion = OpenAIAnswerReader(StreamedAnswer(heard or Heard(), names))
    for each in chunks:
        completion.read(each if isinstance(each, str) else json.dumps(each))
    return completion.solution()


def loose(*items: dict[str, Any]) -> dict[str, Any]:
    """A chunk with items of `tool_calls` that are not as the format has them."""
    return {"choices": [{"delta": {"tool_calls": list(items)}}]}


def written(solution: Solution) -> list[tuple[str | None, str, Any]]:
    """The calls of a solution: id, tool, arguments."""
    return [(call.provider_id, call.tool, call.arguments) for call in solution.calls]


def test_text_is_what_all_its_pieces_say_together() -> None:
    heard = Heard()
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    solution = read(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Guten "}),
        chunk({"content": "Tag"}),
        chunk(finish="stop"),
        chunk(usage={**usage, "prompt_tokens_details": {"cached_tokens": 3}}),
        "[DONE]",
        heard=heard,
    )
    assert solution == Solution(
        text="Guten Tag",
        stop_reason="stop",
        usage=Usage(input_tokens=9, output_tokens=4, cached_tokens=3),
        model="gpt-test-2026",
    )
    assert heard.texts == ["Guten ", "Tag"]


def test_a_call_comes_back_under_the_tool_s_own_name() -> None:
    heard = Heard()
    solution = read(
        calls((0, "call_1", "rag_query", "")),
        calls((0, None, None, '{"q": ')),
        calls((0, None, None, '"†ü"}')),
        chunk(finish="tool_calls"),
        heard=heard,
    )
    assert written(solution) == [("call_1", "rag.query", {"q": "†ü"})]
    assert solution.stop_reason == "calls"
    assert heard.calls == [
        (0, "rag.query", ""),
        (0, "rag.query", ""),
        (0, "rag.query", '{"q": '),
        (0, "rag.query", '"†ü"}'),
    ]


def test_four_calls_keep_their_order() -> None:
    pieces = [(index, f"call_{index}", "refund", f'{{"n": {index}}}') for index in range(4)]
    solution = read(*(calls(piece) for piece in pieces), chunk(finish="tool_calls"))
    assert [call.arguments for call in solution.calls] == [{"n": n} for n in range(4)]


def test_pieces_of_parallel_calls_may_come_mixed() -> None:
    solution = read(
        calls((0, "a", "refund", ""), (1, "b", "mail", '{"to"')),
        calls((1, None, None, ': "x"')),
        calls((0, None, None, '{"n": 1}'), (1, None, None, "}")),
        chunk(finish="tool_calls"),
    )
    assert written(solution) == [("a", "refund", {"n": 1}), ("b", "mail", {"to": "x"})]


def whole(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    """A whole call in one piece."""
    return {**more, "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    "items",
    [
        [whole("a", '{"n":1}', id="x"), whole("b", '{"n":2}', id="y")],
        [whole("a", '{"n":1}', index=0, id="x"), whole("b", '{"n":2}', index=0, id="y")],
        [whole("a", '{"n":1}'), whole("b", '{"n":2}')],
        [whole("a", '{"n":1}', index=0), whole("b", '{"n":2}', index=0)],
        [whole("a", {"n": 1}, index=None), whole("b", {"n": 2}, index=None)],
        [whole("a", '{"n":1}', id="x"), whole("b", '{"n":2}', id="x")],
        [whole("a", '{"n":1}', index=0, id="x"), whole("b", '{"n":2}', index=0, id="x")],
        [whole("a", '{"n":1}', index=0, id="x"), whole("b", '{"n":2}', index=1, id="x")],
    ],
    ids=[
        "no index",
        "one index for all",
        "neither index nor id",
        "one index, no ids",
        "objects for texts",
        "no index, one id twice",
        "one index and one id for all",
        "one id twice",
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_whole_calls_stay_apart_however_a_server_marks_them(items: Any, together: bool) -> None:
    chunks = [loose(*items)] if together else [loose(item) for item in items]
    solution = read(*chunks, chunk(finish="tool_calls"))
    assert [(call.tool, call.arguments) for call in solution.calls] == [
        ("a", {"n": 1}),
        ("b", {"n": 2}),
    ]
    assert [call.provider_id for call in solution.calls] == [item.get("id") for item in items]


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


@pytest.mark.timeout(10)
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


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "filtered"), ("eos", "stop")],
)
def test_why_it_stopped_is_told_in_our_words(reason: str, expected: str) -> None:
    chunks = {"choices": [{"delta": {"content": "x"}, "finish_reason": reason}]}
    assert read(chunks).stop_reason == expected


def test_calls_count_more_than_the_word_stop() -> None:
    solution = read(calls((0, "x", "refund", "{}")), chunk(finish="stop"))
    assert solution.stop_reason == "calls"
    assert read(chunk({"content": "no"}, "tool_calls")).stop_reason == "stop"


def test_usage_that_nobody_tells_is_unknown() -> None:
    assert read(chunk({"content": "x"}, "stop")).usage == Usage()
    odd = {"choices": [], "usage": {"prompt_tokens": "many", "completion_tokens": True}}
    assert read(chunk({"content": "x"}, "stop"), odd).usage == Usage()


def test_thoughts_are_no_text_but_a_refusal_is() -> None:
    thought = {"choices": [{"delta": {"reasoning_content": "hm", "content": None}}]}
    parts = {
        "choices": [{"delta": {"content": [{"type": "text", "text": "A"}, {"type": "thinking"}]}}]
    }
    assert read(thought, parts, chunk({"refusal": "I will not."}, "stop")).text == "AI will not."


def test_thoughts_are_kept_beside_the_answer_where_the_server_tells_them() -> None:
    thought = {"choices": [{"delta": {"reasoning_content": "I should look."}}]}
    heard = Heard()
    solution = read(thought, calls((0, "c1", "refund", "{}")), chunk(finish="stop"), heard=heard)
    assert solution.provider_data == {"reasoning_content": "I should look."}
    assert (solution.text, heard.texts) == ("", [])
    silent = {"choices": [{"delta": {"reasoning_content": ""}, "finish_reason": "stop"}]}
    assert read(silent).provider_data == {"reasoning_content": ""}
    none = {"choices": [{"delta": {"reasoning_content": None}, "finish_reason": "stop"}]}
    assert read(none).provider_data is None


def test_only_the_first_of_several_choices_is_read() -> None:
    two = [{"index": n, "delta": {"content": str(n)}, "finish_reason": "stop"} for n in (0, 1)]
    assert read({"choices": two}).text == "0"


def test_an_answer_in_one_piece_is_read_too() -> None:
    completion = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "logprobs": None,
                "message": {
                    "role": "assistant",
                    "content": "One moment.",
                    "refusal": None,
                    "tool_calls": [
                        {
                            "id": "x",
                            "type": "function",
                            "function": {"name": "refund", "arguments": '{"n": 1}'},
                        }
                    ],
                },
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }
    TypeAdapter(ChatCompletion).validate_python(completion, strict=True)
    solution = read(completion)
    assert solution.text == "One moment."
    assert written(solution) == [("x", "refund", {"n": 1})]
    assert solution.usage == Usage(input_tokens=1, output_tokens=2)


def test_a_character_cut_in_two_is_whole_again_and_half_a_one_is_replaced() -> None:
    pieces = [
        '{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        '{"choices":[{"delta":{"content":"\\ude00"}}]}',
    ]
    assert read(*pieces, chunk(finish="stop")).text == "😀"
    assert read(pieces[0], chunk(finish="stop")).text == "�"
    half = calls((0, "x", "refund", '{"n": "\\ud83d"}'))
    assert written(read(half, chunk(finish="stop"))) == [("x", "refund", {"n": "�"})]


def test_another_model_s_way_to_call_is_text() -> None:
    text = '<tool_call>{"name": "refund"}</tool_call>'
    solution = read(chunk({"content": text}, "stop"))
    assert (solution.text, solution.calls) == (text, [])


@pytest.mark.parametrize(
    ("event", "status", "message"),
    [
        ({"error": {"message": "busy", "code": 503}}, 503, "busy"),
        ({"error": {"message": "slow down", "type": "rate_limit_exceeded"}}, 429, "slow down"),
        ({"error": {"message": "bad", "type": "invalid_request_error"}}, 400, "bad"),
        ({"object": "error", "message": "no such", "code": 404}, 404, "no such"),
        ({"error": "out of memory"}, 500, "out of memory"),
    ],
)
def test_an_error_within_the_stream_is_an_error(event: Any, status: int, message: str) -> None:
    with pytest.raises(ProviderRefused) as refused:
        read(chunk({"content": "Gut"}), event)
    assert (refused.value.status, refused.value.message) == (status, message)


def test_a_stream_without_its_end_is_cut_off() -> None:
    with pytest.raises(TruncatedAnswer):
        read(chunk({"content": "Gut"}))


@pytest.mark.parametrize("last", ["[DONE]", chunk(finish="stop")])
def test_either_end_is_enough(last: Any) -> None:
    assert read(chunk({"content": "Gut"}), last).text == "Gut"


@pytest.mark.parametrize(
    "events",
    [
        [{"type": "message_start", "message": {"role": "assistant"}}, {"type": "message_stop"}],
        [{"model": "llama", "message": {"content": "Hi"}, "done": True}],
        ["nonsense"],
        ["[1, 2]"],
    ],
)
def test_another_format_is_told_as_such(events: list[Any]) -> None:
    with pytest.raises(UnreadableAnswer, match="no chat completion"):
        read(*events)


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

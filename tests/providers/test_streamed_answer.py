"""However long an answer is, what is kept of it fits into a history and names what is missing."""

import json
from typing import Any

import pytest

from holdfast.providers.answer.call_draft import MAX_ARGUMENTS_BYTES
from holdfast.providers.answer.streamed_answer import (
    MAX_PROVIDER_DATA_BYTES,
    MAX_SOLUTION_BYTES,
    MAX_TEXT_BYTES,
    StreamedAnswer,
    size_bytes,
)
from holdfast.providers.base import ToolNames
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.settings.endpoints import ProviderName
from tests.providers.fakes import ReceivedText, read_answer, stream
from tests.providers.wire.wires import WIRES
from tests.providers.writers.abstract_answer import AbstractAnswer, Call, Choices, Thought


def answer(text: str = "", *calls: tuple[str, str], data: Any = None) -> Solution:
    """What is kept of an answer: its text, its calls' tools and arguments, its provider's data."""
    made = StreamedAnswer(ReceivedText(), ToolNames([]))
    made.provider_data = data
    made.add_text(text)
    for tool, arguments in calls:
        draft = made.add_call(tool, None)
        for start in range(0, len(arguments), 50_000):
            made.add_arguments(draft, arguments[start : start + 50_000])
    solution = made.solution("stop")
    assert size_bytes(solution.to_json()) <= MAX_SOLUTION_BYTES
    return solution


def test_a_call_that_was_only_opened_has_no_arguments_in_an_answer_that_was_cut() -> None:
    made = StreamedAnswer(ReceivedText(), ToolNames([]))
    for _ in range(2):
        made.add_arguments(made.add_call("list_orders", None), "")
    for stop in ("length", "filtered"):
        assert [each.arguments for each in made.solution(stop).calls] == [None, None]
    assert [each.arguments for each in made.solution("calls").calls] == [{}, {}]


def test_a_text_of_line_ends_is_read_in_no_time() -> None:
    """A pattern that went back for each of them would take hours."""
    text = "\n" * 400_000
    assert answer(text).text == text
    assert answer(f"hm{text}</think>\nYes").text == "Yes"


def test_arguments_too_large_to_be_kept_are_reported_by_their_size() -> None:
    arguments = json.dumps({"text": "x" * 5_000_000})
    whole = StreamedAnswer(ReceivedText(), ToolNames([]))
    whole.add_whole_arguments(whole.add_call("write", None), arguments)
    for solution in (answer("", ("write", arguments)), whole.solution("calls")):
        [call] = solution.calls
        assert call.arguments == ""
        assert call.oversize_bytes == len(arguments)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ('{"n": 3.1, "m": [1e-07], "a": 1}', {"n": 3.1, "m": [1e-07], "a": 1}),
        ('{"a": 1, "a": 1}', {"a": 1}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        ('{"n": 3.10}', '{"n": 3.10}'),
        ("[" * 5_000, "[" * 5_000),
        ('{"n":' * 150 + "1" + "}" * 150, '{"n":' * 150 + "1" + "}" * 150),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ('{"a": "\\ud83d"}', '{"a": "\\ud83d"}'),
        ('{"a": "\ud83d"}', '{"a": "\\ud83d"}'),
        ('{"a": "\ud83d\ude00"}', {"a": "😀"}),
    ],
)
def test_arguments_that_parsing_would_change_are_kept_as_they_are_written(
    written: str, kept: Any
) -> None:
    [call] = answer("", ("write", written)).calls
    assert call.arguments == kept
    assert call.to_json()["arguments"] == json.loads(json.dumps(kept))


@pytest.mark.timeout(10)
def test_a_long_call_whose_name_comes_with_each_piece_takes_linear_time() -> None:
    arguments = json.dumps({"words": ["abc"] * 30_000})
    pieces = [arguments[at : at + 8] for at in range(0, len(arguments), 8)]
    calls = [{"index": 0, "function": {"name": "refund", "arguments": each}} for each in pieces]
    chunks = [{"choices": [{"delta": {"tool_calls": [call]}}]} for call in calls]
    [call] = read_answer(OpenAIFormat(), stream(chunks)).calls
    assert call.arguments == json.loads(arguments)


def test_arguments_just_within_the_bound_are_kept() -> None:
    arguments = json.dumps({"text": "x" * (MAX_ARGUMENTS_BYTES - 12)})
    assert len(arguments) == MAX_ARGUMENTS_BYTES
    [call] = answer("", ("write", arguments)).calls
    assert call.arguments == json.loads(arguments)
    assert call.oversize_bytes is None


def test_a_text_too_large_keeps_its_beginning_and_is_marked() -> None:
    solution = answer("x" * (MAX_TEXT_BYTES + 1))
    assert len(solution.text) == MAX_TEXT_BYTES
    assert solution.stop_reason == "length"
    assert solution.notices == [f"the text was cut after {MAX_TEXT_BYTES} bytes"]


@pytest.mark.parametrize("character", ["é", "\x00", "😀", '"'])
def test_a_text_that_grows_in_history_is_kept_within_the_bound(character: str) -> None:
    solution = answer(character * (MAX_TEXT_BYTES // len(character.encode())))
    assert solution.text.startswith(character)
    if solution.stop_reason == "length":
        assert "the text was cut" in solution.notices[0]
    else:
        assert solution.notices == []


def test_of_many_large_calls_the_largest_lose_their_arguments() -> None:
    sizes = [240_000 + 1_000 * n for n in range(6)]
    solution = answer("", *(("write", json.dumps({"t": "x" * size})) for size in sizes))
    blank = [call.oversize_bytes is not None for call in solution.calls]
    assert blank == [False, False, False, False, True, True]
    assert all(call.oversize_bytes or isinstance(call.arguments, dict) for call in solution.calls)


def test_a_thousand_calls_are_all_kept() -> None:
    solution = answer("", *(("refund", '{"n": 1}') for _ in range(1_000)))
    assert len(solution.calls) == 1_000
    assert solution.notices == []


def test_calls_that_do_not_fit_are_left_out_and_counted() -> None:
    named: list[tuple[str, Any]] = [("a_tool_with_a_longer_name" * 2, "x" * 99)] * 20_000
    solution = answer("é" * MAX_TEXT_BYTES, *named, data="x" * (MAX_PROVIDER_DATA_BYTES - 2))
    assert 1_000 < len(solution.calls) < 20_000
    assert solution.provider_data is not None
    assert f"{20_000 - len(solution.calls)} calls were left out" in solution.notices[0]


def test_names_and_ids_are_bounded() -> None:
    made = StreamedAnswer(ReceivedText(), ToolNames([]))
    made.add_call("x" * 5_000_000, "y" * 5_000_000)
    made.model = "z" * 5_000_000
    solution = made.solution("calls")
    [call] = solution.calls
    assert solution.model == "z" * 200
    assert len(call.tool) == 256
    assert call.provider_id is None


def test_the_provider_s_own_data_is_kept_up_to_its_bound_and_else_left_out_first() -> None:
    kept = {"thoughts": "x" * (MAX_PROVIDER_DATA_BYTES - 15)}
    assert size_bytes(kept) == MAX_PROVIDER_DATA_BYTES
    solution = answer("ü" * 80_000, ("write", "{}"), data=kept)
    assert (solution.provider_data, solution.notices) == (kept, [])
    too_large = {"thoughts": kept["thoughts"] + "x"}
    solution = answer("ü" * 80_000, ("write", "{}"), data=too_large)
    assert (solution.provider_data, len(solution.text), len(solution.calls)) == (None, 80_000, 1)
    [notice] = solution.notices
    assert f"{MAX_PROVIDER_DATA_BYTES + 1} bytes" in notice


@pytest.mark.parametrize("kind", [kind for kind in WIRES if kind != "gemini"])
def test_thoughts_too_large_to_be_kept_are_left_out_whole(kind: ProviderName) -> None:
    wire, thought = WIRES[kind], Thought("A" * MAX_PROVIDER_DATA_BYTES)
    written = wire.writer.write(AbstractAnswer([thought, Call(0, "refund", {})]), Choices())
    solution = read_answer(wire.format, written)
    assert solution.provider_data is None
    assert "such as the model's thoughts, was left out" in solution.notices[0]


def test_a_large_text_is_cut_beside_the_provider_s_own_data() -> None:
    kept = {"thoughts": "x" * (MAX_PROVIDER_DATA_BYTES - 15)}
    solution = answer("ü" * 260_000, *[("write", "x" * 90_000)] * 5, data=kept)
    assert solution.provider_data == kept
    assert (solution.stop_reason, len(solution.calls)) == ("length", 5)

"""The lines that a log is described in: order, arguments, instance and end of a call."""

from typing import Any

import pytest

from holdfast.runtime.narration.log_narration import LogNarration, NarrationLine
from holdfast.schemas.log_entry import read_record

LONG = "x" * 300


def told(entry: dict[str, Any], *, whole: bool = False) -> NarrationLine:
    """Return the one line of an entry about the call `t1c2`."""
    record = read_record({"turn": 1, "callId": "t1c2", "tool": "pay", **entry})
    [line] = LogNarration("run-1", with_all_arguments=whole).lines(record)
    return line


def test_a_call_tells_what_it_waits_for_before_it_tells_why() -> None:
    line = told(
        {
            "type": "tool_call",
            "arguments": {"amount": "†state.total"},
            "waitsFor": ["t1c1", "t1c3"],
            "reasoning": "It is due.",
        }
    )
    assert line.text == 't1c2 pay  amount="†state.total"'
    assert line.body == "waits for t1c1, t1c3\nbecause: It is due."


def test_a_call_that_waits_for_none_says_nothing_of_it() -> None:
    assert told({"type": "tool_call", "arguments": {"amount": 5}}).body == ""


def test_a_call_that_waited_tells_what_it_begins_with() -> None:
    line = told({"type": "tool_start", "arguments": {"amount": 12}})
    assert (line.text, line.minor) == ("t1c2 pay  amount=12", False)
    assert told({"type": "tool_start"}).minor, "what was told with the call is not told again"


def test_a_call_of_another_agent_tells_where_its_run_is_seen() -> None:
    line = told({"type": "tool_start", "delegate": "payer"})
    assert (line.body, line.minor) == ("by payer: holdfast watch run-1.t1c2", False)


def test_what_a_call_is_about_is_told_with_it() -> None:
    assert told({"type": "tool_call", "instance": "first"}).text == "t1c2 pay of first"


def test_what_has_no_room_in_a_line_is_told_below_it_where_all_is_told() -> None:
    entry = {"type": "tool_start", "arguments": {"text": LONG}}
    assert "…" in told(entry).text
    line = told(entry, whole=True)
    assert (line.text, LONG in line.body) == ("t1c2 pay", True)


def test_what_is_waited_for_cannot_move_the_terminal() -> None:
    line = told({"type": "tool_call", "waitsFor": ["\x1b[2Jt1c1\nt9"]})
    assert line.body == "waits for t1c1 t9"


def test_every_line_of_a_call_says_whose_it_is() -> None:
    story = LogNarration("run-1")
    call: dict[str, Any] = {"turn": 1, "callId": "t1c1", "tool": "rate"}
    entries: list[dict[str, Any]] = [
        {"type": "tool_call", **call, "instance": "c1"},
        {"type": "tool_start", **call},
        {"type": "tool_end", **call},
        {"type": "message", "message": {"role": "tool", **call, "content": "5"}},
        {"type": "tool_end", **call, "callId": "t1c2"},
    ]
    lines = [line for entry in entries for line in story.lines(read_record(entry))]
    assert [f"{line.word} {line.text}" for line in lines] == [
        "call t1c1 rate of c1",
        "started t1c1 rate of c1",
        "finished t1c1 rate of c1",
        "result t1c1 rate of c1",
        "finished t1c2 rate",
    ]


def ended(value: Any, content: Any, **more: Any) -> list[tuple[str, str, bool]]:
    """How the end of a call is told whose result the model reads as `content`."""
    story = LogNarration("run-1")
    call: dict[str, Any] = {"turn": 1, "callId": "t1c1", "tool": "look"}
    said = {"role": "tool", **call, "content": content}
    entries: list[dict[str, Any]] = [
        {"type": "tool_end", **call, "value": value, **more},
        {"type": "message", "message": said},
    ]
    lines = [line for entry in entries for line in story.lines(read_record(entry))]
    return [(line.word, line.body, line.minor) for line in lines]


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ({"b": 1, "a": 2}, '{"tool": "look", "trusted": false, "value": {"a": 2, "b": 1}}'),
        ("so", '{"tool": "look", "trusted": false, "value": "so"}'),
        ({"a": 2}, 'A person changed the arguments of this call to {}.\n{"a": 2}'),
        ("two\nlines", "A person changed the arguments of this call to {}.\ntwo\nlines"),
    ],
)
def test_a_value_that_the_result_holds_is_told_once(value: Any, content: str) -> None:
    assert ended(value, content) == [("finished", "", True), ("result", content, False)]


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("ab", "2 characters; these are the first 1.\na"),
        ("a", "Done."),
        ("a", [{"type": "text", "text": "b"}]),
        ("a", "9000 characters; these are the first 2000.\n" + "[" * 2000),
        ("a", '{"tool": "look", "trusted": true, "value": "a"}'),
    ],
)
def test_a_value_that_the_model_is_not_shown_whole_is_told_with_the_end(
    value: Any, content: Any
) -> None:
    [end, result] = ended(value, content)
    assert (end, result[0]) == (("finished", value, False), "result")


def test_what_a_tool_says_to_people_is_told_with_the_end_in_any_case() -> None:
    content = '{"tool": "look", "trusted": false, "value": 5}'
    assert ended(5, content, details="camera 2")[0] == ("finished", "camera 2", False)


def test_a_summary_tells_what_it_stands_for() -> None:
    line = told({"type": "summary", "upto": 40, "text": "They looked ten times.", "n": 44})
    assert (line.word, line.text) == (
        "summary",
        "the model reads this in place of entries 1 to 40",
    )
    assert line.body == "They looked ten times."

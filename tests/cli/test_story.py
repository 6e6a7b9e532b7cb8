"""A graph of calls as it is told: which waits for which, and what it begins with in the end."""

from typing import Any

from cli.story import Story

LONG = "x" * 300


def told(entry: dict[str, Any], *, whole: bool = False) -> Any:
    """The one line of an entry about the call `t1c2`."""
    [line] = Story("run-1", whole=whole).tell({"callId": "t1c2", "tool": "pay", **entry})
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

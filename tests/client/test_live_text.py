"""An answer in composed calling is read by people while it grows, and never as JSON."""

import json
from typing import Any

import pytest

from holdfast.cli.screens.plain import Activity
from holdfast.client.stream.heartbeats import AnswerProgress, answer_text, composed_text
from holdfast.schemas.log_entry import (
    ConfirmationRequiredEntry,
    ToolEndEntry,
    ToolStartEntry,
    TurnStartEntry,
)
from holdfast.schemas.run import ReportedCall
from tests.cli.test_asking import waiting

ANSWER = json.dumps(
    {
        "calls": [
            {"_tool": "find_order", "order_id": "A1", "_outputPath": None},
            {"_tool": "mail", "text": 'She said "]}, {".'},
        ],
        "output": "Done:\nall “is” refunded\u2028 to \U0001f600.",
    }
)
FIRST = 'find_order order_id="A1"'
SECOND = 'mail text="She said \\"]}, {\\"."'


@pytest.mark.parametrize(
    ("so_far", "seen"),
    [
        ("", ""),
        ('{"calls": [', ""),
        ('{"calls": [{"_to', ""),
        ('{"calls": [{"_tool": "find_order", "ord', "find_order …"),
        ('{"calls": [{"_tool": "find_order", "order_id": "A1"}', "find_order …"),
        (ANSWER.partition(', {"_tool": "mail"')[0] + ', {"_tool": "ma', f"{FIRST}\nma …"),
        (ANSWER.partition('"]}, {')[0], f"{FIRST}\nmail …"),
        (ANSWER.partition(', "output"')[0], f"{FIRST}\nmail …"),
        (ANSWER.partition("all ")[0], f"{FIRST}\n{SECOND}\nDone:\n"),
        (ANSWER, f"{FIRST}\n{SECOND}\nDone:\nall “is” refunded\u2028 to \U0001f600."),
        ('{"calls": [], "output": nul', ""),
        ('{"calls": [], "output": null}', ""),
        ('{"calls":[],"output":{"mood": "go', '{"mood": "go"}'),
        ('{"calls": 7, "output": "a"}', "a"),
        ('{"output": "Hel', "Hel"),
        ('{"calls": [7, {"_tool": 7}], "output": "a', "\n7\na"),
    ],
)
def test_the_text_of_an_answer_so_far(so_far: str, seen: str) -> None:
    assert composed_text(so_far, 0) == seen


def test_the_end_of_an_answer_is_marked() -> None:
    texts = [AnswerProgress("7/1", 1, "the end.", offset, []) for offset in (0, 900)]
    assert [answer_text(one) for one in texts] == ["the end.", "… the end."]


def test_every_beginning_of_an_answer_can_be_shown() -> None:
    for end in range(len(ANSWER)):
        seen = composed_text(ANSWER[:end], 0)
        assert not any(piece in seen for piece in ('{"', '"output', "_tool", "null", "\\u"))


@pytest.mark.parametrize(("text", "offset"), [("I think that", 0), ('o", "b": 1}], "ou', 16_000)])
def test_text_in_no_known_form_is_shown_by_its_length(text: str, offset: int) -> None:
    assert composed_text(text, offset) == f"(an answer of {offset + len(text):,} characters so far)"


def test_a_person_reads_no_json_of_an_answer_that_streams_by() -> None:
    activity = Activity()
    activity.streaming = AnswerProgress("7/1", 1, '{"calls": [], "output": "All is w', 0, [], True)
    assert activity.last_lines(80, 24) == ["All is w"]

    activity.streaming = AnswerProgress("7/1", 1, '{"calls": [], "output": "All is w', 0, [])
    assert activity.last_lines(80, 24) == ['{"calls": [], "output": "All is w']


def written(
    text: str, offset: int = 0, key: str = "7/1", calls: list[Any] | None = None
) -> AnswerProgress:
    return AnswerProgress(key, int(key[-1]), text, offset, calls or [])


def starts(call: str, tool: str) -> ToolStartEntry:
    return ToolStartEntry(turn=1, call_id=call, tool=tool)


def test_the_end_of_the_answer_fits_the_terminal() -> None:
    activity = Activity()
    activity.streaming = written(
        "word " * 1000 + "\x1b[2Jend", calls=[{"tool": "pay", "arguments": "{"}]
    )

    lines = activity.last_lines(width=40, height=8)

    assert len(lines) <= 5
    assert all(len(line) <= 40 for line in lines)
    assert lines[-2].endswith("end")
    assert lines[-1] == "pay {"


def test_the_current_activity_is_shown() -> None:
    activity = Activity()
    assert activity.text() == "starting"
    activity.add_entry(TurnStartEntry(turn=2))
    activity.streaming = written("x", key="7/3")
    assert activity.text() == "turn 2: the model answers (attempt 3)"
    activity.add_entry(starts("t2c1", "pay"))
    assert activity.text() == "running pay (t2c1)"
    activity.add_entry(ToolEndEntry(turn=1, call_id="t2c1", tool="pay"))
    activity.add_entry(ConfirmationRequiredEntry(turn=2, call_id="t2c2", approval=waiting()))
    assert activity.text() == "waiting for a person's decision"
    activity.retry = "attempt 3 of t2c1 at 14:03:07"
    assert activity.text() == "waiting for a person's decision; attempt 3 of t2c1 at 14:03:07"


def stands(**stages: str) -> list[ReportedCall]:
    return [ReportedCall(call_id=call, tool="look", stage=stage) for call, stage in stages.items()]


def test_only_running_calls_are_shown_as_running_before_a_turn_ends() -> None:
    activity = Activity()
    activity.add_entry(TurnStartEntry(turn=1))
    for call in ("t1c1", "t1c2"):
        activity.add_entry(starts(call, "look"))

    activity.show_calls(stands(t1c1="ended", t1c2="running", t1c3="waiting", t1c4="pending"))
    assert activity.text() == "running look (t1c2); 1 ended, 1 delayed by the rate limit"
    activity.show_calls(stands(t1c1="ended", t1c2="ended", t1c3="waiting", t1c4="queued"))
    assert (
        activity.text() == "waiting for a person's decision; 2 ended, 1 delayed by the rate limit"
    )
    activity.add_entry(starts("t1c4", "pay"))
    assert activity.text() == "running pay (t1c4); 2 ended"
    activity.show_calls(stands(t1c1="ended", t1c2="ended", t1c3="ended", t1c4="unsure"))
    assert activity.text() == "waiting for a person's decision; 3 ended"

    for call in ("t1c1", "t1c2", "t1c3", "t1c4"):
        activity.add_entry(ToolEndEntry(turn=1, call_id=call, tool="look"))
    activity.show_calls([])
    assert activity.text() == "turn 1"


def test_many_that_run_leave_room_for_how_many_have_ended() -> None:
    activity = Activity()
    for n in range(40):
        activity.add_entry(starts(f"t1c{n}", "look"))
    activity.show_calls(stands(**{f"t1c{n}": "ended" if n < 9 else "running" for n in range(40)}))
    assert activity.text().endswith("…; 9 ended")
    assert len(activity.text()) < 78

"""An answer in composed calling is read by people while it grows, and never as JSON."""

import json

import pytest

from holdfast.cli.screens.activity_line import Activity
from holdfast.client.run_handle import AnswerProgress
from holdfast.client.stream.live_text import composed_text

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
        ('{"calls": [{"_tool": "find_order", "order_id": "A1"}', FIRST),
        (ANSWER.partition(', {"_tool": "mail"')[0] + ', {"_tool": "ma', FIRST),
        (ANSWER.partition('"]}, {')[0], f"{FIRST}\nmail …"),
        (ANSWER.partition(', "output"')[0], f"{FIRST}\n{SECOND}"),
        (ANSWER.partition("all ")[0], f"{FIRST}\n{SECOND}\nDone:\n"),
        (ANSWER, f"{FIRST}\n{SECOND}\nDone:\nall “is” refunded\u2028 to \U0001f600."),
        ('{"calls": [], "output": nul', ""),
        ('{"calls": [], "output": null}', ""),
        ('{"calls":[],"output":{"mood": "go', '{"mood": "go'),
        ('{"output": "Hel', "Hel"),
        ('{"calls": [7, {"_tool": 7}], "output": "a', "\n7\na"),
    ],
)
def test_what_an_answer_says_so_far(so_far: str, seen: str) -> None:
    assert composed_text(so_far, 0) == seen


def test_every_beginning_of_an_answer_can_be_told() -> None:
    for end in range(len(ANSWER)):
        seen = composed_text(ANSWER[:end], 0)
        assert not any(piece in seen for piece in ('{"', '"output', "_tool", "null", "\\u"))


@pytest.mark.parametrize(("text", "offset"), [("I think that", 0), ('o", "b": 1}], "ou', 16_000)])
def test_what_is_in_no_such_form_is_told_by_its_length(text: str, offset: int) -> None:
    assert composed_text(text, offset) == f"(an answer of {offset + len(text):,} characters so far)"


def test_a_person_reads_no_json_of_an_answer_that_streams_by() -> None:
    activity = Activity()
    activity.streaming = AnswerProgress("7/1", 1, '{"calls": [], "output": "All is w', 0, [], True)
    assert activity.last_lines(80, 24) == ["All is w"]

    activity.streaming = AnswerProgress("7/1", 1, '{"calls": [], "output": "All is w', 0, [])
    assert activity.last_lines(80, 24) == ['{"calls": [], "output": "All is w']

"""The lines that a log is described in: order, arguments, instance and end of a call."""

from typing import Any, Literal

import pytest

from holdfast.runtime.narration.log_narration import LogNarration, NarrationLine
from holdfast.runtime.narration.phrases import timeout_phrase
from holdfast.schemas.decision import Decided, Kind, Verdict
from holdfast.schemas.log_entry import (
    BudgetThresholdEntry,
    ConfirmationRequiredEntry,
    DecisionEntry,
    LogRecord,
    read_record,
)
from tests.support.news_receivers import WAITING

LONG = "x" * 300
AT = "2026-03-01T14:03:07.000Z"


def narrated(entries: list[dict[str, Any]]) -> list[NarrationLine]:
    """Return the lines of a log's entries."""
    narration = LogNarration("run-1")
    return [line for entry in entries for line in narration.lines(read_record(entry))]


def line_of(entry: dict[str, Any], *, whole: bool = False) -> NarrationLine:
    """Return the one line of an entry about the call `t1c2`."""
    record = read_record({"turn": 1, "callId": "t1c2", "tool": "pay", **entry})
    [line] = LogNarration("run-1", with_all_arguments=whole).lines(record)
    return line


@pytest.mark.parametrize(
    ("entry", "text", "body"),
    [
        (
            {
                "type": "tool_call",
                "arguments": {"amount": "†state.total"},
                "waitsFor": ["t1c1", "t1c3"],
                "reasoning": "It is due.",
            },
            't1c2 pay  amount="†state.total"',
            "waits for t1c1, t1c3\nbecause: It is due.",
        ),
        ({"type": "tool_call", "arguments": {"amount": 5}}, "t1c2 pay  amount=5", ""),
        ({"type": "tool_call", "instance": "first"}, "t1c2 pay of first", ""),
        # A server has given the label, and a model the instance.
        (
            {"type": "tool_call", "label": "Pay: paid by ann (signed)", "instance": "a: paid"},
            't1c2 "Pay: paid by ann (signed)" of "a: paid"',
            "",
        ),
        ({"type": "tool_call", "waitsFor": ["\x1b[2Jt1c1\nt9"]}, "t1c2 pay", "waits for t1c1 t9"),
        # It waited for these arguments.
        ({"type": "tool_start", "arguments": {"amount": 12}}, "t1c2 pay  amount=12", ""),
        (
            {"type": "tool_start", "delegate": "payer"},
            "t1c2 pay",
            "by payer: holdfast watch run-1.t1c2",
        ),
        (
            {"type": "knowledge_used", "name": "opening_hours", "source": "activity"},
            "t1c2 opening_hours (from activity)",
            "",
        ),
        (
            {"type": "summary", "upto": 40, "text": "They looked ten times.", "n": 44},
            "the model reads this in place of entries 1 to 40",
            "They looked ten times.",
        ),
    ],
)
def test_an_entry_is_described_in_one_line(entry: dict[str, Any], text: str, body: str) -> None:
    line = line_of(entry)
    assert (line.text, line.body, line.minor) == (text, body, False)


def test_a_start_that_adds_nothing_to_its_call_is_minor() -> None:
    assert line_of({"type": "tool_start"}).minor


def test_text_without_room_in_a_line_is_shown_below_it_where_all_is_shown() -> None:
    entry = {"type": "tool_start", "arguments": {"text": LONG}}
    assert "…" in line_of(entry).text
    line = line_of(entry, whole=True)
    assert (line.text, LONG in line.body) == ("t1c2 pay", True)


def test_every_line_of_a_call_names_it() -> None:
    call: dict[str, Any] = {"turn": 1, "callId": "t1c1", "tool": "rate"}
    entries: list[dict[str, Any]] = [
        {"type": "tool_call", **call, "instance": "c1"},
        {"type": "tool_start", **call},
        {"type": "tool_end", **call},
        {"type": "message", "message": {"role": "tool", **call, "content": "5"}},
        {"type": "tool_end", **call, "callId": "t1c2"},
    ]
    assert [f"{line.word} {line.text}" for line in narrated(entries)] == [
        "call t1c1 rate of c1",
        "started t1c1 rate of c1",
        "finished t1c1 rate of c1",
        "result t1c1 rate of c1",
        "finished t1c2 rate",
    ]


def ended(value: Any, content: Any, **more: Any) -> list[tuple[str, str, bool]]:
    """Return the lines of a call's end whose result the model reads as `content`."""
    call: dict[str, Any] = {"turn": 1, "callId": "t1c1", "tool": "look"}
    message = {"role": "tool", **call, "content": content}
    end = {"type": "tool_end", **call, "value": value, **more}
    lines = narrated([end, {"type": "message", "message": message}])
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
def test_a_value_that_the_result_holds_is_shown_once(value: Any, content: str) -> None:
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
def test_a_value_that_the_model_is_not_shown_whole_is_shown_with_the_end(
    value: Any, content: Any
) -> None:
    [end, result] = ended(value, content)
    assert (end, result[0]) == (("finished", value, False), "result")


def test_the_details_of_a_tool_for_people_are_shown_with_the_end_in_any_case() -> None:
    content = '{"tool": "look", "trusted": false, "value": 5}'
    assert ended(5, content, details="camera 2")[0] == ("finished", "camera 2", False)


# The words that every surface shares for decisions and timeouts.


@pytest.mark.parametrize(
    ("kind", "decision", "phrase"),
    [
        ("call", "approve", "approved by ada (unverified)"),
        ("call", "edit", "approved with changes by ada (unverified)"),
        ("call", "respond", "answered by ada (unverified)"),
        ("input", "respond", "answered by ada (unverified)"),
        ("plan", "edit", "approved with changes by ada (unverified)"),
        ("plan", "deny", "denied by ada (unverified)"),
        ("reconcile", "approve", "it did not happen, run it again (ada, unverified)"),
        ("reconcile", "respond", "it happened (ada, unverified)"),
        ("reconcile", "deny", "give up (ada, unverified)"),
        ("budget", "approve", "extended by ada (unverified)"),
        ("principal_expired", "approve", "token renewed by ada (unverified)"),
    ],
)
def test_a_decision_has_the_words_of_its_question(
    kind: Kind, decision: Verdict, phrase: str
) -> None:
    question = WAITING.model_copy(update={"kind": kind, "label": "Pay"})
    asked = ConfirmationRequiredEntry(turn=1, call_id="t1c1", approval=question)
    decided = Decided(decision=decision, by="ada", at=AT, digest="d")
    entry = DecisionEntry(call_id="t1c1", decided=decided, outcome="decided")
    narration = LogNarration("order-7")
    [request] = narration.lines(LogRecord(1, AT, asked))
    [line] = narration.lines(LogRecord(2, AT, entry))
    words = {"principal_expired": "token expired", "input": "answer requested"}
    word = words.get(kind, "approval requested")
    assert (request.word, line.text) == (word, f"t1c1 Pay: {phrase}")


@pytest.mark.parametrize(
    ("decision", "quorum", "must"),
    [
        ("approve", 3, "one of 3 people who must"),
        # It may have moved to a rule with another quorum, and its editor may not count.
        ("edit", 3, "and more people must"),
        ("edit", 1, "and more people must"),
    ],
)
def test_a_decision_is_counted_while_more_people_must_agree(
    decision: Literal["approve", "edit"], quorum: int, must: str
) -> None:
    question = WAITING.model_copy(update={"quorum": quorum, "label": "Pay"})
    asked = ConfirmationRequiredEntry(turn=1, call_id="t1c1", approval=question)
    narration = LogNarration("order-7")
    narration.lines(LogRecord(1, AT, asked))
    decided = Decided(decision=decision, by="ada", at=AT, digest="d")
    [line] = narration.lines(LogRecord(2, AT, DecisionEntry(call_id="t1c1", decided=decided)))
    assert (line.word, line.text.endswith(f" by ada (unverified), {must} agree")) == (
        "counted",
        True,
    )


def test_an_edited_plan_is_shown_with_what_the_edit_changes() -> None:
    calls = [{"id": f"t1c{n}", "tool": "pay", "arguments": {"urgent": 1, "n": n}} for n in (1, 2)]
    plan = {"kind": "plan", "tool": "plan", "arguments": {"calls": calls}}
    asked = ConfirmationRequiredEntry(
        turn=1, call_id="t1-plan", approval=WAITING.model_copy(update=plan)
    )
    edited: list[Any] = [{"id": "t1c1", "arguments": {"n": 1, "urgent": True}}]
    entry = DecisionEntry(
        call_id="t1-plan",
        decided=Decided(decision="edit", by="ada", at=AT, digest="d"),
        arguments={"calls": [*edited, {"id": "t1c2", "arguments": {"n": 2, "urgent": 1}}]},
    )
    narration = LogNarration("order-7")
    narration.lines(LogRecord(1, AT, asked))
    [line] = narration.lines(LogRecord(2, AT, entry))
    assert line.body == 't1c1: {"n": 1, "urgent": true}'


@pytest.mark.parametrize(
    ("forwarded", "words"),
    [
        ([], ("approval reminder", "t1c1 Refund an order (2)")),
        (["board", "legal"], ("approval forwarded", "t1c1 Refund an order to board, legal")),
    ],
)
def test_a_reminder_and_a_forward_are_lines(forwarded: list[str], words: tuple[str, str]) -> None:
    asked = ConfirmationRequiredEntry(
        turn=1, call_id="t1c1", reminder=2, forwarded=forwarded, approval=WAITING
    )
    [line] = LogNarration("order-7").lines(LogRecord(1, AT, asked))

    assert (line.word, line.text) == words


def test_a_budget_at_its_threshold_is_a_line() -> None:
    entry = BudgetThresholdEntry(budget="maxTokens", used=8_200, limit=10_000)
    [line] = LogNarration("order-7").lines(LogRecord(1, AT, entry))

    assert (line.word, line.text) == ("budget threshold", "maxTokens: 8200 of 10000 used")


def test_a_timeout_has_the_words_of_its_policy() -> None:
    phrases = {timeout_phrase("call", end) for end in (None, "deny", "fail", "approve")}
    assert phrases == {"it is denied", "the run fails", "it runs without an approval"}
    assert timeout_phrase("call", "fail", is_single_call=True) == "the call fails"
    assert timeout_phrase("reconcile", "fail") == "its outcome stays unknown"
    assert timeout_phrase("budget") == "it is not extended"

"""A person is asked about a call, and what they answer becomes a decision."""

import asyncio
import io
import os
import pty
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.cli.prompts.answers import AnswerSource, Approver, InputEndedError
from holdfast.cli.prompts.decision_prompt import ask_decision
from holdfast.cli.screens.plain import PlainScreen
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision, PendingApproval

Typing = Callable[[str], AnswerSource]


@pytest.fixture
def typing() -> Iterator[Typing]:
    """Answers from a pipe into which a text was written before its end was closed."""
    ends: list[int] = []

    def typed(text: str) -> AnswerSource:
        reading, writing = os.pipe()
        os.write(writing, text.encode())
        os.close(writing)
        ends.append(reading)
        return AnswerSource(reading, Approver("anna", ["finance"]))

    yield typed
    for end in ends:
        os.close(end)


def waiting(kind: str = "call", **more: Any) -> PendingApproval:
    call = {
        "callId": "t2c1",
        "kind": kind,
        "tool": "refund",
        "label": "Refund an order",
        "arguments": {"order_id": "A-1001", "amount": 120},
        "reasoning": "Charged twice.",
        "digest": "d1",
        "nonce": "n1",
        "requestedAt": "2026-01-01T10:00:00Z",
        "expiresAt": "2026-01-08T10:00:00Z",
        "question": "Approval needed.",
    }
    return PendingApproval.read({**call, **more})


async def decided(answers: AnswerSource, call: PendingApproval) -> tuple[Decision | None, str]:
    out = io.StringIO()
    decision = await ask_decision(call, answers, PlainScreen(out, "run-1"))
    return decision, out.getvalue()


async def test_the_person_sees_whose_data_the_call_is_about(typing: Typing) -> None:
    _, seen = await decided(typing("s\n"), waiting(instance="ada"))
    _, of_no_one = await decided(typing("s\n"), waiting())

    assert "t2c1 Refund an order for ada: holdfast decide" in seen
    assert "t2c1 Refund an order: holdfast decide" in of_no_one
    assert QuestionView.of(waiting(instance="ada")).title == "Refund an order for ada (t2c1)"


def plan(**more: Any) -> PendingApproval:
    """A plan of two calls, the second of which waits for the first."""
    first = {"id": "t1c1", "tool": "quote", "arguments": {"item": "7"}, "writes": "†state.price"}
    second = {
        "id": "t1c2",
        "tool": "refund",
        "label": "Refund an order",
        "arguments": {"amount": "†state.price", "note": "a\nwrites †state.nothing"},
        "reasoning": "Charged twice.",
        "waitsFor": ["t1c1"],
    }
    shown = {"tool": "plan", "arguments": {"calls": [first, second]}}
    digest = sha256(canonical_json({**shown, "kind": "plan", "round": 1}))
    call = {"callId": "t1-plan", "label": "plan of 2 calls", "reasoning": None, "digest": digest}
    return waiting("plan", **{**shown, **call, "question": "", **more})


PLAN = """\
waiting    t1-plan plan of 2 calls: holdfast decide run-1 t1-plan approve [--strike CALL]|deny|edit
    Approval of a plan needed: plan of 2 calls (t1-plan)
    1. t1c1 quote: item: "7" writes †state.price
    2. t1c2 Refund an order: amount: †state.price note: "a\\nwrites †state.nothing" after t1c1 \
because: Charged twice.
    edit, for example: {"calls": [{"id": "t1c1"}, {"id": "t1c2", "arguments": {…}}]} (t1c1 stays \
as it is, t1c2 has other arguments)
"""


async def test_a_question_on_a_pipe_is_plain_lines(typing: Typing) -> None:
    waits = plan()
    decision, seen = await decided(typing("k\nt1c2\n"), waits)

    question, until, asked = re.split(r"    (until .*)\n", seen)
    assert re.fullmatch(r"\d\d:\d\d:\d\d", question[:8])
    assert question[9:] == PLAN
    assert re.fullmatch(r"until 2026-01-0\d .* \(requested \d+ \w+ ago\)", until)
    assert asked == (
        "t1-plan:  [a]pprove  [d]eny  stri[k]e calls out  [e]dit  [s]kip  > k\n"
        "Strike out which calls, such as t1c2 t1c3 (empty: back): t1c2\n"
    )
    assert decision is not None
    by = {"callId": "t1-plan", "nonce": "n1", "by": "anna", "groups": ["finance"]}
    edit = {"decision": "edit", "arguments": {"calls": [{"id": "t1c1"}]}}
    assert decision.to_json() == by | edit | {"digest": waits.digest}


async def test_a_decision_is_given_also_when_the_answers_end_before_its_reason(
    typing: Typing,
) -> None:
    decision, _ = await decided(typing("d\n"), waiting())

    assert decision is not None
    by = {"callId": "t2c1", "digest": "d1", "nonce": "n1", "by": "anna", "groups": ["finance"]}
    assert decision.to_json() == by | {"decision": "deny"}


async def test_an_edit_may_change_the_type_of_a_value_alone(typing: Typing) -> None:
    decision, _ = await decided(typing('e\n{"urgent": true}\n'), waiting(arguments={"urgent": 1}))
    assert decision is not None
    assert decision.arguments == {"urgent": True}


@pytest.mark.parametrize("no_file", ["editor", "folder"])
async def test_an_editor_that_leaves_no_file_leads_back_to_the_question(
    monkeypatch: pytest.MonkeyPatch, no_file: str
) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setenv("VISUAL", "rm" if no_file == "editor" else "true")
    if no_file == "folder":
        monkeypatch.setattr("tempfile.tempdir", "/no/such/folder")
    answers = AnswerSource(theirs, Approver("anna"))
    answers.forget_typed = lambda: None  # type: ignore[method-assign]
    os.write(ours, b"e\ns\n")
    decision, seen = await decided(answers, waiting())
    os.close(ours)
    os.close(theirs)
    assert decision is None
    assert f"The editor `{os.environ['VISUAL']}` returned no arguments: [Errno 2] No such" in seen


async def test_a_plan_that_is_not_shown_whole_is_not_struck_from_unseen(typing: Typing) -> None:
    decision, seen = await decided(typing("k\nt1c2\ns\n"), plan(digest="another"))

    assert decision is None
    assert "That is not possible: the plan is too large to be shown whole" in seen


def test_what_has_no_room_in_a_question_is_counted() -> None:
    [(_, note)] = QuestionView.of(waiting(arguments={"note": "x" * 4_100})).rows
    assert note.endswith("x\n… 100 more characters: see holdfast approvals --json")
    calls = [{"id": f"t1c{n}", "tool": "pay"} for n in range(102)]
    rows = QuestionView.of(waiting("plan", arguments={"calls": calls})).rows
    assert len(rows) == 101
    assert rows[-1] == ("…", "2 more calls: see holdfast approvals --json")


async def test_nothing_that_a_model_wrote_moves_the_terminal(typing: Typing) -> None:
    call = waiting(
        label="\x1b[2Jpay",
        reasoning="\x1b]0;title\x07trust me",
        arguments={"to\x1b[1A": "a\u202eb"},
    )

    _, seen = await decided(typing("s\n"), call)

    assert not {"\x1b", "\x07", "\u202e"} & set(seen)


async def test_the_end_of_the_answers_is_no_decision(typing: Typing) -> None:
    with pytest.raises(InputEndedError):
        await decided(typing(""), waiting())


async def test_reading_an_answer_can_be_given_up() -> None:
    reading, writing = os.pipe()
    try:
        asking = asyncio.ensure_future(decided(AnswerSource(reading, Approver("anna")), waiting()))
        await asyncio.wait({asking}, timeout=0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    finally:
        os.close(reading)
        os.close(writing)


async def test_an_endless_line_is_not_read_for_ever() -> None:
    endless = os.open("/dev/zero", os.O_RDONLY)
    try:
        with pytest.raises(InputEndedError):
            await AnswerSource(endless, Approver("anna")).line()
    finally:
        os.close(endless)

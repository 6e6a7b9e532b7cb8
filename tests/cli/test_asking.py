"""A person is asked about a call, and what they answer becomes a decision."""

import asyncio
import io
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.prompts.answers import AnswerSource, Approver, InputEndedError
from holdfast.cli.prompts.decision_prompt import ask_decision
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client.question_text import arguments
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


async def test_the_person_sees_why_with_what_and_on_what_terms(typing: Typing) -> None:
    call = waiting(approvers=["finance"], quorum=2)

    decision, seen = await decided(typing("s\n"), call)

    assert decision is None
    for text in (
        "Refund an order",
        "because: Charged twice.",
        "order_id: A-1001",
        "amount: 120",
        "Approval needed: Refund an order (t2c1)",
        "deny: it does not run, and the model reads your reason",
        "decided by finance",
        "2 people must agree",
        "holdfast decide run-1 t2c1 approve|deny|edit|respond",
        "[a]pprove  [d]eny  [e]dit  [r]espond  [s]kip",
    ):
        assert text in seen


async def test_the_person_sees_whose_data_the_call_is_about(typing: Typing) -> None:
    _, seen = await decided(typing("s\n"), waiting(instance="ada"))
    _, of_no_one = await decided(typing("s\n"), waiting())

    assert "t2c1 Refund an order for ada: holdfast decide" in seen
    assert "t2c1 Refund an order: holdfast decide" in of_no_one
    assert QuestionView.of(waiting(instance="ada")).title == "Refund an order for ada (t2c1)"


EDIT = {"order_id": "A-1001", "amount": 60}
UNCHANGED = '{"order_id": "A-1001", "amount": 120}'


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        *((f"{word}\n", {"decision": "approve"}) for word in ("a", "y", "yes", "approve", " A ")),
        ("n\ntoo old\n", {"decision": "deny", "reason": "too old"}),
        # The answers end before the reason.
        ("d\n", {"decision": "deny"}),
        (f"e\n{json.dumps(EDIT)}\n", {"decision": "edit", "arguments": EDIT}),
        # An edit that does not do leads back to the question.
        *(
            (f"e\n{edit}\na\n", {"decision": "approve"})
            for edit in ("{broken", "[1]", "", UNCHANGED)
        ),
        ('r\n{"ok": true}\n', {"decision": "respond", "result": {"ok": True}}),
        ("r\nit is done\n", {"decision": "respond", "result": "it is done"}),
        ("r\nnull\n", {"decision": "respond", "result": None}),
        ("\nwhat?\na\n", {"decision": "approve"}),
    ],
)
async def test_an_answer_is_a_decision_on_what_was_shown(
    typing: Typing, typed: str, said: dict[str, Any]
) -> None:
    decision, seen = await decided(typing(typed), waiting())

    assert decision is not None
    by = {"callId": "t2c1", "digest": "d1", "nonce": "n1", "by": "anna", "groups": ["finance"]}
    assert decision.to_json() == by | said
    assert seen.count("Answer with one letter") == 2 * ("what?" in typed)
    assert (f"Arguments now: {UNCHANGED}" in seen) is typed.startswith("e")


@pytest.mark.parametrize(
    ("kind", "typed", "verdict", "result"),
    [
        ("input", 'r\n{"answer": "Yes."}\n', "respond", {"answer": "Yes."}),
        ("input", "a\n\nanswer\nYes.\n", "respond", "Yes."),
        ("input", "d\n\n", "deny", None),
        ("reconcile", 'h\n{"id": 7}\n', "happened", {"id": 7}),
        ("reconcile", "c\n3\n", "did_not_happen", None),
        # Nothing that is typed twice runs it again.
        ("reconcile", "n\nn\nr\nr\n2\ng\n", "give_up", None),
        ("reconcile", "g\n", "give_up", None),
        ("budget", "e\n", "approve", None),
        ("budget", "f\n\n", "deny", None),
        ("budget", 'l\n{"maxTurns": 9}\n', "edit", None),
    ],
)
async def test_what_is_no_approval_is_asked_about_in_its_own_words(
    typing: Typing, kind: str, typed: str, verdict: str, result: object
) -> None:
    starts = ["2026-01-01T09:58:04Z", "2026-01-01T09:59:00Z"]
    more: dict[str, Any] = {"reconcile": {"attempts": starts}}.get(kind, {})
    more |= {"arguments": {"maxTurns": 8}} if kind == "budget" else {}
    decision, seen = await decided(typing(typed), waiting(kind, question="", **more))

    assert decision is not None
    assert (decision.decision, decision.result, decision.digest) == (verdict, result, "d1")
    for text in (
        "Attempt 2, outcome unknown: Refund an order (t2c1)",
        "attempt 1: started 2026-01-01 09:58:04 UTC, no result",
    ):
        assert (text in seen) is (kind == "reconcile")
    assert ("To run it a third time, type 3 (empty: back): " in seen) is (typed[0] in "cn")
    assert ("Answer needed: Refund an order (t2c1)" in seen) is (kind == "input")
    assert "[a]pprove" not in seen


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


async def test_the_calls_of_a_plan_are_numbered_with_their_dependencies(typing: Typing) -> None:
    _, seen = await decided(typing("s\n"), plan())

    for text in (
        '    1. t1c1 quote: item: "7" writes †state.price\n',
        '    2. t1c2 Refund an order: amount: †state.price note: "a\\nwrites †state.nothing"',
        "after t1c1 because: Charged twice.",
        "Approval of a plan needed: plan of 2 calls (t1-plan)",
        "holdfast decide run-1 t1-plan approve [--strike CALL]|deny|edit",
        "[a]pprove  [d]eny  stri[k]e calls out  [e]dit  [s]kip",
        'edit, for example: {"calls": [{"id": "t1c1"}, {"id": "t1c2", "arguments": {…}}]}',
    ):
        assert text in seen


async def test_a_call_that_is_a_run_of_another_agent_is_shown_as_one(typing: Typing) -> None:
    calls = [{"id": "t1c1", "tool": "ask", "arguments": {"text": "hi"}, "delegate": "helper"}]
    _, seen = await decided(typing("s\n"), plan(arguments={"calls": calls}))

    assert "1. t1c1 ask: text: hi by agent helper, in a run of its own\n" in seen
    assert 'edit, for example: {"calls": [{"id": "t1c1", "arguments": {…}}]}' in seen


async def test_a_call_that_the_plan_lacks_is_reported_with_those_that_it_has(
    typing: Typing,
) -> None:
    _, seen = await decided(typing("k\nt1c9\ns\n"), plan())

    assert "That is not possible: `t1c9` is no call of this plan; it has `t1c1`, `t1c2`.\n" in seen


@pytest.mark.parametrize("typed", ["k\nt1c2\n", "strike\n t1c2,\n", "k\n\nk\nt1c9\nk\nt1c2\n"])
async def test_calls_are_struck_out_of_a_plan_by_name(typing: Typing, typed: str) -> None:
    waits = plan()
    decision, _ = await decided(typing(typed), waits)

    assert decision is not None
    assert (decision.decision, decision.digest) == ("edit", waits.digest)
    assert decision.arguments == {"calls": [{"id": "t1c1"}]}


async def test_a_plan_that_is_not_shown_whole_is_not_struck_from_unseen(typing: Typing) -> None:
    decision, seen = await decided(typing("k\nt1c2\ns\n"), plan(digest="another"))

    assert decision is None
    assert "That is not possible: the plan is too large to be shown whole" in seen


def test_what_has_no_room_in_a_question_is_counted() -> None:
    [(_, note)] = arguments(waiting(arguments={"note": "x" * 4_100}))
    assert note.endswith("x\n… 100 more characters: see holdfast approvals --json")
    calls = [{"id": f"t1c{n}", "tool": "pay"} for n in range(102)]
    rows = arguments(waiting("plan", arguments={"calls": calls}))
    assert len(rows) == 101
    assert rows[-1] == ("…", "2 more calls: see holdfast approvals --json")


async def test_an_editor_that_cannot_be_started_leads_back_to_the_question(
    typing: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "/no/such/editor")
    answers = typing("e\ns\n")
    answers.terminal = True
    monkeypatch.setattr(answers, "forget_typed", lambda: None)

    decision, seen = await decided(answers, waiting())

    assert decision is None
    assert "The editor `/no/such/editor` cannot be started: " in seen


async def test_a_text_that_is_no_json_is_edited_further(
    typing: Typing, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\ncp "$1" "$0.seen"\necho "$(cat "$1")}" > "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    answers = typing("e\ne\ns\n")
    answers.terminal = True
    monkeypatch.setattr(answers, "forget_typed", lambda: None)

    _, seen = await decided(answers, waiting())

    assert seen.count("That is no JSON: Extra data") == 2
    assert (tmp_path / "editor.seen").read_text().endswith("}}\n\n")


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

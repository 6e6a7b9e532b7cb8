"""The vocabulary for decisions and timeouts that every surface shares."""

import pytest

from holdfast.runtime.narration.log_narration import LogNarration
from holdfast.runtime.narration.phrases import timeout_phrase
from holdfast.schemas.decision import Decided, Kind, PendingApproval, Verdict
from holdfast.schemas.log_entry import ConfirmationRequiredEntry, DecisionEntry, LogRecord

AT = "2026-03-01T14:03:07.000Z"


def question(kind: Kind) -> PendingApproval:
    """Return a question of a kind about the call `t1c1`."""
    return PendingApproval(
        call_id="t1c1",
        kind=kind,
        tool="pay",
        label="Pay",
        arguments={},
        digest="d",
        requested_at=AT,
        expires_at=AT,
    )


@pytest.mark.parametrize(
    ("kind", "decision", "phrase"),
    [
        ("call", "approve", "approved by ada"),
        ("call", "edit", "approved with changes by ada"),
        ("call", "respond", "answered by ada"),
        ("plan", "edit", "approved with changes by ada"),
        ("plan", "deny", "denied by ada"),
        ("reconcile", "approve", "it did not happen, run it again (ada)"),
        ("reconcile", "respond", "it happened (ada)"),
        ("reconcile", "deny", "give up (ada)"),
        ("budget", "approve", "extended by ada"),
    ],
)
def test_a_decision_has_the_words_of_its_question(
    kind: Kind, decision: Verdict, phrase: str
) -> None:
    asked = ConfirmationRequiredEntry(turn=1, call_id="t1c1", approval=question(kind))
    decided = Decided(decision=decision, by="ada", at=AT, digest="d")
    entry = DecisionEntry(call_id="t1c1", decided=decided, outcome="decided")
    narration = LogNarration("order-7")
    narration.lines(LogRecord(1, AT, asked))
    [line] = narration.lines(LogRecord(2, AT, entry))
    assert line.text == f"t1c1 Pay: {phrase}"


def test_a_timeout_has_the_words_of_its_policy() -> None:
    phrases = {timeout_phrase("call", end) for end in (None, "deny", "fail", "approve")}
    assert phrases == {"it is denied", "the run fails", "it runs without an approval"}
    assert timeout_phrase("call", "fail", is_single_call=True) == "the call fails"
    assert timeout_phrase("reconcile", "fail") == "its outcome stays unknown"
    assert timeout_phrase("budget") == "the run ends"

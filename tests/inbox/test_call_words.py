"""A question, and what led to it and came of it, in a person's words (§7)."""

from typing import Any

import pytest

from inbox.call import words
from inbox.call.past import MAX_LINES, past_of
from remote.story import Story
from schemas.decision import Kind, Waiting

AT = "2026-03-01T14:03:07.000Z"


def waiting(kind: Kind = "call", **arguments: Any) -> Waiting:
    """A question."""
    times = {"requestedAt": AT, "expiresAt": AT}
    said = {"callId": "t1c1", "kind": kind, "tool": "pay", "label": "Pay", "digest": "d"}
    return Waiting.read({**said, **times, "arguments": arguments})


def log(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    """A log of these entries."""
    return [{"n": n, "at": AT, "callId": "t1c1", **one} for n, one in enumerate(entries, start=1)]


def asks(kind: Kind = "call") -> dict[str, Any]:
    """The entry of a question."""
    return {"type": "confirmation_required", "approval": waiting(kind).to_json()}


def decided(decision: str) -> dict[str, Any]:
    """The entry of a decision that counts."""
    one = {"decision": decision, "by": "ada", "at": AT, "digest": "d"}
    return {"type": "decision", "decided": one, "outcome": "decided"}


@pytest.mark.parametrize(
    ("arguments", "button"),
    [
        ({}, "Approve: Pay"),
        ({"to": "ada", "amount": 20}, "Approve: Pay, ada, 20"),
        ({"to": "ada", "note": "x" * 61}, f"Approve: Pay, ada, {'x' * 61}"),
        ({"to": "ada", "note": "x" * 62}, "Approve as shown: Pay"),
        ({"to": "ada", "lines": ["a"]}, "Approve as shown: Pay"),
        ({"to": "ada", "express": True}, "Approve as shown: Pay"),
        ({"to": "ada", "note": "a\nb"}, "Approve as shown: Pay"),
    ],
)
def test_the_button_names_every_value_or_none(arguments: dict[str, Any], button: str) -> None:
    assert words.approve_button(waiting(**arguments)) == button


@pytest.mark.parametrize(
    ("kind", "decision", "said"),
    [
        ("call", "approve", "approved by ada"),
        ("call", "edit", "approved with other arguments by ada"),
        ("plan", "edit", "approved with changes by ada"),
        ("reconcile", "approve", "said not to have happened by ada"),
        ("reconcile", "respond", "said to have happened by ada"),
        ("reconcile", "deny", "given up by ada"),
        ("budget", "approve", "extended by ada"),
    ],
)
def test_a_decision_is_told_in_the_words_of_whoever_was_asked(
    kind: Kind, decision: str, said: str
) -> None:
    story = Story("order-7")
    [_, [line]] = [story.tell(entry) for entry in log(asks(kind), decided(decision))]
    assert line.text == f"t1c1 Pay: {said}"


@pytest.mark.parametrize(
    ("decision", "later", "came"),
    [
        ("approve", [], "It has not begun yet."),
        ("approve", ["tool_start"], "It has begun, and has not ended yet."),
        ("approve", ["tool_start", "tool_end"], "It was carried out."),
        ("approve", ["tool_start", "error"], "It ended with an error, which stands below."),
        ("deny", ["error"], "It was not carried out."),
        ("respond", ["tool_end"], "It was not carried out: the answer is its result."),
    ],
)
def test_what_came_of_a_decision_is_a_sentence(decision: str, later: list[str], came: str) -> None:
    bad = {"type": "tool_end", "error": {"code": "denied", "message": "no"}}
    after = [bad if one == "error" else {"type": one} for one in later]
    # A single call that was denied has failed: the last entry's message is a text.
    failed = {"type": "error", "callId": None, "code": "denied", "message": "no"}
    assert words.came(past_of(log(asks(), decided(decision), *after, failed), "r", "t1c1")) == came


def test_a_beginning_that_is_not_shown_is_counted() -> None:
    said = [{"type": "message", "message": {"role": "user", "content": f"{n}"}} for n in range(20)]
    whole = past_of(log(*said[:MAX_LINES], asks()), "r", "t1c1")
    assert (len(whole.led), whole.unshown) == (MAX_LINES, 0)
    cut = past_of(log(*said, asks()), "r", "t1c1")
    assert (len(cut.led), cut.unshown) == (MAX_LINES, 20 - MAX_LINES)
    # The log is longer than what is read of it.
    assert past_of(log(*said, asks())[15:], "r", "t1c1").unshown == 15

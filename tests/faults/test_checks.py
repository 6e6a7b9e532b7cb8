"""What the fault harness takes for wrong: each kind of harm, done to a case in which nothing is."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.harness.case_result import CaseResult, Part
from tests.faults.harness.checks import (
    BROKEN,
    DIFFERENT,
    DISORDER,
    DOUBLED,
    LOST,
    STUCK,
    UNASKED,
    digest,
    judge,
)

PAID = {
    "key": "run/t1c1",
    "tool": "pay",
    "arguments": {"amount": 5.0},
    "result": {"paid": 5.0},
    "at": 1_700_000_000.5,
}
QUESTION = {"callId": "t1c1", "kind": "call", "digest": digest(PAID)}
APPROVED: dict[str, Any] = {
    "type": "decision",
    "callId": "t1c1",
    "outcome": "decided",
    "decided": {
        "decision": "approve",
        "by": "ada",
        "at": "2023-11-14T22:13:20.000Z",
        "digest": digest(PAID),
    },
}
RESULT = {"role": "tool", "callId": "t1c1", "content": '{"paid": 5.0}'}
LOG: list[dict[str, Any]] = [
    {"type": "message", "message": {"role": "user", "content": "go"}},
    {"type": "turn_start", "turn": 1},
    {"type": "tool_call", "turn": 1, "callId": "t1c1", "tool": "pay"},
    {"type": "confirmation_required", "turn": 1, "callId": "t1c1", "approval": QUESTION},
    APPROVED,
    {"type": "tool_start", "turn": 1, "callId": "t1c1", "tool": "pay"},
    {"type": "tool_end", "turn": 1, "callId": "t1c1", "tool": "pay"},
    {"type": "message", "message": RESULT},
    {"type": "write", "path": "†state.paid", "value": 5, "callId": "t1c1"},
    {"type": "turn_end", "turn": 1},
    {"type": "turn_start", "turn": 2},
    {"type": "message", "message": {"role": "assistant", "content": "done"}},
    {"type": "turn_end", "turn": 2},
    {"type": "done", "status": "completed"},
]
NO_EVENTS = ("message", "decision", "write")
RECONCILE = {"callId": "t1c1", "kind": "reconcile", "digest": "again"}
ASKED_AGAIN = {"type": "confirmation_required", "turn": 1, "callId": "t1c1", "approval": RECONCILE}
HAPPENED = {
    **APPROVED,
    "decided": {**APPROVED["decided"], "decision": "respond", "digest": "again"},
}


def left(log: list[dict[str, Any]], id: str = "run", **more: Any) -> CaseResult:
    """What a case leaves behind whose log is this."""
    context = [{"n": number, **copy.deepcopy(entry)} for number, entry in enumerate(log, start=1)]
    events = [entry for entry in context if entry["type"] not in NO_EVENTS]
    made = CaseResult(id, (), result={"output": "done"}, effects=[{**PAID, "key": f"{id}/t1c1"}])
    made.parts = {"": Part(events, context, {"paid": 5}, [], 1)}
    for name, value in more.items():
        setattr(made, name, value)
    return made


def with_(entry: dict[str, Any], *more: dict[str, Any], n: int) -> list[dict[str, Any]]:
    """The log, with entries behind its `n`-th."""
    return [*LOG[:n], entry, *more, *LOG[n:]]


def without(n: int) -> list[dict[str, Any]]:
    """The log, without its `n`-th entry."""
    return [*LOG[: n - 1], *LOG[n:]]


def changed(n: int, **more: Any) -> list[dict[str, Any]]:
    """The log, whose `n`-th entry is another."""
    return [*LOG[: n - 1], {**LOG[n - 1], **more}, *LOG[n:]]


def moved(n: int, to: int) -> list[dict[str, Any]]:
    """The log, whose `n`-th entry stands as the `to`-th."""
    rest = without(n)
    return [*rest[: to - 1], LOG[n - 1], *rest[to - 1 :]]


CALM = left(LOG)


def test_what_is_as_undisturbed_is_right() -> None:
    assert judge(left(LOG, "other"), CALM) == []


def test_a_person_may_be_asked_whether_it_happened() -> None:
    assert judge(left(with_(ASKED_AGAIN, HAPPENED, n=6)), CALM) == []


def _decided(**more: Any) -> dict[str, Any]:
    return {**APPROVED, "decided": {**APPROVED["decided"], **more}}


WRONG: dict[str, tuple[CaseResult, str]] = {
    "it is not done": (left(LOG, stuck="not done"), STUCK),
    "something broke": (left(LOG, broken=["a worker ended by itself"]), BROKEN),
    "an effect twice": (left(LOG, effects=[PAID, PAID]), DOUBLED),
    "an effect under another key": (left(LOG, effects=[PAID, {**PAID, "key": "b"}]), DOUBLED),
    "no effect": (left(LOG, effects=[]), LOST),
    "an effect of another amount": (
        left(LOG, effects=[{**PAID, "arguments": {"amount": 6.0}}]),
        UNASKED,
    ),
    "an effect before its approval": (left(LOG, effects=[{**PAID, "at": 1.0}]), UNASKED),
    "an effect that was denied": (left(changed(5, **_decided(decision="deny"))), UNASKED),
    "another result": (left(LOG, result={"output": "no"}), DIFFERENT),
    "two decisions that count": (left(with_(_decided(by="bob"), n=5)), DOUBLED),
    "a decision that does not decide": (left(changed(5, outcome=None)), LOST),
    "a decision without a question": (left(with_(_decided(digest="x"), n=5)), UNASKED),
    "no one was asked": (left(without(4)), UNASKED),
    "two results of a call": (left(with_(LOG[7], n=8)), DISORDER),
    "no result of a call": (left(without(8)), LOST),
    "two ends of a call": (left(with_(LOG[6], n=7)), DOUBLED),
    "a call that began twice": (left(with_(LOG[5], n=6)), DOUBLED),
    "a call that ends after its turn": (left(moved(7, 13)), DISORDER),
    "no end of a turn": (left(without(10)), LOST),
    "no end of the run": (left(without(14)), DISORDER),
    "something after the end": (left([*LOG, {"type": "turn_start", "turn": 3}]), DISORDER),
    "turns in another order": (left(changed(11, turn=1)), DISORDER),
    "a value written twice": (left(with_(LOG[8], n=9)), DOUBLED),
    "a message that was not heard": (left(without(1)), LOST),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_found(what: str) -> None:
    wrong, kind = WRONG[what]
    assert kind in [problem.kind for problem in judge(wrong, CALM)]


def _gap(part: Part) -> None:
    part.context[-1]["n"] += 1


def _other_state(part: Part) -> None:
    part.state = {"paid": 6}


def _failure(part: Part) -> None:
    part.task_failures.append("NON_DETERMINISTIC_ERROR")


@pytest.mark.parametrize(
    ("harm", "kind"), [(_gap, DISORDER), (_other_state, DIFFERENT), (_failure, BROKEN)]
)
def test_a_part_that_is_wrong_is_found(harm: Callable[[Part], None], kind: str) -> None:
    wrong = left(LOG)
    harm(wrong.parts[""])
    assert [problem.kind for problem in judge(wrong, CALM)] == [kind]


def test_results_come_in_source_order() -> None:
    second = [{**entry, "callId": "t1c2"} for entry in (LOG[2], LOG[5], LOG[6])]
    right = left([*LOG[:3], second[0], *LOG[3:6], second[1], LOG[6], second[2], *LOG[7:]])
    wrong = left([*LOG[:3], second[0], *LOG[3:6], second[1], second[2], LOG[6], *LOG[7:]])
    said = [problem.words for problem in judge(wrong, right)]
    assert "run: tool_end comes as ['t1c2', 't1c1'], not in source order" in said

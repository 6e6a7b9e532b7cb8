"""Two logs side by side: which calls match, what differs in them, and when runs are equal."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from holdfast.client.records.diff_text import VALUE_CHARS, DiffRow, end_changes, summary, turn_rows
from holdfast.client.records.run_diff import (
    MAX_ENTRIES,
    MAX_INSTANCES,
    RecordedRun,
    compare,
    read_recorded_run,
)
from holdfast.client.result import RunEnding
from holdfast.runtime.narration.value_diff import Difference
from holdfast.schemas.internal.run_comparison import ComparedCall, ComparedRun, RunComparison
from holdfast.schemas.run import RunReport, RunResult
from tests.web.run.test_bounds import description

TIMES = {"requestedAt": "2026-01-02T03:04:05Z", "expiresAt": "2026-01-09T03:04:05Z"}
LOOK, PAY, MAIL = ("look", {"id": 7}), ("pay", {"id": 7, "amount": 20}), ("mail", {"to": "ann"})
Call = tuple[str, Any]


def called(*turns: Sequence[Call]) -> list[dict[str, Any]]:
    """Return the log of a run that makes these calls, each with a result."""
    found = list[dict[str, Any]]()
    for turn, calls in enumerate(turns, start=1):
        found.append({"type": "turn_start", "turn": turn})
        for index, (tool, arguments) in enumerate(calls, start=1):
            own = {"turn": turn, "callId": f"t{turn}c{index}", "tool": tool}
            found.append({"type": "tool_call", "arguments": arguments, **own})
            found += [{"type": "tool_start", **own}, {"type": "tool_end", "value": "ok", **own}]
    return found


def asked(call: str, kind: str = "call", **more: Any) -> dict[str, Any]:
    approval = {"callId": call, "kind": kind, "tool": "pay", "label": "Pay", "arguments": PAY[1]}
    approval |= {"digest": "d", **TIMES, **more}
    return {"type": "confirmation_required", "turn": 1, "callId": call, "approval": approval}


def decided(call: str, verdict: str, **more: Any) -> dict[str, Any]:
    made = {"decision": verdict, "at": TIMES["requestedAt"], "digest": "d", "by": "ann"}
    return {"type": "decision", "callId": call, "decided": made, "outcome": "decided", **more}


def message(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, **more}}


def run(name: str, entries: Sequence[dict[str, Any]], **more: Any) -> RecordedRun:
    numbered = [{"n": n, "at": "", **entry} for n, entry in enumerate(entries, start=1)]
    about = {"status": "completed", "run": name, **more.pop("about", {})}
    return RecordedRun(ComparedRun(**about), numbered, **more)


def compared(first: Sequence[dict[str, Any]], second: Sequence[dict[str, Any]]) -> RunComparison:
    return compare(run("a", first), run("b", second))


def pairs(found: RunComparison) -> list[tuple[str | None, str | None, str]]:
    def id_of(call: ComparedCall | None) -> str | None:
        return None if call is None else call.call_id

    return [(id_of(one.first), id_of(one.second), one.status) for one in found.calls]


def shown(changes: Sequence[Difference]) -> list[tuple[str, str, str]]:
    return [(one.place, one.before, one.after) for one in changes]


def first_turn(found: RunComparison) -> list[DiffRow]:
    return dict(turn_rows(found))[1]


EQUAL = ("t1c1", "t1c1", "equal")


@pytest.mark.parametrize(
    ("first", "second", "matched"),
    [
        ([[LOOK], [PAY]], [[LOOK], [PAY]], [EQUAL, ("t2c1", "t2c1", "equal")]),
        (
            [[LOOK, PAY, MAIL]],
            [[PAY, LOOK, MAIL]],
            [("t1c1", "t1c2", "moved"), ("t1c2", "t1c1", "equal"), ("t1c3", "t1c3", "equal")],
        ),
        # A turn more before all others moves nothing.
        (
            [[LOOK], [PAY]],
            [[], [LOOK], [PAY]],
            [("t1c1", "t2c1", "equal"), ("t2c1", "t3c1", "equal")],
        ),
        ([[PAY]], [[("pay", {"amount": 20, "id": 7})]], [EQUAL]),
        ([[PAY]], [[("pay", {"amount": 30, "id": 7})]], [("t1c1", "t1c1", "changed")]),
        (
            [[LOOK, PAY]],
            [[LOOK], [MAIL]],
            [EQUAL, ("t1c2", None, "missing"), (None, "t2c1", "missing")],
        ),
        # Of equal calls, the n-th matches the n-th; the one too many has no match.
        (
            [[PAY, PAY]],
            [[PAY], [PAY], [PAY]],
            [EQUAL, ("t1c2", "t2c1", "equal"), (None, "t3c1", "missing")],
        ),
        # The call that is equal is no match of one that differs before it.
        (
            [[PAY, ("pay", {"id": 8})]],
            [[("pay", {"id": 9}), PAY]],
            [("t1c1", "t1c2", "moved"), ("t1c2", "t1c1", "changed")],
        ),
    ],
    ids=["equal", "moved", "later", "keys", "changed", "missing", "repeated", "nearest"],
)
def test_calls_match_by_arguments_and_then_by_order(
    first: list[list[Call]], second: list[list[Call]], matched: list[tuple[str, str, str]]
) -> None:
    found = compared(called(*first), called(*second))
    assert pairs(found) == matched
    assert found.equal == all(status == "equal" for _, _, status in matched)


def test_a_call_that_people_change_or_refuse_is_another_call() -> None:
    [start, call, began, end] = called([PAY])
    refused = {**end, "value": None, "error": {"code": "denied", "message": "Too much."}}
    approved = [start, call, asked("t1c1"), decided("t1c1", "approve"), began, end]
    edited = [
        *(start, call, asked("t1c1"), decided("t1c1", "edit", arguments={"id": 7, "amount": 5})),
        *(began, end),
    ]
    denied = [start, call, asked("t1c1"), decided("t1c1", "deny"), refused]
    unasked = called([PAY])

    def difference(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> tuple[Any, ...]:
        [one] = compared(first, second).calls
        return one.status, one.differs

    assert difference(approved, approved) == ("equal", [])
    assert difference(approved, unasked) == ("equal", ["decisions"])
    assert difference(approved, edited) == ("changed", ["arguments", "decisions"])
    assert difference(approved, denied) == ("changed", ["execution", "decisions", "result"])
    assert shown(first_turn(compared(approved, denied))[0].differences) == [
        ("execution", "executed", "not executed"),
        ("decisions", "approved", "denied"),
        ("result", "ok", "error: denied\nmessage: Too much."),
    ]


def test_a_question_may_be_asked_again_and_expire() -> None:
    moved = {**decided("t1c1", "edit", arguments={"id": 7, "amount": 5}), "outcome": None}
    expired = {"type": "decision", "callId": "t1c1", "outcome": "expired"}
    ignored = {**decided("t1c1", "approve"), "ignored": "too late", "outcome": None}
    reminder = {**asked("t1c1"), "reminder": 1}
    start = called([PAY])[:2]
    log = [*start, asked("t1c1"), reminder, moved, asked("t1c1"), ignored, expired]
    [call] = compared(log, [*start, asked("t1c1")]).calls
    assert call.first is not None
    assert call.second is not None
    assert call.first.decisions == ["approved with changes", "expired"]
    assert call.second.decisions == ["pending"]


def test_references_are_compared_by_their_values() -> None:
    def log(order: int) -> list[dict[str, Any]]:
        start, call, began, end = called([("pay", {"id": "†state.order"})])
        return [start, call, {**began, "arguments": {"id": order}}, end]

    assert compared(log(7), log(7)).equal
    [call] = compared(log(7), log(8)).calls
    assert (call.status, call.differs) == ("changed", ["arguments"])


def test_arguments_that_are_not_valid_are_compared_as_written() -> None:
    def log(written: str) -> list[dict[str, Any]]:
        start, call, _, end = called([("pay", None)])
        own = {"id": "t1c1", "providerId": "x", "tool": "pay", "arguments": {}, "written": written}
        return [start, message("assistant", "", calls=[own]), call, end]

    assert compared(log('{"amount":'), log('{"amount":')).equal
    assert pairs(compared(log('{"amount":'), log("{}"))) == [("t1c1", "t1c1", "changed")]


def test_a_plan_is_compared_by_its_decision_and_changes_its_calls() -> None:
    start, *rest = called([PAY, MAIL])
    planned = [{"id": "t1c1", "arguments": PAY[1]}, {"id": "t1c2", "arguments": MAIL[1]}]
    question = asked("t1-plan", "plan", tool="plan", arguments={"calls": planned})
    calls = {"calls": [{"id": "t1c1", "arguments": {"id": 7, "amount": 5}}, {"id": "t1c2"}]}
    edited = [start, *rest, question, decided("t1-plan", "edit", arguments=calls)]
    approved = [start, *rest, question, decided("t1-plan", "approve")]
    found = compared(edited, approved)
    assert pairs(found) == [("t1c1", "t1c1", "changed"), ("t1c2", "t1c2", "equal")]
    verdicts = ("plan: approved with changes", "plan: approved")
    assert shown(end_changes(found)) == [("decisions › 1", *verdicts)]
    asked_once = compared(edited, called([PAY, MAIL]))
    assert shown(end_changes(asked_once)) == [("decisions › 1", verdicts[0], "removed")]


def test_results_and_texts_alone_leave_runs_equal() -> None:
    start, call, began, end = called([LOOK])
    first = [message("user", "Hi"), start, message("assistant", "I look."), call, began, end]
    second = [message("user", "Hi"), start, call, began, {**end, "value": "7"}]
    found = compared(first, second)
    assert found.equal
    assert [each.differs for each in found.calls] == [["result"]]
    assert found.turns[0].first == "user: Hi\nmodel: I look."
    assert first_turn(found)[1].words[0] == "equal, other result"


@pytest.mark.parametrize(
    "other",
    [
        {"state": {"paid": 21}},
        {"output": "Paid"},
        {"about": {"status": "failed", "error": "model_error"}},
        {"about": {"lacks": ["it has not ended"]}},
    ],
)
def test_runs_are_equal_with_equal_state_output_and_status(other: dict[str, Any]) -> None:
    same: dict[str, Any] = {"state": {"paid": 20}, "output": "Paid."}
    log = called([PAY])
    assert compare(run("a", log, **same), run("b", log, **same)).equal
    assert not compare(run("a", log, **same), run("b", log, **{**same, **other})).equal


@pytest.mark.parametrize(
    "gap",
    [
        {"type": "left_out"},
        {"type": "of_tomorrow"},
        {"type": "message", "message": {"role": "user", "content": "x"}, "cut": 400_000},
    ],
)
def test_a_log_that_lacks_entries_is_not_known_to_be_equal(gap: dict[str, Any]) -> None:
    log = [*called([PAY]), gap]
    found = compared(log, log)
    assert not found.equal
    assert summary(found) == (
        "Calls: 1 equal. a: entries of its log that were dropped or cut: 1."
        " b: entries of its log that were dropped or cut: 1. The runs are not known to be equal."
    )


def test_a_long_text_is_shown_from_where_it_differs() -> None:
    same = "x" * 3 * VALUE_CHARS
    found = compare(run("a", [], output=f"{same}a{same}"), run("b", [], output=f"{same}b"))
    [(_, before, after)] = shown(end_changes(found))
    assert before.startswith("…xxx")
    assert after == f"…{'x' * 100}b"
    assert len(before) == VALUE_CHARS


@pytest.mark.parametrize("result", ["NaN", '{"rate": 1e999}', "[" * 300 + "]" * 300])
def test_no_result_is_too_odd_to_compare(result: str) -> None:
    start, call, began, end = called([LOOK])
    log = [start, call, began, {**end, "value": None}]
    first = [*log, message("tool", result, callId="t1c1")]
    found = compared(first, [*log, message("tool", "7", callId="t1c1")])
    [row] = first_turn(found)
    assert shown(row.differences) == [("result", json.dumps(result), "7")]
    assert found.equal


def test_text_of_a_run_cannot_command_a_terminal() -> None:
    log = called([("pay\x1b[2J", {"to\x1b[2J": "\u202eann"})])
    [text, call] = first_turn(compared(log, []))
    assert not {"\x1b", "\u202e"} & {*"".join(call.words)}
    assert [one.after for one in text.differences] == ["omitted"]


class ReadRun:
    """A run that answers; `ending` and the rest are what it has."""

    id = "order-7"

    def __init__(
        self, entries: int = 1, instances: int = 0, ending: RunEnding | None = None
    ) -> None:
        self.known = [{"n": n, "type": "turn_start"} for n in range(entries)]
        self.names, self.end = [f"n{n}" for n in range(instances)], ending

    async def describe(self) -> Any:
        closed = None if self.end is None else TIMES["requestedAt"]
        return description([], close_time=closed)

    async def status(self) -> RunReport:
        log = {"entries": len(self.known)}
        return RunReport.read({"status": "running", "log": log, "instances": self.names})

    async def state(self, instance: str | None = None) -> Any:
        return {"of": instance}

    async def entries(self, _: str, last: int) -> AsyncIterator[Any]:
        for entry in self.known[:last]:
            yield entry

    async def ending(self, *, unread: str) -> RunEnding:
        assert unread == "not here"
        assert self.end is not None
        return self.end


STORED = {"_stored": {"sha256": "0" * 64, "sizeBytes": 9, "beginning": "x"}}
RESULT = {"status": "completed", "turns": 1, "calls": 0, "usage": {}}


@pytest.mark.parametrize(
    ("asked_run", "lacks"),
    [
        (ReadRun(), ["it has not ended"]),
        (ReadRun(ending=RunEnding("failed", "model_error")), []),
        (
            ReadRun(ending=RunEnding("completed", result=RunResult.read({**RESULT, "output": 1}))),
            [],
        ),
        (
            ReadRun(
                ending=RunEnding("completed", result=RunResult.read({**RESULT, "output": STORED}))
            ),
            ["its output is in its worker's store, and not read here"],
        ),
        (
            ReadRun(MAX_ENTRIES + 3, MAX_INSTANCES + 2, RunEnding("terminated", "terminated")),
            [
                "the states of 2 instances are not read",
                "the last 3 entries of its log are not read",
            ],
        ),
    ],
    ids=["open", "failed", "completed", "stored", "large"],
)
async def test_what_is_not_read_of_a_run_is_named(asked_run: Any, lacks: list[str]) -> None:
    found = await read_recorded_run(asked_run, unread="not here")
    assert found.about.lacks == lacks
    if asked_run.names:
        assert len(found.state["instances"]) == MAX_INSTANCES

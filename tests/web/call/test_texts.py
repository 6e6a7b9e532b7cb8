"""A question, its history and its outcome, in a person's words (§7)."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast.runtime.narration.phrases import timeout_phrase
from holdfast.schemas.budget import Budget
from holdfast.schemas.decision import Kind, PendingApproval
from holdfast.web import page_text
from holdfast.web.call.history import MAX_DECISIONS, MAX_LINES, CallHistory, history_of
from holdfast.web.pages import display_time
from holdfast.workflows.engine.budget.meter import Meter

AT = "2026-03-01T14:03:07.000Z"


def waiting(kind: Kind = "call", **arguments: Any) -> PendingApproval:
    times = {"requestedAt": AT, "expiresAt": AT}
    said = {"callId": "t1c1", "kind": kind, "tool": "pay", "label": "Pay", "digest": "d"}
    return PendingApproval.read({**said, **times, "arguments": arguments})


def log(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"n": n, "at": AT, "turn": 1, "callId": "t1c1", "tool": "pay", **one}
        for n, one in enumerate(entries, start=1)
    ]


def asks(kind: Kind = "call") -> dict[str, Any]:
    return {"type": "confirmation_required", "approval": waiting(kind).to_json()}


def decided(decision: str) -> dict[str, Any]:
    one = {"decision": decision, "by": "ada", "at": AT, "digest": "d"}
    return {"type": "decision", "decided": one, "outcome": "decided"}


def test_a_beginning_that_is_not_shown_is_counted() -> None:
    said = [{"type": "message", "message": {"role": "user", "content": f"{n}"}} for n in range(20)]
    whole = history_of(log(*said[:MAX_LINES], asks()), "r", "t1c1")
    assert (len(whole.lead_up), whole.hidden_entries) == (MAX_LINES, 0)
    cut = history_of(log(*said, asks()), "r", "t1c1")
    assert (len(cut.lead_up), cut.hidden_entries) == (MAX_LINES, 20 - MAX_LINES)
    # The log is longer than what is read of it.
    assert history_of(log(*said, asks())[15:], "r", "t1c1").hidden_entries == 15


def test_a_group_that_a_question_was_forwarded_to_is_among_its_approvers() -> None:
    asked = asks()["approval"]
    entry = {**asks(), "reminder": 1, "approval": {**asked, "approvers": ["desk", "board"]}}
    question = history_of(log(asks(), entry, decided("approve")), "r", "t1c1").question
    assert question is not None
    assert question.approval.approvers == ["desk", "board"]


@pytest.mark.parametrize(
    ("kind", "on_timeout", "single", "said"),
    [
        ("call", None, False, "it is denied"),
        ("call", "fail", False, "the run fails"),
        ("call", "approve", False, "it runs without an approval"),
        ("call", "approve", True, "it runs without an approval"),
        ("call", "fail", True, "the call fails"),
        ("input", "fail", False, "the run fails"),
        ("input", "fail", True, "the call fails"),
        ("reconcile", "approve", False, "its outcome stays unknown"),
        ("reconcile", "approve", True, "its outcome stays unknown"),
        ("budget", "approve", False, "it is not extended"),
        ("budget", "fail", True, "it is not extended"),
    ],
)
def test_the_outcome_without_a_decision_is_shown(
    kind: Kind, on_timeout: Any, single: bool, said: str
) -> None:
    assert timeout_phrase(kind, on_timeout, is_single_call=single).startswith(said)


@pytest.mark.parametrize("name", ["maxIterations", "maxTurns", "maxCalls", "maxTokens", "maxCost"])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_what_a_yes_would_grant_is_what_the_run_grants(name: Any, limit: int) -> None:
    meter = Meter.of(Budget.model_validate({name: 2}))
    meter.iterations, meter.turns, meter.calls, meter.input_tokens, meter.cost = 3, 3, 3, 3, 3.0
    meter.budget = Budget.model_validate({name: limit})
    used = meter.view(datetime.now(UTC))[name]["used"]
    meter.extend(name)
    assert page_text.extended_limit(name, limit, used, 2) == meter.limit(name)


def test_an_extension_restarts_the_count_of_calls_in_a_row_and_adds_time() -> None:
    meter = Meter.of(Budget.model_validate({"maxSameTool": 2, "maxDuration": "30s", "maxDepth": 4}))
    meter.same_tool = ("pay", 3)
    told = {}
    for name in ("maxSameTool", "maxDuration", "maxDepth"):
        limit = meter.limit(name)
        told[name] = page_text.extended_limit(name, limit, 3, limit)
        meter.extend(name)
        assert told[name] == meter.limit(name)
    assert told == {"maxSameTool": 4, "maxDuration": "1m", "maxDepth": 8}
    meter.extend("maxDuration")
    assert page_text.extended_limit("maxDuration", "1m", None, "30s") == meter.limit("maxDuration")
    none = Meter.of(Budget.model_validate({"maxCalls": 0}))
    none.extend("maxCalls")
    assert page_text.extended_limit("maxCalls", 0, 0, 0) == none.limit("maxCalls")


def test_what_a_budget_was_first_is_that_of_its_first_question() -> None:
    def asked(call_id: str, tool: str, limit: float) -> dict[str, Any]:
        said = waiting("budget", **{tool: limit}).to_json()
        approval = {**said, "tool": tool, "callId": call_id}
        return {"type": "confirmation_required", "callId": call_id, "approval": approval}

    entries = log(
        asked("a", "maxCalls", 9), asked("b", "maxCost", 1.0), asked("c", "maxCost", 2.42)
    )
    assert history_of(entries, "r", "c").first_limit == 1.0
    assert history_of(entries, "r", "a").first_limit == 9
    assert history_of(entries[1:], "r", "c").first_limit is None
    assert history_of(log(asks()), "r", "t1c1").first_limit is None


def test_a_reminder_is_no_new_question_and_an_ignored_one_no_decision() -> None:
    other = {"callId": "t1c9", "type": "decision"}
    ignored = {**other, "ignored": "it does not wait"}
    other["outcome"] = "decided"
    counted = [
        {**other, "decided": {"decision": "deny", "by": f"p{n}", "at": AT, "digest": "d"}}
        for n in range(12)
    ]
    reminded = {**asks(), "reminder": True}
    own = {"type": "tool_call", "tool": "pay", "arguments": {}}
    past = history_of(log(own, *counted, ignored, asks(), reminded), "r", "t1c1")
    assert past.question is not None
    assert (past.question.number, past.earlier_requests, past.lead_up) == (15, [], [])
    assert len(past.earlier_decisions) == MAX_DECISIONS
    assert past.earlier_decisions[-1].text.endswith("denied by p11 (unverified)")


def test_the_outcome_of_a_call_is_shown_up_to_a_bound() -> None:
    said = {"type": "message", "message": {"role": "tool", "callId": "t1c1", "content": "x"}}
    past = history_of(log(asks(), decided("approve"), *[said] * 30), "r", "t1c1")
    assert len(past.outcome_lines) == MAX_LINES


PLAN = {
    "calls": [{"id": f"t1c{n}", "tool": "pay", "label": "Pay", "arguments": {}} for n in (1, 2)]
}


def plan_of(decision: dict[str, Any], *later: dict[str, Any]) -> CallHistory:
    asked = {"type": "confirmation_required", "approval": waiting("plan", **PLAN).to_json()}
    own = [{**one, "callId": "t1-plan"} for one in (asked, decision)]
    return history_of(log(*own, *later), "r", "t1-plan")


def step(number: int, what: str, **more: Any) -> dict[str, Any]:
    return {"type": what, "callId": f"t1c{number}", **more}


def steps_of(past: CallHistory) -> list[tuple[str, str]]:
    return [(one.text, one.tone) for one in past.steps]


def test_a_plan_is_described_step_by_step() -> None:
    outside = '{"tool": "pay", "trusted": false, "value": "x"}'
    result = {"role": "tool", "callId": "t1c1", "content": outside}
    done = [step(1, "tool_start"), step(1, "tool_end"), {"type": "message", "message": result}]
    running = plan_of(decided("approve"), *done, step(2, "tool_start"))
    assert steps_of(running) == [("executed", "good"), ("running", "dim")]
    assert running.stage == "running"
    assert [one.outside for one in running.steps] == [True, False]
    asked = plan_of(
        decided("approve"), step(2, "confirmation_required", approval=waiting().to_json())
    )
    assert steps_of(asked) == [("not started", "dim"), ("waiting for approval", "asks")]
    assert [one.tone for one in asked.steps] == ["dim", "asks"]
    assert asked.stage == "ready"
    assert steps_of(plan_of(decided("deny"))) == [("not executed", "dim")] * 2


@pytest.mark.parametrize(
    ("off", "said"),
    [(timedelta(days=-3), "3 d ago"), (timedelta(days=7, hours=1), "in 7 d"), (None, "")],
)
def test_a_time_has_its_distance(off: timedelta | None, said: str) -> None:
    at = None if off is None else datetime.now(UTC) + off
    found = display_time(at)
    assert (found.relative, bool(found.iso)) == (said, at is not None)
    if at is not None:
        assert found == display_time(at.astimezone(timezone(timedelta(hours=9))).isoformat())

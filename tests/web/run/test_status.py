"""What a run does now, what it cost and what is left (§5, §11): at work, stuck, or over?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.client.errors import EncryptedError, HoldfastError, NoWorkerError
from holdfast.client.result import RunEnding
from holdfast.client.stream.heartbeats import CallProgress, PendingActivity
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import RunReport, RunResult, Spent
from holdfast.web.page_text import budget_uses, status_label
from holdfast.web.run.snapshot import EntryRange, LoadedRun, RunInfo
from holdfast.web.run.timeline import Timeline
from holdfast.web.run.view import calls_in_progress, status_items, used_text

AT = datetime(2026, 3, 1, 14, 3, tzinfo=UTC)
KNOWN = RunInfo("order-7", "desk", AT, "running")
CALLS = [{"callId": "t1c1", "tool": "pay", "stage": "running"}]
PAY = PendingApproval(
    call_id="t1c1",
    kind="call",
    tool="pay",
    label="Pay",
    arguments={"amount": 20},
    digest="d",
    requested_at="2026-03-01T14:03:00Z",
    expires_at="2026-03-02T14:03:00Z",
)


def texts(seen: LoadedRun) -> list[str]:
    return [one.text for one in status_items(seen, Timeline("order-7").name)]


def report(**more: Any) -> RunReport:
    return RunReport.read({"status": "running", **more})


def at_work(*doing: PendingActivity, **more: Any) -> LoadedRun:
    known = replace(KNOWN, activities=doing)
    return LoadedRun(known, report(**{"calls": CALLS, **more}), has_answered=True)


def test_it_waits_for_a_person_with_what_and_since_when() -> None:
    seen = LoadedRun(KNOWN, report(status="awaiting_approval"), [PAY], has_answered=True)
    [one] = status_items(seen, Timeline("order-7").name)
    assert one.text == "Approval needed: Pay (t1c1)."
    assert one.why == "Amount 20"
    assert (one.since, one.expires, one.lapse) == (AT, AT + timedelta(days=1), "it is denied")
    assert one.link is not None
    assert one.link.href == "/waiting/order-7/t1c1"


def test_a_pending_plan_is_the_names_of_its_steps() -> None:
    calls = [{"id": f"t1c{n}", "tool": "pay", "label": f"Pay {n}"} for n in (1, 2)]
    plan = PAY.model_copy(update={"kind": "plan", "arguments": {"calls": calls}})
    [one] = status_items(LoadedRun(KNOWN, report(), [plan], has_answered=True), str.__add__)
    assert one.why == "1. Pay 1, 2. Pay 2"


def test_a_pending_approval_of_a_delegate_links_to_it() -> None:
    there = {"workflowId": "order-7.t1c1", "callId": "t1c1", "kind": "call"}
    pending = [{**there, "tool": "pay", "label": "Pay", "arguments": "amount=20"}]
    view = {"callId": "t1c1", "tool": "ask", "agent": "clerk", "workflowId": "order-7.t1c1"}
    delegates = [{**view, "status": "awaiting_approval", "pending": pending}]
    [one] = status_items(at_work(delegates=delegates), Timeline("order-7").name)
    assert one.text == "A delegate is waiting for approval: Pay (t1c1)."
    assert one.link is not None
    assert one.link.href == "/waiting/order-7.t1c1/t1c1"


@pytest.mark.parametrize(
    ("doing", "text", "tone"),
    [
        (PendingActivity("1", "generate", AT), "Waiting for the model.", "plain"),
        (PendingActivity("1", "generate", AT, is_started=False), "Requesting the model.", "plain"),
        (PendingActivity("t1c1", "Pay", AT), "Executing t1c1 pay.", "plain"),
        (
            PendingActivity("t1c1", "Pay", AT, "pay\u202ements", is_started=False),
            "Executing t1c1 pay, as soon as a worker on task queue payments takes it.",
            "plain",
        ),
        (
            PendingActivity("t1c1", "Pay", AT, attempt=3, last_failure="no route"),
            "Executing t1c1 pay (attempt 3).",
            "bad",
        ),
        (
            PendingActivity(
                "1",
                "generate",
                AT,
                attempt=2,
                is_started=False,
                last_failure="429",
                next_attempt_at=AT,
            ),
            "Requesting the model: retrying soon (attempt 2).",
            "bad",
        ),
        (PendingActivity("t1c1", "Pay", AT, is_paused=True), "Executing t1c1 pay: paused.", "bad"),
        (
            PendingActivity("t1c1-before", "guard", AT),
            "A hook (before) decides about t1c1.",
            "plain",
        ),
        (PendingActivity("9", "other", AT), "Running other.", "plain"),
    ],
)
def test_running_activities_are_shown_and_whether_they_are_stuck(
    doing: PendingActivity, text: str, tone: str
) -> None:
    [one] = status_items(at_work(doing), Timeline("order-7").name)
    assert (one.text, one.tone, one.since) == (text, tone, AT)
    assert one.why == (f"Last attempt failed: {doing.last_failure}" if doing.last_failure else "")


def test_a_running_call_shows_its_progress() -> None:
    doing = [
        PendingActivity("t1c1-again2", "Pay", AT, progress=CallProgress("t1c1", 1, "step 1 of 3")),
        PendingActivity("9", "other", AT),
    ]
    pay, other = status_items(at_work(*doing), Timeline("order-7").name)
    assert (pay.call, pay.progress) == ("t1c1", "step 1 of 3")
    assert (other.call, other.progress) == ("", "")


def test_a_queued_request_is_shown_as_queued() -> None:
    seen = at_work(PendingActivity("1", "generate", AT, is_started=False))
    [text] = texts(replace(seen, info=replace(seen.info, is_rate_limited=True)))
    assert text == "Waiting for its turn at the model (maxRequestsPerMinute)."
    seen = at_work(PendingActivity("1", "generate", AT))
    [text] = texts(replace(seen, info=replace(seen.info, is_rate_limited=True)))
    assert text == "Waiting for the model."


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (NoWorkerError("holdfast"), "start one: holdfast worker --task-queue holdfast"),
        (EncryptedError("it is encrypted", "name its key"), "it is encrypted; name its key"),
    ],
)
def test_of_a_run_that_cannot_be_read_the_lists_still_know_what_it_waits_for(
    problem: HoldfastError, why: str
) -> None:
    known = replace(KNOWN, tools=("pay", "mail"), since=AT)
    seen = LoadedRun(known, problem=problem)
    waits, silent = status_items(seen, Timeline("order-7").name)
    assert (waits.text, waits.since) == ("Waiting for approval: pay, mail.", AT)
    assert waits.link is not None
    assert waits.link.href == "/"
    assert silent.text == "The run does not answer."
    assert why in silent.why


def test_a_conversation_waits_for_a_message() -> None:
    seen = LoadedRun(KNOWN, report(status="awaiting_message"), has_answered=True)
    assert texts(seen) == ["Waiting for the next message."]


@pytest.mark.parametrize(
    ("ending", "text", "why", "todo"),
    [
        (RunEnding("stopped"), "Ended by a tool.", "", ""),
        (
            RunEnding("failed", "model_error", "model_error: 401 no key"),
            "Failed: model_error.",
            "401 no key",
            "Check the model's endpoint",
        ),
        (RunEnding("failed", "budget_exceeded", "maxTurns"), "Failed: b", "maxTurns", "larger"),
        (RunEnding("terminated", "terminated", "by\x1b[2J Bo"), "Terminated", "by Bo", "may have"),
        (RunEnding("cancelled", "cancelled", "it was"), "Cancelled.", "it was", ""),
        (RunEnding("timed_out", "timed_out", "long"), "Timed out", "long", "may have"),
        (RunEnding("strange"), "Strange.", "", ""),
    ],
)
def test_an_end_has_a_reason_and_what_to_do(
    ending: RunEnding, text: str, why: str, todo: str
) -> None:
    known = replace(KNOWN, ended=AT)
    seen = LoadedRun(known, report(calls=CALLS), ending=ending, has_answered=True)
    [one] = status_items(seen, Timeline("order-7").name)
    assert one.text.startswith(text)
    assert one.why == why
    assert todo in one.advice
    assert bool(one.advice) == bool(todo)
    assert calls_in_progress(seen, Timeline("order-7").name) == []


def test_an_end_lists_the_messages_that_no_model_has_read() -> None:
    left = {"number": 2, "role": "user", "delivery": "followUp", "text": "and\nthis"}
    usage = dict.fromkeys(("inputTokens", "outputTokens", "cachedTokens", "cost"))
    made = {"status": "stopped", "output": "x", "state": {}, "turns": 1, "calls": 0}
    made |= {"usage": usage, "undelivered": [left]}
    ending = RunEnding("stopped", result=RunResult.read(made))
    told = texts(LoadedRun(replace(KNOWN, ended=AT), ending=ending, has_answered=True))
    assert told == ["Ended by a tool.", "Not delivered: message 2: and this"]


def test_every_call_of_the_turn_has_its_state() -> None:
    stages = ["pending", "queued", "waiting", "unsure", "running", "ended", "proposed"]
    calls = [{"callId": "t1c1", "tool": "pay", "stage": stage} for stage in stages]
    shown = calls_in_progress(at_work(calls=calls), Timeline("order-7").name)
    assert [stage for _, stage in shown] == [
        *("waiting for another call", "queued", "waiting for approval"),
        *("outcome unknown: waiting for a decision", "running", "finished"),
        "proposed",
    ]
    plan = replace(at_work(calls=calls), approvals=[PAY.model_copy(update={"kind": "plan"})])
    assert calls_in_progress(plan, Timeline("order-7").name)[0][1] == "proposed"


def test_usage_is_shown_and_unknown_usage_is_not_zero() -> None:
    budget = {"maxTurns": {"used": 2, "limit": 8}, "maxCalls": {"used": 1, "limit": None}}
    usage = {"inputTokens": 1200, "outputTokens": 30, "cachedTokens": 0, "cost": 0.25}
    seen = at_work(budget=budget, usage=usage)
    assert used_text(seen) == "2 turns, 1 call, 1,200 tokens in, 30 out, cost 0.2500"
    seen = at_work(budget=budget, usage={})
    assert used_text(seen) == "2 turns, 1 call, tokens unknown, cost unknown"
    assert used_text(LoadedRun(KNOWN)) == ""


def test_the_usage_of_a_failed_run_is_shown_without_a_worker() -> None:
    spent = Spent(turns=1, calls=0, usage=Usage(input_tokens=9, output_tokens=1))
    seen = LoadedRun(KNOWN, ending=RunEnding("failed", "model_error", "m", spent=spent))
    assert used_text(seen) == "1 turn, 0 calls, 9 tokens in, 1 out, cost unknown"


def test_a_budget_shows_its_remainder() -> None:
    budget = {
        "maxTurns": {"used": 7, "limit": 8},
        "maxCalls": {"used": 40, "limit": 32},
        "maxTokens": {"used": None, "limit": 1000},
        "maxCost": {"used": 0.5, "limit": 2},
        "maxDuration": {"used": "90s", "limit": "10m"},
        "maxSameTool": {"used": 1, "limit": None, "total": {"used": 9, "limit": None}},
        "maxIterations": {"used": 1, "limit": None, "total": {"used": 9, "limit": 10}},
    }
    shown = [
        (one.label, one.used, one.limit, one.remaining, one.is_nearly_used)
        for one in budget_uses(budget)
    ]
    assert shown == [
        ("Requests to the model", "7", "8", "1", True),
        ("Calls", "40", "32", "none", True),
        ("Tokens", "unknown", "1,000", "unknown: not reported by the provider", False),
        ("Cost", "0.5", "2", "1.5", False),
        ("Time at work", "0:01:30", "0:10:00", "0:08:30", False),
        ("Rounds of calls in all", "9", "10", "1", True),
    ]


def test_a_budget_that_nothing_was_used_of_is_not_nearly_used_up() -> None:
    budget = {"maxDuration": {"used": "0ms", "limit": "10m"}, "maxCalls": {"used": 0, "limit": 0}}
    time, calls = budget_uses(budget)
    assert (time.used, time.remaining, time.is_nearly_used) == ("0:00:00", "0:10:00", False)
    assert (calls.used, calls.remaining, calls.is_nearly_used) == ("0", "none", False)


@pytest.mark.parametrize(
    ("span", "length", "first", "last"),
    [
        (EntryRange(), 30, 0, 30),
        (EntryRange(), 250, 150, 250),
        (EntryRange(after=20), 250, 20, 120),
        (EntryRange(after=200), 250, 200, 250),
        (EntryRange(before=151), 250, 50, 150),
        (EntryRange(before=51), 250, 0, 50),
        (EntryRange(before=900), 250, 150, 250),
        (EntryRange(before=1), 250, 0, 0),
    ],
)
def test_a_page_is_of_a_hundred_entries(
    span: EntryRange, length: int, first: int, last: int
) -> None:
    assert span.bounds(length) == (first, last)


def test_every_status_has_words_and_an_unknown_one_is_shown_as_it_is() -> None:
    assert status_label("awaiting_approval") == ("waiting for approval", "asks")
    assert status_label("of\u202e another version") == ("of another version", "bad")

"""What a run does now, what it cost and what is left (§5, §11): at work, stuck, or over?"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.client.command_errors import NoWorkerError
from holdfast.client.result import RunEnding
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import Spent
from holdfast.web.run.cost import budgets, used
from holdfast.web.run.description import Doing, Known
from holdfast.web.run.snapshot import Seen, Span
from holdfast.web.run.status import now, standing
from holdfast.web.run.timeline import Teller

AT = datetime(2026, 3, 1, 14, 3, tzinfo=UTC)
KNOWN = Known(id="order-7", place="", started=AT)
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


def said(seen: Seen) -> list[str]:
    """What goes on, in sentences."""
    return [one.text for one in now(seen, Teller("order-7").name)]


def at_work(*doing: Doing, **status: Any) -> Seen:
    """A run in which this is under way."""
    known = replace(KNOWN, doing=doing)
    return Seen(known, {"status": "running", "calls": CALLS, **status}, answered=True)


def test_it_waits_for_a_person_with_what_and_since_when() -> None:
    seen = Seen(KNOWN, {"status": "awaiting_approval"}, [PAY], answered=True)
    [one] = now(seen, Teller("order-7").name)
    assert one.text == "It waits for a person: Pay (t1c1)."
    assert one.why == "amount=20"
    assert one.since == AT
    assert one.link is not None
    assert one.link.href == "/waiting/order-7/t1c1"


def test_what_waits_in_a_delegate_leads_there() -> None:
    there = {"workflowId": "order-7.t1c1", "callId": "t1c1", "kind": "call"}
    pending = [{**there, "tool": "pay", "label": "Pay", "arguments": "amount=20"}]
    view = {"callId": "t1c1", "tool": "ask", "agent": "clerk", "workflowId": "order-7.t1c1"}
    delegates = [{**view, "status": "awaiting_approval", "pending": pending}]
    [one] = now(at_work(delegates=delegates), Teller("order-7").name)
    assert one.text == "A delegate waits for a person: Pay (t1c1)."
    assert one.link is not None
    assert one.link.href == "/waiting/order-7.t1c1/t1c1"


@pytest.mark.parametrize(
    ("doing", "text", "tone"),
    [
        (Doing("1", "generate", AT), "The model answers.", "plain"),
        (Doing("1", "generate", AT, begun=False), "The model is asked.", "plain"),
        (Doing("t1c1", "Pay", AT), "It carries out t1c1 pay.", "plain"),
        (
            Doing("t1c1", "Pay", AT, "pay\u202ements", begun=False),
            "It carries out t1c1 pay, as soon as a worker on task queue payments takes it.",
            "plain",
        ),
        (
            Doing("t1c1", "Pay", AT, attempt=3, failed="no route"),
            "It carries out t1c1 pay (attempt 3).",
            "bad",
        ),
        (
            Doing("1", "generate", AT, attempt=2, begun=False, failed="429", again_at=AT),
            "The model is asked again soon (attempt 2).",
            "bad",
        ),
        (Doing("t1c1", "Pay", AT, paused=True), "It carries out t1c1 pay: paused.", "bad"),
        (
            Doing("t1c1-before", "guard", AT),
            "A hook (before) is asked about t1c1.",
            "plain",
        ),
        (Doing("9", "other", AT), "It is at work: other.", "plain"),
    ],
)
def test_what_is_under_way_is_told_and_whether_it_is_stuck(
    doing: Doing, text: str, tone: str
) -> None:
    [one] = now(at_work(doing), Teller("order-7").name)
    assert (one.text, one.tone, one.since) == (text, tone, AT)
    assert one.why == (f"The attempt before failed: {doing.failed}" if doing.failed else "")


def test_a_call_under_way_says_what_it_has_told_of_itself() -> None:
    doing = [Doing("t1c1-again2", "Pay", AT, told="step 1 of 3"), Doing("9", "other", AT)]
    pay, other = now(at_work(*doing), Teller("order-7").name)
    assert (pay.call, pay.told) == ("t1c1", "step 1 of 3")
    assert (other.call, other.told) == ("", "")


def test_a_request_that_waits_for_its_turn_says_so() -> None:
    seen = at_work(Doing("1", "generate", AT, begun=False))
    [text] = said(replace(seen, known=replace(seen.known, in_line=True)))
    assert text == "It waits for its turn at the model (maxRequestsPerMinute)."
    seen = at_work(Doing("1", "generate", AT))
    [text] = said(replace(seen, known=replace(seen.known, in_line=True)))
    assert text == "The model answers."


def test_without_a_worker_the_lists_still_know_what_it_waits_for() -> None:
    known = replace(KNOWN, waits_for=("pay", "mail"), waits_since=AT)
    seen = Seen(known, silent=NoWorkerError("holdfast"))
    waits, silent = now(seen, Teller("order-7").name)
    assert (waits.text, waits.since) == ("It waits for a person: pay, mail.", AT)
    assert silent.text == "It does not answer."
    assert "start one: holdfast worker --task-queue holdfast" in silent.why


def test_a_conversation_waits_for_a_message() -> None:
    seen = Seen(KNOWN, {"status": "awaiting_message"}, answered=True)
    assert said(seen) == ["It has answered, and waits for the next message."]


@pytest.mark.parametrize(
    ("ending", "text", "why", "todo"),
    [
        (RunEnding("stopped"), "A tool has ended it.", "", ""),
        (
            RunEnding("failed", "model_error", "model_error: 401 no key"),
            "It has failed: model_error.",
            "401 no key",
            "Check the model's endpoint",
        ),
        (
            RunEnding("failed", "budget_exceeded", "maxTurns"),
            "It has failed: b",
            "maxTurns",
            "larger",
        ),
        (RunEnding("terminated", "terminated", "by\x1b[2J Bo"), "It was term", "by Bo", "may have"),
        (RunEnding("cancelled", "cancelled", "it was"), "It was cancelled.", "it was", ""),
        (RunEnding("timed_out", "timed_out", "long"), "It took longer", "long", "may have"),
        (RunEnding("strange"), "It has ended: strange.", "", ""),
    ],
)
def test_an_end_says_why_and_what_to_do(ending: RunEnding, text: str, why: str, todo: str) -> None:
    seen = Seen(replace(KNOWN, ended=AT), {"calls": CALLS}, ending=ending, answered=True)
    [one] = now(seen, Teller("order-7").name)
    assert one.text.startswith(text)
    assert one.why == why
    assert todo in one.todo
    assert bool(one.todo) == bool(todo)
    assert standing(seen, Teller("order-7").name) == []


def test_every_call_of_the_turn_says_where_it_stands() -> None:
    stages = ["pending", "queued", "waiting", "unsure", "running", "ended", "proposed"]
    calls = [{"callId": "t1c1", "tool": "pay", "stage": stage} for stage in stages]
    shown = standing(at_work(calls=calls), Teller("order-7").name)
    assert [one.stage for one in shown] == [
        *("waits for another call", "waits for its turn", "waits for a person"),
        *("nobody knows how it ended: waits for a person", "is carried out", "has ended"),
        "proposed",
    ]
    plan = replace(at_work(calls=calls), waiting=[PAY.model_copy(update={"kind": "plan"})])
    assert standing(plan, Teller("order-7").name)[0].stage == "proposed"


def test_what_is_used_is_told_and_what_is_not_known_is_not_zero() -> None:
    budget = {"maxTurns": {"used": 2, "limit": 8}, "maxCalls": {"used": 1, "limit": None}}
    usage = {"inputTokens": 1200, "outputTokens": 30, "cachedTokens": 0, "cost": 0.25}
    seen = at_work(budget=budget, usage=usage)
    assert used(seen) == "2 turns, 1 call, 1,200 tokens in, 30 out, cost 0.2500"
    seen = at_work(budget=budget, usage={})
    assert used(seen) == "2 turns, 1 call, tokens unknown, cost unknown"
    assert used(Seen(KNOWN)) == ""


def test_what_a_run_had_used_that_failed_is_told_without_a_worker() -> None:
    spent = Spent(turns=1, calls=0, usage=Usage(input_tokens=9, output_tokens=1))
    seen = Seen(KNOWN, ending=RunEnding("failed", "model_error", "m", spent=spent))
    assert used(seen) == "1 turn, 0 calls, 9 tokens in, 1 out, cost unknown"


def test_a_budget_says_what_is_left_of_it() -> None:
    budget = {
        "maxTurns": {"used": 7, "limit": 8},
        "maxCalls": {"used": 40, "limit": 32},
        "maxTokens": {"used": None, "limit": 1000},
        "maxCost": {"used": 0.5, "limit": 2},
        "maxDuration": {"used": "90s", "limit": "10m"},
        "maxSameTool": {"used": 1, "limit": None},
    }
    shown = [
        (one.name, one.used, one.limit, one.left, one.nearly)
        for one in budgets(at_work(budget=budget))
    ]
    assert shown == [
        ("Requests to the model", "7", "8", "1", True),
        ("Calls", "40", "32", "nothing", True),
        ("Tokens", "unknown", "1,000", "unknown: the provider does not say", False),
        ("Cost", "0.5", "2", "1.5", False),
        ("Time at work", "0:01:30", "0:10:00", "0:08:30", False),
    ]


def test_a_budget_that_nothing_was_used_of_is_not_nearly_used_up() -> None:
    budget = {"maxDuration": {"used": "0ms", "limit": "10m"}, "maxCalls": {"used": 0, "limit": 0}}
    time, calls = budgets(at_work(budget=budget))
    assert (time.used, time.left, time.nearly) == ("0:00:00", "0:10:00", False)
    assert (calls.used, calls.left, calls.nearly) == ("0", "nothing", False)


@pytest.mark.parametrize(
    ("span", "length", "first", "last"),
    [
        (Span(), 30, 0, 100),
        (Span(), 250, 150, 250),
        (Span(after=20), 250, 20, 120),
        (Span(before=151), 250, 50, 150),
        (Span(before=51), 250, 0, 50),
        (Span(before=900), 250, 150, 899),
        (Span(before=1), 250, 0, 0),
    ],
)
def test_a_page_is_of_a_hundred_entries(span: Span, length: int, first: int, last: int) -> None:
    assert span.first(length) == first
    assert span.last(first) == last

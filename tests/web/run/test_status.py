"""What a run does now, what it cost and what is left (§5, §11): at work, stuck, or over?"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.client.result import RunEnding
from holdfast.client.stream.heartbeats import CallProgress, PendingActivity
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import RunReport, Spent
from holdfast.web.page_text import budget_uses
from holdfast.web.run.snapshot import EntryRange, LoadedRun, RunInfo
from holdfast.web.run.timeline import Timeline
from holdfast.web.run.view import status_items, used_text

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


def test_a_running_call_shows_its_progress() -> None:
    doing = [
        PendingActivity("t1c1-again2", "Pay", AT, progress=CallProgress("t1c1", 1, "step 1 of 3")),
        PendingActivity("9", "other", AT),
    ]
    pay, other = status_items(at_work(*doing), Timeline("order-7").name)
    assert (pay.call, pay.progress) == ("t1c1", "step 1 of 3")
    assert (other.call, other.progress) == ("", "")


def test_the_usage_of_a_failed_run_is_shown_without_a_worker() -> None:
    spent = Spent(turns=1, calls=0, usage=Usage(input_tokens=9, output_tokens=1))
    seen = LoadedRun(KNOWN, ending=RunEnding("failed", "model_error", "m", spent=spent))
    assert used_text(seen) == "1 turn, 0 calls, 9 tokens in, 1 out, cost unknown"


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

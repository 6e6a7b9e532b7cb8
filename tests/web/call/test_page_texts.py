"""What the page of a call shows before and after a decision (§7): the outcome if no one
decides, which limit was reached, with what it is and was done, and whose run it is."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest

from holdfast.client.question_text import explanations
from holdfast.client.run_lists import RunListing
from holdfast.schemas.decision import Decision, PendingApproval
from holdfast.schemas.run import RunReport
from holdfast.web.call.decision_form import read_decision
from holdfast.web.call.history import CallHistory
from holdfast.web.call.loader import OpenCall
from holdfast.web.call.view_model import build_closed_page
from holdfast.web.listing.rows import pending_rows
from holdfast.web.pages import ENVIRONMENT
from tests.web.call.test_page import closed_call, page, question, typed
from tests.web.call.test_texts import decided, log
from tests.web.listing.test_rows import ANN, AT, LOST, run, shown, waiting


def in_an_hour() -> str:
    return (datetime.now(UTC) + timedelta(minutes=90)).isoformat()


def plain(html: str) -> str:
    apart = re.sub(r"</(dt|dd|li|p|h1)>", " ", html)
    return " ".join(unescape(re.sub(r"<[^>]+>", "", apart)).split())


def over(one: PendingApproval, *since: dict[str, Any], **more: Any) -> str:
    asks = {"type": "confirmation_required", "approval": one.to_json()}
    closed = closed_call(log(asks, *since), agent="buyer", principal="ada", **more)
    values = build_closed_page(closed, ANN)
    template = ENVIRONMENT.get_template("call/closed.html")
    return plain(template.render(person=ANN, path="/", next_call=None, form=None, **values))


# --- when no one decides -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["call", "plan"])
def test_the_head_of_the_page_warns_where_an_expiry_approves(kind: Any) -> None:
    told = {"kind": kind, "arguments": {"calls": []}, "expiresAt": in_an_hour()}
    html = page(question(onTimeout="approve", **told))
    head = plain(html[: html.index("<section")])
    assert re.search(r"Executed at \S+ \S+ UTC \(in 1 h\) unless denied before\.", head)
    assert '<p class="notice asks"><strong>Executed at' in html
    assert "Executed at" not in page(question(**told))


def test_where_the_run_fails_instead_that_is_shown_less_prominently() -> None:
    html = page(question(onTimeout="fail", expiresAt=in_an_hour()))
    assert "Expires in 1 h, then the run fails." in plain(html[html.index('class="act"') :])
    late = plain(page(question(onTimeout="fail", expiresAt=AT.isoformat())))
    assert re.search(r"Expired [^:]+ ago: once a worker runs, the run fails\.", late)


def test_a_row_shows_how_its_wait_ends_at_any_distance() -> None:
    now = datetime.now(UTC)
    far = {"requestedAt": now.isoformat(), "expiresAt": (now + timedelta(days=30)).isoformat()}
    told = [
        (row.urgency, row.expiry_label)
        for row in shown(
            waiting(onTimeout="approve", **far),
            waiting("t1c2", onTimeout="fail", **far),
            waiting("t1c3", **far),
            # No worker has been there to execute it.
            waiting("t1c4", onTimeout="approve"),
        )
    ]
    assert told == [
        ("executed unless denied", "executed"),
        ("", "the run fails"),
        ("", "expires"),
        ("expired", "expired"),
    ]
    single = pending_rows(run(single=True), [waiting(onTimeout="fail", **far)], ANN, signs=False)
    assert [row.expiry_label for row in single] == ["the call fails"]


def test_what_is_known_of_an_unknown_outcome_is_read_before_the_reason_of_the_model() -> None:
    asked = f"`pay` {LOST}: it took 30 s. Did it happen?"
    text = plain(page(question(kind="reconcile", question=asked, reasoning="It broke.")))
    known = text.index("Pay was started, and its result was not reported: it took 30 s.")
    assert known < text.index("Arguments") < text.index("It happened") < text.index("It broke.")


# --- the limits of a budget --------------------------------------------------------------


def limit(used: Any = 1.42, granted: Any = 1.0, agent: str = "lost_property") -> OpenCall:
    known = RunListing("order-7", "desk", AT, "running", agent=agent)
    one = waiting(kind="budget", tool="maxCost", label="budget maxCost", arguments={"maxCost": 1.0})
    budget = {
        "maxCost": {"used": used, "limit": 1.0},
        "maxTurns": {"used": 2, "limit": 8},
        "maxTokens": {"used": 9, "limit": None},
    }
    report = RunReport(status="running", budget=budget)
    return OpenCall("order-7", known, one, [], CallHistory(first_limit=granted), report)


def test_a_limit_is_shown_in_words_with_what_an_approval_grants() -> None:
    said = plain(page(limit()))
    for one in (
        "lost_property has reached its limit of cost: 1.0 Budget limit reached",
        "Requests to the model 2 of 8",
        "Cost 1.42 of 1.0 limit reached over the limit: running calls are not interrupted",
        "Extend: cost from 1.0 to 2.42",
        "New limit (the total, not an addition)",
    ):
        assert one in said
    assert "Tokens" not in said
    assert "not interrupted" not in plain(page(limit(used=1.0)))
    assert "Cost unknown of 1.0" in plain(page(limit(used=None)))


def test_a_row_names_the_run_and_the_limit_that_it_reached() -> None:
    [row] = shown(limit().approval)
    assert row.title == "The run has reached its limit of cost: 1.0"
    assert row.brief == "Max cost 1.0"


def test_a_grant_is_shown_and_not_as_a_change_of_the_request() -> None:
    entry = {**decided("edit"), "arguments": {"maxCost": 4}}
    said = over(limit().approval, entry)
    assert "buyer has reached its limit of cost: 1.0" in said
    assert "Limit changed by ada (unverified)" in said
    assert "The limit of cost was 1.0, and was set to 4." in said
    assert "Last version" not in said
    budget = {"maxCost": {"used": 1.5, "limit": 2.42}}
    said = over(limit().approval, decided("approve"), budget=budget)
    assert "and is now 2.42." in said


# --- the outcome -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "said"),
    [
        ([decided("approve")], "Arguments: Amount 5 · Text two"),
        ([{**decided("edit"), "arguments": {"amount": 9}}], "Arguments: Amount 9"),
        ([decided("deny")], "Requested arguments: Amount 5 · Text two"),
        ([{"type": "decision", "outcome": "expired"}], "Requested arguments: Amount 5 · Text two"),
    ],
)
def test_the_outcome_shows_its_arguments_and_its_run(
    since: list[dict[str, Any]], said: str
) -> None:
    told = over(waiting(arguments={"amount": 5, "text": "two"}), *since)
    assert f"{said} " in told
    assert "by the agent buyer, on behalf of ada, in the run order-7." in told


def test_an_ended_plan_shows_the_outcome_of_each_step_and_its_run() -> None:
    calls = {"calls": [{"id": "t1c1", "tool": "pay", "arguments": {"amount": 5}}]}
    told = over(waiting(kind="plan", arguments=calls), decided("approve"))
    assert told.startswith("A plan of 1 step ")
    assert "in the run order-7." in told
    assert "1. pay t1c1: not started" in told
    assert "Arguments" not in told


# --- what is only read -------------------------------------------------------------------


def read(schema: dict[str, Any], **arguments: Any) -> str:
    parameters = {"type": "object", "properties": schema}
    html = page(question(tool={"parameters": parameters}, arguments=arguments))
    return html[html.index('id="with"') : html.index('class="card below"')]


def test_a_reader_sees_no_hints_for_input() -> None:
    seats = {"type": "integer", "minimum": 1, "description": "How many."}
    html = page(
        question(tool={"parameters": {"properties": {"seats": seats}}}, arguments={"seats": 3})
    )
    assert "How many." not in read({"seats": seats}, seats=3)
    assert "<dt><code>seats</code></dt><dd>How many.</dd>" in html
    assert "a whole number" not in read({"seats": seats}, seats=3)
    assert "(a whole number; at least 1)" in html


def test_a_list_of_plain_values_is_counted_and_has_a_line_for_each() -> None:
    mails = {"type": "array", "items": {"type": "string", "description": "An address."}}
    html = read({"to": mails}, to=[f"a{n}@b.example" for n in range(36)])
    assert "36 entries" in html
    assert html.count("<li>") == 36
    assert "1 entry" in read({"to": mails}, to=["a@b.example"])
    objects = {"type": "array", "items": {"type": "object"}}
    assert "<li>" not in read({"to": objects}, to=[{"a": 1}])


def test_that_a_tool_is_always_approved_goes_with_a_plain_yes_alone() -> None:
    html = page(question())
    assert html.count('name="remember"') == 1
    assert 'name="remember" value="yes" form="decide"' in html
    assert "Always approve “Pay” in this run" in html
    meant = read_decision(typed("approve", ("remember", "yes")), question(), ANN)
    assert isinstance(meant, Decision)
    assert meant.remember
    denied = read_decision(typed("deny", ("remember", "yes")), question(), ANN)
    assert isinstance(denied, Decision)
    assert not denied.remember


def test_arguments_that_were_filled_in_are_named_on_page_and_terminal() -> None:
    asked = question()
    filled = asked.approval.model_copy(update={"filled_in": ["currency", "to.\u202ename"]})
    said = "Filled in by a default or a hook: currency, to.name"

    assert said in page(replace(asked, approval=filled))
    assert "Filled in" not in page(asked)
    assert said in explanations(filled)

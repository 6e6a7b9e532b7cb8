"""The forms on the page of a call (§7): what a check comes to, what is not sent yet, answers."""

import re
from dataclasses import replace
from typing import Any

from holdfast.schemas.decision import Decision
from holdfast.web.call.decision_form import DecisionForm, FormProblem, read_decision
from holdfast.web.call.history import CallHistory, history_of
from holdfast.web.call.loader import OpenApproval
from holdfast.web.call.view_model import build_call_page
from holdfast.web.pages import ENVIRONMENT
from tests.web.call.test_page import question, typed
from tests.web.call.test_texts import decided, log
from tests.web.forms.submitting import submitted
from tests.web.listing.test_rows import ANN, waiting

CHECK = ("do", "check")


def page(one: OpenApproval, said: DecisionForm | None = None) -> str:
    drawn = said.redraw(one) if said and said.action else said
    values = build_call_page(one, ANN, signs=False, form=drawn)
    template = ENVIRONMENT.get_template("call/page.html")
    return template.render(person=ANN, path="/", call=values, similar=[])


def form(html: str, about: str) -> str:
    [found] = re.findall(rf'<form id="{about}".*?</form>', html, re.S)
    return str(found)


# --- what was checked --------------------------------------------------------------------


# --- plans -------------------------------------------------------------------------------


def test_a_step_stands_open_where_a_button_was_pressed() -> None:
    parameters = {"type": "object", "properties": {"to": {"type": "array"}}}
    calls = [{"id": "t1c1", "tool": "pay", "arguments": {"to": ["ada"]}}]
    one = question(kind="plan", arguments={"calls": calls}, tool={"parameters": parameters})
    html = page(one)
    sent = [pair for pair in submitted(form(html, "edit")) if pair[0] != "about"]
    more = page(one, typed("edit", *sent, ("do", "add:/calls/t1c1/to")))
    back = [pair for pair in submitted(form(more, "edit")) if pair[0] != "about"]
    html = page(one, typed("edit", *back, ("do", "drop:/calls/t1c1/to/1")))
    assert re.search(r'<details class="way" open><summary>Change<', html)
    assert "Removed entry 2" in html


# --- answers -----------------------------------------------------------------------------

SEATS = {
    "type": "object",
    "properties": {"free": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["free"],
}


def test_where_nothing_was_filled_in_nothing_is_answered() -> None:
    for output, wrong in (
        (SEATS, "The answer is invalid"),
        ({**SEATS, "required": []}, "nothing was filled in"),
        ({"type": "array"}, "nothing was filled in"),
    ):
        one = question(tool={"output": output})
        sent = submitted(form(page(one), "respond"))
        said = typed("respond", *[pair for pair in sent if pair[0] != "about"])
        held = read_decision(said, one, ANN)
        assert isinstance(held, FormProblem)
        assert wrong in held.message
        # The page that states so takes it, if that is the answer.
        values = build_call_page(one, ANN, signs=False, form=said, problem=held)
        assert values["is_answer"]
    again = read_decision(replace(said, is_untouched=False), one, ANN)
    assert isinstance(again, Decision)
    assert again.result == []


# --- what was changed --------------------------------------------------------------------


def edited_plan(*edits: list[dict[str, Any]]) -> CallHistory:
    """A plan of three payments that was edited as often."""
    calls = [
        {"id": f"t1c{n}", "tool": "pay", "label": "Pay", "arguments": {"amount": n}}
        for n in (1, 2, 3)
    ]
    asked = waiting(kind="plan", arguments={"calls": calls})
    first = {"type": "confirmation_required", "approval": asked.to_json()}
    made = [
        {**decided("edit"), "outcome": "counted", "arguments": {"calls": list(edit)}}
        for edit in edits
    ]
    made[-1]["outcome"] = "decided"
    return history_of(log(first, *made), "order-7", "t1c1")


def test_a_plan_that_was_edited_twice_keeps_what_the_first_edit_made_of_it() -> None:
    past = edited_plan(
        [{"id": "t1c1", "arguments": {"amount": 8}}, {"id": "t1c2", "arguments": None}],
        [{"id": "t1c1"}],
    )
    plans = [[*one.arguments["calls"]] for one in past.versions]
    assert [[(call["id"], call["arguments"]) for call in calls] for calls in plans] == [
        [("t1c1", {"amount": 1}), ("t1c2", {"amount": 2}), ("t1c3", {"amount": 3})],
        [("t1c1", {"amount": 8}), ("t1c2", {"amount": 2})],
        [("t1c1", {"amount": 8})],
    ]

"""The forms on the page of a call (§7): what a check comes to, what is not sent yet, answers."""

import re
from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run import Run
from holdfast.client.run_lists import RunListing
from holdfast.schemas.decision import Decision
from holdfast.schemas.run import RunReport
from holdfast.schemas.tool import ShownTool
from holdfast.web.call import loader, routes
from holdfast.web.call.decision_form import DecisionForm, FormProblem, read_decision
from holdfast.web.call.history import CallHistory, history_of
from holdfast.web.call.loader import MAX_EDIT_BYTES, ClosedCall, OpenCall
from holdfast.web.call.view_model import build_call_page, build_closed_page
from holdfast.web.pages import ENVIRONMENT
from holdfast.web.services import Services
from tests.web.call.test_loading import request
from tests.web.call.test_page import question, typed
from tests.web.call.test_texts import decided, log
from tests.web.forms.submitting import changed, submitted
from tests.web.listing.test_rows import ANN, AT, waiting

PAYS: dict[str, Any] = {
    "parameters": {"type": "object", "properties": {"amount": {"type": "number"}}},
    "sideEffects": True,
}
AS_ASKED = "Approve the original arguments, without your changes"
BACK = "can’t be undone."
FORM = [("object:/arguments", ""), ("meant:/arguments/amount", "number")]
MORE = [*FORM, ("text:/arguments/amount", "9")]
CHECK = ("do", "check")


def page(one: OpenCall, said: DecisionForm | None = None) -> str:
    drawn = said.redraw(one) if said and said.action else said
    values = build_call_page(one, ANN, signs=False, form=drawn)
    template = ENVIRONMENT.get_template("call/page.html")
    return template.render(person=ANN, path="/", call=values, similar=[])


def form(html: str, about: str) -> str:
    [found] = re.findall(rf'<form id="{about}".*?</form>', html, re.S)
    return str(found)


def pays() -> OpenCall:
    return question(arguments={"amount": 7}, tool=PAYS)


# --- what was checked --------------------------------------------------------------------


def test_the_result_of_a_check_is_in_its_form_before_the_send_button() -> None:
    html = page(pays(), typed("edit", *MORE, CHECK))
    edit = form(html, "edit")
    places = [edit.index(one) for one in ('id="checked"', "<ins>9</ins>", BACK, "Approve with")]
    assert places == sorted(places)
    assert html.count('role="alert"') == edit.count('role="alert"') == 1
    assert html.count(">Approve with these changes<") == 1
    checks = re.findall(r"<button[^>]*>Check<", edit)
    assert len(checks) == 2
    assert all('formaction="#checked"' in one for one in checks)


def test_the_problems_of_a_check_are_shown_too_without_a_warning() -> None:
    wrong = [("text:/arguments/amount", "much"), *FORM]
    edit = form(page(pays(), typed("edit", *wrong, CHECK)), "edit")
    assert "The arguments are invalid" in edit[edit.index('id="checked"') :]
    assert BACK not in edit
    refused = build_call_page(
        pays(), ANN, signs=False, form=typed("edit", *wrong), problem=FormProblem("No.")
    )
    assert not refused["is_checked"]


@pytest.mark.parametrize(
    ("one", "about"),
    [
        (question(tool={"output": {"type": "number"}}), "respond"),
        (
            question(
                arguments={"text": "x" * MAX_EDIT_BYTES}, tool={"parameters": {"type": "null"}}
            ),
            "edit",
        ),
    ],
)
def test_a_problem_of_another_form_or_of_none_is_above_all(one: OpenCall, about: str) -> None:
    html = page(one, typed(about, ("object:/arguments", ""), CHECK))
    assert html.index('role="alert"') < html.index("<h1>")
    assert 'id="checked"' not in html


def test_an_unsent_edit_is_reported_above_it_and_the_original_approved_below_it() -> None:
    html = page(pays(), typed("edit", *MORE, CHECK))
    said, edit = html.index("These are the original arguments."), html.index('<form id="edit"')
    assert said < html.index('<dl class="values">') < edit < html.index(AS_ASKED)
    assert 'class="act tall"' in html
    for more in ([("text:/arguments/amount", "7"), *FORM, CHECK], []):
        html = page(pays(), typed("edit", *more) if more else None)
        assert "These are the original arguments." not in html
        assert AS_ASKED not in html
        assert 'class="act"' in html


# --- plans -------------------------------------------------------------------------------


def plan() -> OpenCall:
    tools = ("pay", "pay", "look", "gone")
    calls = [
        {"id": f"t1c{n}", "tool": tool, "arguments": {"amount": n}}
        for n, tool in enumerate(tools, start=1)
    ]
    one = question(kind="plan", arguments={"calls": calls}, tool=PAYS)
    look = ShownTool.read({"name": "look", "parameters": {"type": "object"}, "approval": {}})
    return replace(one, tools={**one.tools, "look": look})


def step(html: str, number: int) -> str:
    [within] = re.findall(r'<ol class="plan">.*?</ol>', html, re.S)
    return re.split(r"<li>\s+<input type=\"hidden\" name=\"call\"", within)[number]


def of_plan(*keep: str, **amounts: int) -> list[tuple[str, str]]:
    items = [("keep", one) for one in keep]
    for call, amount in amounts.items():
        at = f"/calls/{call}/amount"
        items += [("call", call), (f"object:/calls/{call}", "")]
        items += [(f"text:{at}", str(amount)), (f"meant:{at}", "number")]
    return items


def test_the_steps_of_a_plan_that_change_something_outside_are_marked() -> None:
    html, mark = page(plan()), "side effects"
    assert [mark in step(html, number) for number in (1, 2, 3, 4)] == [True, True, False, True]
    assert "side effects unknown" in step(html, 4)


def test_a_plan_without_changes_and_one_without_a_dependency_are_reported() -> None:
    every = ("t1c1", "t1c2", "t1c3", "t1c4")
    assert "No changes: the whole plan" in page(plan(), typed("edit", *of_plan(*every), CHECK))
    assert "No call would be left" in page(plan(), typed("edit", *of_plan(), CHECK))


@pytest.mark.parametrize(
    ("keep", "warning"),
    [
        (("t1c1", "t1c2", "t1c3", "t1c4"), "The effects of steps 1 and 2 can’t be undone."),
        (("t1c1", "t1c3"), "The effects of step 1 can’t be undone."),
        (("t1c3",), ""),
    ],
)
def test_the_check_of_a_plan_warns_of_what_stays_and_can_be_approved_there(
    keep: tuple[str, ...], warning: str
) -> None:
    html = page(plan(), typed("edit", *of_plan(*keep, t1c1=9), CHECK))
    notice, buttons = html[html.index('id="checked"') :].split('<section class="act', 1)
    assert warning in notice
    assert (BACK in notice) is bool(warning)
    assert "Approve the selected steps" in buttons
    assert html.count('role="alert"') == 1


def test_of_a_step_that_was_changed_what_was_asked_does_not_stand_as_if_it_counted() -> None:
    said = typed("edit", *of_plan("t1c1", "t1c2", t1c1=9, t1c2=2), CHECK)
    html = page(plan(), said)
    changed_, same = step(html, 1), step(html, 2)
    assert changed_.index("<del>1</del>") < changed_.index("<summary>Requested arguments")
    assert changed_.index("<summary>Requested arguments") < changed_.index('<dl class="values">')
    assert "<summary>Requested arguments" not in same
    assert '<dl class="values">' in same


def test_a_step_with_unreadable_input_is_shown_as_changed() -> None:
    form_ = [(name, "much" if text == "9" else text) for name, text in of_plan("t1c1", t1c1=9)]
    changed_ = step(page(plan(), typed("edit", *form_, CHECK)), 1)
    assert "You have changed it below." in changed_
    assert 'class="differences"' not in changed_


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


@pytest.mark.parametrize(("kind", "about"), [("call", "respond"), ("reconcile", "happened")])
def test_an_answer_has_its_fields_at_once(kind: str, about: str) -> None:
    one = question(kind=kind, tool={"output": SEATS})
    html = form(page(one), about)
    assert "omitted" not in html.split("</label>")[0]
    filled = changed(submitted(html), text__result__free="4")
    meant = read_decision(typed(about, *[pair for pair in filled if pair[0] != "about"]), one, ANN)
    assert isinstance(meant, Decision)
    assert meant.result == {"free": 4}


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


def test_an_answer_that_cannot_be_sent_stays_as_it_was_typed() -> None:
    one = question(tool={"output": SEATS})
    sent = [("object:/result", ""), ("text:/result/note", "Two of them.")]
    html = form(page(one, typed("respond", *sent)), "respond")
    assert 'value="Two of them."' in html
    assert 'name="untouched"' not in html


def test_an_unknown_result_is_offered_where_a_run_takes_it() -> None:
    for output, offered in ((None, True), (SEATS, False)):
        html = page(question(kind="reconcile", tool={"output": output}))
        assert ("leave it empty if the result is unknown" in html) is offered


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


def test_changes_of_a_plan_are_shown_step_by_step() -> None:
    past = edited_plan([{"id": "t1c1"}, {"id": "t1c2", "arguments": {"amount": 9}}])
    assert past.question is not None
    known, report = RunListing("order-7", "desk", AT, "running"), RunReport(status="running")
    closed = ClosedCall("order-7", "t1c1", known, past, past.question, report, run_ended=False)
    told = build_closed_page(closed, ANN)["changes"]
    steps = [("Step 2: Pay › amount", "2", "9"), ("Step 3: Pay", "to be executed", "removed")]
    assert [(one.place, one.before, one.after) for one in told] == steps
    # So it is while others have to agree.
    now = past.versions[-1].arguments
    one = question(kind="plan", arguments=now, past=past, tool={})
    asks = build_call_page(one, ANN, signs=False)["changes"]
    assert [(each.place, each.before, each.after) for each in asks] == steps


async def test_so_it_is_where_a_plan_was_changed_meanwhile(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    past = edited_plan([{"id": "t1c1"}, {"id": "t1c2"}])
    one = question(kind="plan", arguments=past.versions[-1].arguments, past=past, tool={})

    async def look(*_: Any) -> OpenCall:
        return one

    async def none(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(loader, "load_visible_call", look)
    monkeypatch.setattr(loader, "find_similar_calls", none)
    monkeypatch.setattr(Run, "approvals", none)
    sent = request(ANN, ("about", "deny"), ("digest", past.versions[0].digest))
    answer = await routes.CallPages(Services(HoldfastClient(nowhere))).decide(sent)
    assert answer.status_code == 409
    [alert] = re.findall(r'role="alert".*?</table>', bytes(answer.body).decode(), re.S)
    assert re.findall(r'role="rowheader">(.*?)</th>', alert) == ["Step 3: Pay"]


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

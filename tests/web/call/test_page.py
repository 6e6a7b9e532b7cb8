"""The page of a call without a run (§7): who may decide, what is sent and shown, its outcome."""

from typing import Any

import pytest
from starlette.datastructures import FormData

from holdfast.client.question_text import explanations
from holdfast.client.run_lists import RunListing
from holdfast.schemas.decision import Decision
from holdfast.schemas.run import RunReport
from holdfast.schemas.tool import ShownTool
from holdfast.web.auth.sessions import Person
from holdfast.web.call.decision_form import DecisionForm, FormProblem, read_decision
from holdfast.web.call.history import CallHistory, history_of
from holdfast.web.call.loader import ClosedApproval, OpenApproval
from holdfast.web.call.view_model import MAX_EDIT_BYTES, build_call_page
from holdfast.web.pages import ENVIRONMENT
from tests.web.call.test_texts import asks, decided, log
from tests.web.listing.test_rows import ANN, AT, waiting

STEPS = {"calls": [{"id": "t1c1", "tool": "pay", "arguments": {}}] * 2}


def question(
    principal: str = "Ada", past: CallHistory | None = None, tool: Any = None, **said: Any
) -> OpenApproval:
    told = {"name": "pay", "parameters": {"type": "object"}, "approval": {}, **(tool or {})}
    tools = {} if tool is None else {"pay": ShownTool.read(told)}
    known = RunListing("order-7", "desk", AT, "running", principal=principal)
    past, report = past or CallHistory(), RunReport(status="running")
    return OpenApproval(known, waiting(**said), [], past, report, tools)


def typed(about: str, *items: tuple[str, str]) -> DecisionForm:
    return DecisionForm.of(FormData([("about", about), *items]))


def page(one: OpenApproval, person: Person = ANN, *, signs: bool = False) -> str:
    values = build_call_page(one, person, signs=signs)
    template = ENVIRONMENT.get_template("call/page.html")
    return template.render(person=person, path="/", call=values, similar=[])


# --- what is sent ------------------------------------------------------------------------


def test_a_decision_is_for_what_was_shown_and_in_the_name_of_who_sends_it() -> None:
    one = question()
    meant = read_decision(typed("deny", ("reason", " No. ")), one, ANN)
    assert isinstance(meant, Decision)
    said = {"callId": "t1c1", "decision": "deny", "digest": one.approval.digest, "reason": "No."}
    assert meant.to_json() == {
        **said,
        "nonce": one.approval.nonce,
        "by": "ann",
        "groups": ["finance"],
    }


def test_a_token_signed_elsewhere_names_its_approver() -> None:
    meant = read_decision(typed("approve", ("token", " a.b.c ")), question(signed=True), ANN)
    assert isinstance(meant, Decision)
    assert (meant.token, meant.by, meant.groups) == ("a.b.c", None, [])


@pytest.mark.parametrize("output", [None, {"type": "string"}], ids=["anything", "text"])
def test_a_reconciled_result_may_be_empty_and_an_answer_may_not(
    output: Any,
) -> None:
    one = question(kind="reconcile", tool={"output": output})
    happened = read_decision(typed("happened"), one, ANN)
    if output is None:
        assert isinstance(happened, Decision)
        assert happened.to_json()["result"] is None
    else:
        assert isinstance(happened, FormProblem)
    assert isinstance(read_decision(typed("respond"), one, ANN), FormProblem)


def test_a_limit_is_set_by_its_form() -> None:
    one = question(kind="budget", tool=None, arguments={"maxCalls": 1})
    form = [("object:/arguments", ""), ("text:/arguments/maxCalls", "9")]
    meant = read_decision(typed("edit", *form, ("meant:/arguments/maxCalls", "number")), one, ANN)
    assert isinstance(meant, Decision)
    assert meant.arguments == {"maxCalls": 9}


MAIL: dict[str, Any] = {"properties": {"to": {"type": "string", "format": "email"}}}


def test_what_looks_wrong_is_held_back_once_and_not_where_it_is_only_checked() -> None:
    one = question(tool={"parameters": {"type": "object", **MAIL}}, arguments={"to": "a@b.example"})
    edit = [("object:/arguments", ""), ("text:/arguments/to", "ada@b")]
    held = read_decision(typed("edit", *edit), one, ANN)
    assert isinstance(held, FormProblem)
    assert "Check these values" in held.message
    assert isinstance(read_decision(typed("edit", *edit, ("do", "check")), one, ANN), Decision)
    doubted = build_call_page(one, ANN, signs=False, form=typed("edit", *edit))["edit"].doubts_mark
    assert isinstance(read_decision(typed("edit", *edit, ("doubted", doubted)), one, ANN), Decision)


def test_in_a_plan_all_values_but_references_are_checked() -> None:
    parameters = {"type": "object", "properties": {"amount": {"type": "number"}}}
    calls = {"calls": [{"id": "t1c1", "tool": "pay", "arguments": {"amount": 1}}]}
    one = question(kind="plan", arguments=calls, tool={"parameters": parameters})
    form = [("call", "t1c1"), ("keep", "t1c1"), ("object:/calls/t1c1", "")]
    at = "text:/calls/t1c1/amount"
    sent = read_decision(typed("edit", *form, (at, "†state.paid")), one, ANN)
    assert isinstance(sent, Decision)
    assert sent.arguments == {"calls": [{"id": "t1c1", "arguments": {"amount": "†state.paid"}}]}
    wrong = read_decision(typed("edit", *form, (at, "much")), one, ANN)
    assert isinstance(wrong, FormProblem)
    assert [*wrong.calls] == ["t1c1"]
    as_it_is = read_decision(
        typed("edit", *form, (at, "1"), ("meant:/calls/t1c1/amount", "number")), one, ANN
    )
    assert isinstance(as_it_is, Decision)
    assert as_it_is.decision == "approve"


# --- what is shown -----------------------------------------------------------------------


def test_what_is_shown_in_part_or_is_too_large_cannot_be_changed_here() -> None:
    large = {"text": "x" * MAX_EDIT_BYTES}
    for said, is_whole in (
        ({}, True),
        ({"digest": "of more"}, False),
        ({"arguments": large}, True),
    ):
        text = page(question(**said))
        assert ("Not everything is shown:" in text) is not is_whole
        assert ("Change the arguments" in text) is (not said)
        assert ("too large to change here" in text) is bool(said)


def test_a_page_shows_so_many_fields_and_a_plan_shares_them_out() -> None:
    many = {f"p{n}": n for n in range(1_200)}
    for count, fields in ((999, 1_000), (1_200, 1)):
        one = question(arguments=dict(list(many.items())[:count]), tool={})
        assert len(build_call_page(one, ANN, signs=False)["arguments"].walk()) == fields
    wide = dict(list(many.items())[:15])
    for steps, fields in ((2, 16), (60, 1)):
        calls = [{"id": f"t1c{n}", "tool": "pay", "arguments": wide} for n in range(steps)]
        one = question(kind="plan", arguments={"calls": calls}, tool={})
        plan = build_call_page(one, ANN, signs=False)["plan"]
        assert {len(step.edit.walk()) for step in plan if step.edit} == {fields}


@pytest.mark.parametrize(
    ("said", "who", "picks"),
    [
        ({}, ANN, True),
        ({"digest": "of more"}, ANN, False),
        (
            {"arguments": {"calls": [{**STEPS["calls"][0], "why": "x" * MAX_EDIT_BYTES}]}},
            ANN,
            False,
        ),
        ({"approvers": ["ops"]}, ANN, False),
    ],
)
def test_a_plan_is_picked_from_by_who_may_where_all_of_it_is_shown(
    said: dict[str, Any], who: Person, picks: bool
) -> None:
    text = page(question(**{"kind": "plan", "arguments": STEPS, **said}), who)
    assert ("Approve the ticked steps" in text) is picks
    assert ('type="checkbox" id="keep1"' in text) is picks


# --- what became of it -------------------------------------------------------------------


def over(*since: dict[str, Any], ended: bool = False) -> ClosedApproval:
    return closed_call(log(asks(), *since), ended=ended)


def closed_call(
    entries: list[dict[str, Any]],
    *,
    budget: dict[str, Any] | None = None,
    ended: bool = False,
    **info: Any,
) -> ClosedApproval:
    history = history_of(entries, "order-7", "t1c1")
    assert history.question is not None
    known = RunListing("order-7", "desk", AT, "running", **info)
    report = RunReport(status="running", budget=budget or {})
    return ClosedApproval(known, history, history.question, report, ended)


def test_a_page_receives_every_event_of_a_call() -> None:
    after = [decided("approve"), {"type": "tool_start"}, {"type": "tool_end"}]
    marks = {over(*after[:count]).mark for count in range(4)} | {over(ended=True).mark}
    assert len(marks) == 5
    assert [over(*after[:count]).is_settled for count in range(4)] == [True, False, False, True]


def test_that_an_address_was_opened_is_one_click() -> None:
    done = {"type": ["object", "null"], "additionalProperties": False, "description": "Open it."}
    one = question(kind="input", form=done)
    assert "Open it." in page(one)
    sent = typed("respond", ("object:/result", ""), ("untouched", "yes"))
    answer = read_decision(sent, one, ANN)
    assert isinstance(answer, Decision)
    assert answer.result == {}


def test_that_a_tool_is_always_approved_goes_with_a_plain_yes_alone() -> None:
    meant = read_decision(typed("approve", ("remember", "yes")), question(), ANN)
    assert isinstance(meant, Decision)
    assert meant.remember
    denied = read_decision(typed("deny", ("remember", "yes")), question(), ANN)
    assert isinstance(denied, Decision)
    assert not denied.remember


def test_arguments_that_were_filled_in_are_named_on_the_terminal() -> None:
    filled = waiting().model_copy(update={"filled_in": ["currency", "to.\u202ename"]})
    assert "Filled in by a default or a hook: currency, to.name" in explanations(filled)

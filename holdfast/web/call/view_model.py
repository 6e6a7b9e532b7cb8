"""The values of the templates of a call's page: of a pending call, and of a closed one.

They contain no markup and decide nothing. The forms contain the input as it was entered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.client.question_text import how_to_decide, how_to_renew
from holdfast.runtime.narration.phrases import (
    EXPIRED,
    filled_in_phrase,
    request_phrase,
    timeout_phrase,
)
from holdfast.runtime.text_safety import as_json, clean, holdfast_command, shorten
from holdfast.schemas.decision import Decision, shown_calls
from holdfast.validation.text_safety import is_same_person
from holdfast.web.auth.permissions import MAY_NOT_DECIDE, has_decided
from holdfast.web.auth.sessions import Person
from holdfast.web.call import phrases
from holdfast.web.call.decision_form import (
    CHECK,
    EDIT,
    RESULT,
    DecisionForm,
    FormProblem,
    again_token,
    read_decision,
)
from holdfast.web.call.loader import ClosedCall, OpenCall
from holdfast.web.call.plan import PlanRow, argument_differences, plan_consequence, plan_rows
from holdfast.web.forms.field_builder import MAX_FIELDS, build_fields
from holdfast.web.forms.fields import Field
from holdfast.web.forms.form_values import MISSING, FormValue, initial_value
from holdfast.web.forms.value_diff import Difference, is_same
from holdfast.web.listing.rows import MAX_BRIEF_CHARS, argument_line
from holdfast.web.page_text import budget_uses, unknown_reason
from holdfast.workflows.engine.approvals.policy import strictest_policy


@dataclass(frozen=True)
class Notice:
    """A message at the top of the page, with differences, problems or doubts below it."""

    tone: str
    text: str
    differences: Sequence[Difference] = ()
    problems: Sequence[tuple[Field, str]] = ()
    doubts: Sequence[Field] = ()


def build_call_page(
    pending: OpenCall,
    person: Person,
    *,
    signs: bool,
    may_decide: bool = True,
    form: DecisionForm | None = None,
    problem: FormProblem | None = None,
    again: bool = False,
) -> dict[str, Any]:
    """Return the values of the page of a pending call.

    `signs`: the inbox signs decisions for the person. `problem` prevents a decision of the `form`.
    `again`: it is the page that runs the call again.
    """
    approval, history, form = pending.approval, pending.history, form or DecisionForm()
    is_edit, is_answer = form.verdict == "edit", form.verdict in ("respond", "happened")
    decision = read_decision(form, pending, person) if form.action == CHECK else None
    if isinstance(decision, FormProblem):
        problem = decision
    wrong, requested = problem or FormProblem(""), FormValue(approval.arguments, {})
    approvals = [tool.approval for tool in pending.tools.values()]
    policy = strictest_policy(approvals) if approvals else None
    principal = pending.run_info.principal
    obstacle, terms = phrases.check_eligibility(approval, policy, person, principal, signs=signs)
    obstacle = obstacle if may_decide else MAY_NOT_DECIDE
    may_edit = not obstacle and pending.is_editable
    edit, plan = _edit_form(pending, form, wrong, may_edit=may_edit)
    result = build_fields(
        pending.output_schema,
        form.result if is_answer else FormValue(initial_value(pending.output_schema), {}),
        place=RESULT,
        prefix="r",
        wrong=wrong.result,
        label="Result" if approval.kind == "reconcile" else "Answer",
    )
    forms = [one for one in (edit, result, *(row.edit for row in plan)) if one is not None]
    selects_steps = any(row.edit is not None for row in plan)
    changes: list[Difference] = []
    if len(history.versions) > 1:
        first = history.versions[0].arguments
        changes = argument_differences(
            approval.kind, first, approval.arguments, pending.tools, pending.schema
        )
    return {
        "pending": pending,
        "phrases": phrases,
        "form": form,
        "notice": _notice(pending, form, forms, problem or decision),
        "signs": signs,
        "obstacle": obstacle,
        "terms": terms,
        "timeout_effect": timeout_phrase(
            approval.kind, approval.on_timeout, is_single_call=pending.run_info.single
        ),
        "has_decided": has_decided(person, approval),
        "title": request_phrase(approval.kind, approval.attempts),
        "heading": phrases.heading(approval, pending.run_info.agent),
        "again": again_token(approval, person) if again else "",
        "unknown_reason": unknown_reason,
        "consequence": plan_consequence(plan) or phrases.consequence(approval, pending.tool),
        "approve_text": phrases.approve_button(
            approval, pending.tool, pending.report.budget, history.first_limit
        ),
        "earlier_times": sum(
            one.approval.kind == approval.kind for one in history.earlier_requests
        ),
        "changes": changes,
        "budget_uses": [*budget_uses(pending.report.budget)],
        "arguments": build_fields(pending.schema, requested, prefix="v", room=5 * MAX_FIELDS),
        "as_json": as_json(approval.arguments, indent=2),
        "filled_in": filled_in_phrase(approval.filled_in),
        "edit": edit,
        "result": result,
        "plan": plan,
        "hidden_steps": len([*shown_calls(approval.arguments)]) - len(plan) if plan else 0,
        "is_changed": is_edit and not is_same(form.edit.value, approval.arguments),
        "is_checked": form.action == CHECK and is_edit and (edit is not None or selects_steps),
        "is_answer": is_answer,
        "selects_steps": selects_steps,
        "command": how_to_decide(pending.run_id, approval),
        "renew_command": how_to_renew(pending.run_id),
        "show_command": holdfast_command("show", pending.run_id, "--json"),
    }


def _edit_form(
    pending: OpenCall, form: DecisionForm, wrong: FormProblem, *, may_edit: bool
) -> tuple[Field | None, list[PlanRow]]:
    """Return the fields of the arguments, or the steps of a plan; None if they are not edited."""
    approval, is_edit = pending.approval, form.verdict == "edit"
    if approval.kind == "plan":
        kept = form.kept_calls if is_edit else None
        return None, plan_rows(
            approval,
            pending.tools,
            may_edit=may_edit,
            entered=form.calls,
            kept_calls=kept,
            problems=wrong.calls,
        )
    if approval.kind in ("input", "reconcile") or not may_edit:
        return None, []
    has_value = is_edit and form.edit.value is not MISSING
    value = form.edit if has_value else FormValue(approval.arguments, {})
    return build_fields(pending.schema, value, place=EDIT, prefix="e", wrong=wrong.edit), []


def _notice(
    pending: OpenCall,
    form: DecisionForm,
    forms: Sequence[Field],
    decision: Decision | FormProblem | None,
) -> Notice | None:
    """Return what prevents a decision, or the effect of a checked one."""
    kind, arguments = pending.approval.kind, pending.approval.arguments
    fields = [one for whole in forms for one in whole.walk()]
    doubts = [one for one in fields if one.doubt and form.verdict == "edit"]
    if isinstance(decision, FormProblem):
        problems = [(one, text) for one in fields for text in one.problems]
        doubts = [] if problems else doubts
        return Notice("bad", decision.message, decision.differences, problems, doubts)
    if decision is None or form.verdict != "edit":
        return None
    # Without arguments, the plan is approved as it is.
    if decision.arguments is None:
        return Notice("good", "No changes: the whole plan would be executed as requested.")
    changes = argument_differences(
        kind, arguments, decision.arguments, pending.tools, pending.schema
    )
    doubts = [] if kind == "plan" else doubts
    return Notice("asks", "Not sent yet. Your changes:", changes, doubts=doubts)


def build_closed_page(closed: ClosedCall, person: Person) -> dict[str, Any]:
    """Return the values of the page of a closed call: its decisions and its outcome."""
    history, question = closed.history, closed.question
    approval, verdict = question.approval, question.verdict
    first, last = history.versions[0].arguments, history.versions[-1].arguments
    if verdict is not None:
        text, at = phrases.decision_text(verdict, approval.kind, person.name), verdict.at
    elif question.expired:
        text, at = EXPIRED.capitalize(), approval.expires_at
    elif closed.run_ended:
        text, at = "Withdrawn: the run ended before a decision", ""
    else:
        text, at = "Withdrawn: the run continued without it", ""
    budget = closed.report.budget.get(approval.tool, {})
    changes: list[Difference] = []
    # The outcome of a limit is described in words.
    if len(history.versions) > 1 and approval.kind != "budget":
        named = {"properties": dict.fromkeys((*first, *last), True)}
        changes = argument_differences(approval.kind, first, last, {}, named)
    arguments = ""
    if approval.kind in ("call", "input", "reconcile"):
        in_line = argument_line(approval.model_copy(update={"arguments": last}))
        arguments = shorten(in_line, MAX_BRIEF_CHARS)
    return {
        "closed": closed,
        "phrases": phrases,
        "verdict": text,
        "decided_at": at,
        "outcome": phrases.outcome_text(question, history.stage),
        "heading": phrases.heading(approval, closed.run_info.agent),
        "arguments": arguments,
        "limit": phrases.limit_outcome(approval, verdict, last, budget.get("limit")),
        "reason": clean(verdict.reason or "") if verdict else "",
        "is_own": verdict is not None and is_same_person(verdict.by, person.name),
        "changes": changes,
        "you": person.name,
    }

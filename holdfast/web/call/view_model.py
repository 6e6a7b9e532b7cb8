"""The values and the texts of a call's page: of a pending call, and of a closed one.

They contain no markup and decide nothing; the forms contain the input as it was entered. The terms
for decisions and timeouts are those of `runtime.narration.phrases`. No text here is written by a
model or a tool's author.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.client.question_text import how_to_decide, how_to_renew
from holdfast.runtime.narration import phrases
from holdfast.runtime.narration.arguments import item_table
from holdfast.runtime.narration.value_diff import MISSING, Difference
from holdfast.runtime.text_safety import (
    as_json,
    clean,
    format_argument,
    holdfast_command,
    one_line,
)
from holdfast.schemas.base import json_size
from holdfast.schemas.decision import Decided, Decision, PendingApproval, shown_calls
from holdfast.schemas.internal.absences import Absence
from holdfast.schemas.phrases import distinct_names
from holdfast.schemas.tool import shown_parameters
from holdfast.validation.text_safety import is_same_person
from holdfast.web import page_text
from holdfast.web.auth.permissions import MAY_NOT_DECIDE, has_decided, is_approver
from holdfast.web.auth.sessions import Person
from holdfast.web.call import decision_form
from holdfast.web.call.decision_form import DecisionForm, FormProblem
from holdfast.web.call.history import CallStage, QuestionRound
from holdfast.web.call.loader import ClosedApproval, OpenApproval
from holdfast.web.call.plan import (
    PlanRow,
    argument_differences,
    plan_button,
    plan_rows,
    step_numbers,
)
from holdfast.web.forms.fields import MAX_FIELDS, Field, build_fields
from holdfast.web.forms.form_values import FormValue, initial_value, is_same

MAX_EDIT_BYTES: Final = 200_000
_GROUPS_CHARS: Final = 300
_NAME_CHARS: Final = 100
# Budgets whose use a provider may not report.
_REPORTED: Final = ("maxTokens", "maxCost")
_STAGES: Final[Mapping[CallStage, str]] = {
    "ready": "Not started yet.",
    "running": "Running.",
    "ended": "Finished: its result is logged when the other calls of the turn have ended.",
    "done": "Executed.",
    "failed": "Failed: the error is below.",
    "settled": "",
}


@dataclass(frozen=True)
class Notice:
    """A message at the top of the page, with differences, problems or doubts below it."""

    tone: str
    text: str
    differences: Sequence[Difference] = ()
    problems: Sequence[tuple[Field, str]] = ()
    doubts: Sequence[Field] = ()


def build_call_page(
    pending: OpenApproval,
    person: Person,
    *,
    signs: bool,
    may_decide: bool = True,
    form: DecisionForm | None = None,
    problem: FormProblem | None = None,
    again: bool = False,
    away: Sequence[Absence] = (),
) -> dict[str, Any]:
    """Return the values of the page of a pending call.

    The person is the substitute of those who are `away`.
    `signs`: the inbox signs decisions for the person. `problem` prevents a decision of the `form`.
    `again`: it is the page that runs the call again.
    """
    approval, tool, versions = pending.approval, pending.tool, pending.history.versions
    kind, arguments, budget = approval.kind, approval.arguments, pending.report.budget
    form, view, changes = form or DecisionForm(), pending.view, list[Difference]()
    is_edit, is_check = form.verdict == "edit", form.action == decision_form.CHECK
    decision = decision_form.read_decision(form, pending, person) if is_check else None
    if isinstance(decision, FormProblem):
        problem = decision
    obstacle, terms = check_eligibility(pending, person, away, signs=signs)
    obstacle = obstacle if may_decide else MAY_NOT_DECIDE
    edit, result, plan = _forms(pending, form, problem or FormProblem(""), may_edit=not obstacle)
    selects_steps = bool(plan) and plan[0].edit is not None
    hidden_steps = len([*shown_calls(arguments)]) - len(plan) if plan else 0
    if len(versions) > 1:
        first = versions[0].arguments
        changes = argument_differences(kind, first, arguments, pending.tools, pending.schema)
    approve, consequence = _effect_texts(pending, plan, hidden_steps)
    return {
        "pending": pending,
        "whose": [phrases.away_phrase(one) for one in away],
        "question": view,
        "heading": view.subject(pending.run_info.agent),
        "consequence": consequence,
        "approve_text": approve,
        "changes": changes,
        "budget_uses": [*page_text.budget_uses(budget)] if kind == "budget" else [],
        "arguments": build_fields(
            pending.schema, FormValue(arguments, {}), prefix="v", room=5 * MAX_FIELDS
        ),
        "item_table": item_table(arguments, tool and tool.parameters),
        "as_json": as_json(arguments, indent=2),
        "command": how_to_decide(pending.run_info.id, approval),
        "renew_command": how_to_renew(pending.run_info.id),
        "show_command": holdfast_command("show", pending.run_info.id, "--json"),
        "form": form,
        "notice": _notice(pending, form, [edit, result], plan, problem or decision),
        "signs": signs,
        "obstacle": obstacle,
        "terms": terms,
        "has_decided": has_decided(person, approval),
        "claim": claim_text(approval, person),
        "gives_back": approval.claim and is_same_person(approval.claim.by, person.name),
        "again": decision_form.again_token(approval, person) if again else "",
        "edit": edit,
        "result": result,
        "plan": plan,
        "hidden_steps": hidden_steps,
        "is_changed": is_edit and not is_same(form.edit.value, arguments),
        "is_checked": is_check and is_edit and (edit is not None or selects_steps),
        "is_answer": form.verdict in ("respond", "happened"),
        "selects_steps": selects_steps,
    }


def _effect_texts(
    pending: OpenApproval, plan: Sequence[PlanRow], hidden_steps: int
) -> tuple[str, str]:
    """Return the text of the button that approves, and what an approval leads to."""
    approval, tool, kind = pending.approval, pending.tool, pending.approval.kind
    if kind == "budget":
        budget, first_limit = pending.report.budget, pending.history.first_limit
        approve = extend_button(approval, budget, first_limit)
    elif plan and not hidden_steps:
        approve = plan_button(plan)
    else:
        whole = "Approve the whole plan"
        approve = whole if plan else pending.view.approve_button(pending.schema)
    kept = (row.step for row in plan if row.keep)
    if effects := [step for step in kept if step.tool and step.tool.side_effects]:
        return approve, f"The effects of {step_numbers(effects)} can’t be undone."
    if kind == "call" and tool is not None:
        return approve, phrases.CONSEQUENCES[bool(tool.side_effects)]
    return approve, phrases.QUESTIONS[kind].consequence


def _forms(
    pending: OpenApproval, form: DecisionForm, wrong: FormProblem, *, may_edit: bool
) -> tuple[Field | None, Field, list[PlanRow]]:
    """Return the fields of the arguments, those of an answer, and the steps of a plan.

    The arguments have no fields where they are not edited.
    """
    approval, schema, edit, plan = pending.approval, pending.output_schema, None, list[PlanRow]()
    may_edit = may_edit and pending.is_whole and json_size(approval.arguments) <= MAX_EDIT_BYTES
    is_edit, is_answer = form.verdict == "edit", form.verdict in ("respond", "happened")
    if approval.kind == "plan":
        plan = plan_rows(
            approval,
            pending.tools,
            may_edit=may_edit,
            entered=form.calls,
            kept_calls=form.kept_calls if is_edit else None,
            problems=wrong.calls,
        )
    elif approval.kind not in ("input", "reconcile") and may_edit and not approval.shared_budget:
        has_value = is_edit and form.edit.value is not MISSING
        value = form.edit if has_value else FormValue(approval.arguments, {})
        place = decision_form.EDIT
        edit = build_fields(pending.schema, value, place=place, prefix="e", wrong=wrong.edit)
    result = build_fields(
        schema,
        form.result if is_answer else FormValue(initial_value(schema), {}),
        place=decision_form.RESULT,
        prefix="r",
        wrong=wrong.result,
        label="Result" if approval.kind == "reconcile" else "Answer",
    )
    return edit, result, plan


def _notice(
    pending: OpenApproval,
    form: DecisionForm,
    forms: Sequence[Field | None],
    plan: Sequence[PlanRow],
    decision: Decision | FormProblem | None,
) -> Notice | None:
    """Return what prevents a decision, or the effect of a checked one."""
    if decision is None:
        return None
    kind, arguments = pending.approval.kind, pending.approval.arguments
    forms = [*forms, *(row.edit for row in plan)]
    fields = [one for whole in forms if whole is not None for one in whole.walk()]
    doubts = [one for one in fields if one.doubt and form.verdict == "edit"]
    if isinstance(decision, FormProblem):
        problems = [(one, text) for one in fields for text in one.problems]
        doubts = [] if problems else doubts
        return Notice("bad", decision.message, decision.differences, problems, doubts)
    if form.verdict != "edit":
        return None
    # Without arguments, the plan is approved as it is.
    if decision.arguments is None:
        return Notice("good", "No changes: the whole plan would be executed as requested.")
    changes = argument_differences(
        kind, arguments, decision.arguments, pending.tools, pending.schema
    )
    doubts = [] if kind == "plan" else doubts
    return Notice("asks", "Not sent yet. Your changes:", changes, doubts=doubts)


def build_closed_page(closed: ClosedApproval, person: Person) -> dict[str, Any]:
    """Return the values of the page of a closed call: its decisions and its outcome."""
    history, question = closed.history, closed.question
    approval, verdict = question.approval, question.verdict
    first, last = history.versions[0].arguments, history.versions[-1].arguments
    reason, is_own, fields = "", False, None
    if verdict is not None:
        text, at = phrases.decision_text(verdict, approval.kind, person.name), verdict.at
        reason, is_own = clean(verdict.reason or ""), is_same_person(verdict.by, person.name)
    elif question.expired:
        text, at = phrases.EXPIRED.capitalize(), approval.expires_at
    elif closed.run_ended:
        text, at = "Withdrawn: the run ended before a decision", ""
    else:
        text, at = "Withdrawn: the run continued without it", ""
    budget, tool = closed.report.budget.get(approval.tool, {}), closed.tools.get(approval.tool)
    changes: list[Difference] = []
    named = {"properties": dict.fromkeys((*first, *last), True)}
    schema = shown_parameters(named if tool is None else tool.parameters, last)
    # The outcome of a limit is described in words.
    if len(history.versions) > 1 and approval.kind != "budget":
        changes = argument_differences(approval.kind, first, last, closed.tools, schema)
    if approval.kind in ("call", "input", "reconcile") and last:
        fields = build_fields(schema, FormValue(last, {}), prefix="v", room=5 * MAX_FIELDS)
    return {
        "closed": closed,
        "verdict": text,
        "decided_at": at,
        "outcome": outcome_text(question, history.stage),
        "arguments": fields,
        "item_table": item_table(last, tool and tool.parameters),
        "limit": limit_outcome(approval, verdict, last, budget.get("limit")),
        "reason": reason,
        "is_own": is_own,
        "changes": changes,
        "you": person.name,
    }


def check_eligibility(
    pending: OpenApproval, person: Person, away: Sequence[Absence] = (), *, signs: bool
) -> tuple[str, list[str]]:
    """Return why a person may not decide on a call, if so, and the terms.

    The run checks it again; the tools of a call are known as far as they could be loaded. `signs`:
    the inbox signs decisions for the person.
    """
    approval, principal = pending.approval, pending.run_info.principal
    # A plan has the strictest of its calls' policies.
    not_own = approval.excludes_principal(pending.tools.values())
    groups = pending.view.groups(_GROUPS_CHARS, " or ")
    reason = ""
    if not is_approver(person, approval.approvers):
        own = one_line(distinct_names(person.groups), _GROUPS_CHARS)
        yours = f"Your groups: {own}." if own else "You are in no group."
        reason = f"{phrases.MEMBERS_ONLY.format(groups)} {yours}"
    elif not_own and is_same_person(person.name, principal):
        reason = "This run acts on your behalf, and its principal cannot decide."
    elif not_own and any(is_same_person(one.person, principal) for one in away):
        reason = "You are the substitute of the run’s principal, who cannot decide."
    whom = f", {one_line(principal, _NAME_CHARS)}," if principal else ""
    signing = "the inbox signs yours" if signs else "add your token"
    more = {"principal": whom if not_own else None, "signing": signing if approval.signed else None}
    return reason, pending.view.terms("page", groups, **more)


def claim_text(approval: PendingApproval, person: Person) -> str:
    """Return who looks at a call, as sentences; empty without a claim."""
    text = phrases.claim_phrase(approval, datetime.now(UTC), person.name)
    return f"{text[:1].upper()}{text[1:]}. Others can still decide." if text else ""


def extend_button(approval: PendingApproval, budget: Mapping[str, Any], granted: Any) -> str:
    """Return the label of the button that extends a limit: `Extend: calls from 5 to 10`.

    `budget` is that of the status of the run, `granted` the first limit.
    """
    if approval.shared_budget:
        return "Let this request exceed it"
    texts = []
    for name, limit in approval.arguments.items():
        use = budget.get(name) or {}
        used, total = use.get("used"), use.get("total", {}).get("limit")
        more = page_text.extended_limit(name, limit, used, granted) if total is None else None
        least = "at least " if used is None and name in _REPORTED else ""
        after = f"from {format_argument(limit)} to {least}{format_argument(more)}"
        if more is None:
            after = "by its first limit" + ("" if total is None else ", within the total")
        texts.append(f"{phrases.budget_phrase(name)} {after}")
    return f"Extend: {', '.join(texts)}"


def limit_outcome(
    approval: PendingApproval, decided: Decided | None, last: Mapping[str, Any], now: Any
) -> str:
    """Return the outcome of a limit; `last` are the decided arguments, `now` the current limit."""
    if approval.kind != "budget" or decided is None or decided.decision not in ("approve", "edit"):
        return ""
    if approval.shared_budget:
        return f"One request was allowed to exceed the budget {approval.shared_budget}."
    [(name, limit), *_] = approval.arguments.items()
    was = f"The limit of {phrases.budget_phrase(name)} was {format_argument(limit)}"
    if decided.decision == "edit":
        return f"{was}, and was set to {format_argument(last.get(name))}."
    if now is None:
        return f"{was}. It was extended by its first limit, and by what was used beyond it."
    return f"{was}, and is now {format_argument(now)}."


def outcome_text(question: QuestionRound, stage: CallStage) -> str:
    """Return the outcome after the decision, as a sentence; empty for a plan: see its steps."""
    kind = question.approval.kind
    if kind not in ("call", "input", "reconcile"):
        return ""
    verdict = question.verdict.decision if question.verdict else ""
    is_reconcile = kind == "reconcile"
    if is_reconcile and verdict in ("deny", "give_up"):
        return "It is not executed again, and its outcome stays unknown."
    if question.approval.form and verdict == "respond":
        return "The call is continued with the answer."
    if kind == "input":
        return "The answer is its result." if verdict == "respond" else "It has no answer."
    if verdict == "deny":
        return "Not executed."
    if verdict in ("respond", "happened"):
        return f"Not executed{' again' if is_reconcile else ''}: the answer is its result."
    if not verdict and stage == "failed":
        return "" if is_reconcile else "Not executed."
    return _STAGES[stage]

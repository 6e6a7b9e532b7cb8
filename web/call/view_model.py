"""The values of the templates of a call's page: of a pending call, and of a closed one.

They contain no markup and decide nothing. The forms contain the input as it was entered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from holdfast.client.question_text import how_to_decide
from holdfast.runtime.narration.phrases import EXPIRED, REQUESTS
from holdfast.runtime.text_safety import clean, holdfast_command, one_line, shorten
from holdfast.schemas.base import json_size
from holdfast.schemas.decision import PendingApproval, shown_calls
from holdfast.web.auth.sessions import Person
from holdfast.web.call import phrases
from holdfast.web.call.decision_form import (
    CHECK,
    EDIT,
    RESULT,
    DecisionForm,
    FormProblem,
    doubtful_fields,
    doubts_mark,
    plan_decision,
)
from holdfast.web.call.history import EarlierRequest
from holdfast.web.call.loader import ClosedCall, PendingCall
from holdfast.web.call.plan import (
    MAX_EDIT_BYTES,
    PlanRow,
    argument_differences,
    plan_rows,
    side_effect_warnings,
)
from holdfast.web.forms.field_builder import MAX_FIELDS, build_fields, field_problems
from holdfast.web.forms.fields import Field
from holdfast.web.forms.form_values import MISSING, FormValue
from holdfast.web.forms.schema_shape import initial_value
from holdfast.web.forms.value_diff import Difference, differences, is_plain, is_same
from holdfast.web.listing.rows import MAX_BRIEF_CHARS, brief
from holdfast.web.page_text import BudgetUse, DisplayTime, budget_uses, display_time
from holdfast.web.pages import address

_LABEL_CHARS: Final = 100
_OUTCOME_QUESTION: Final = " Did it happen?"


@dataclass(frozen=True)
class Notice:
    """A message at the top of the page, with differences, problems or doubts below it."""

    tone: str
    text: str
    differences: Sequence[Difference] = ()
    problems: Sequence[tuple[Field, str]] = ()
    doubts: Sequence[Field] = ()


@dataclass(frozen=True)
class CallPage:
    """The page of a pending call.

    `is_changed`: the form of the arguments has changes that are not sent. `is_checked`: the button
    that only checks a form was pressed. `selects_steps`: steps of a plan can be removed or changed.
    """

    pending: PendingCall
    approval: PendingApproval
    form: DecisionForm
    notice: Notice | None
    title: str
    heading: str
    approve: str
    if_approved: str
    consequences: Sequence[str]
    warnings: Sequence[str]
    eligibility: phrases.Eligibility
    timeout_effect: str
    timeout_policy: str
    requested: DisplayTime
    started: DisplayTime
    expires: DisplayTime
    decisions: Sequence[str]
    has_decided: bool
    earlier_requests: Sequence[tuple[str, DisplayTime]]
    times_requested: str
    changed_by: str
    changes: Sequence[Difference]
    budget_uses: Sequence[BudgetUse]
    values: Field
    edit: Field | None
    result: Field
    plan: Sequence[PlanRow]
    hidden_steps: int
    doubts_mark: str
    needs_token: bool
    is_single_call: bool
    is_changed: bool
    is_checked: bool
    is_untouched: bool
    may_be_unknown: bool
    selects_steps: bool
    description: str
    known_text: str
    key: str
    command: str
    show_command: str
    here: str
    run: str
    changes_address: str

    def is_for(self, verdict: str) -> bool:
        """Report whether the submitted form was that of a verdict."""
        return self.form.verdict == verdict


def build_call_page(
    pending: PendingCall,
    person: Person,
    *,
    signs: bool,
    form: DecisionForm | None = None,
    problem: FormProblem | None = None,
    notice: Notice | None = None,
) -> CallPage:
    """Return the page of a pending call.

    Args:
        pending: the call.
        person: the person who looks at it.
        signs: the inbox signs decisions for the person.
        form: the submitted form, if any.
        problem: the problem that prevents a decision.
        notice: a message in place of those that follow from the form.
    """
    approval, history, info = pending.approval, pending.history, pending.run_info
    form = form or DecisionForm()
    policy = phrases.shown_policy(list(pending.tools.values()))
    eligibility = phrases.check_eligibility(approval, policy, person, info.principal, signs=signs)
    entered = _entered_arguments(pending, form)
    edit = _edit_form(pending, entered, problem) if eligibility.may_decide else None
    result = _result_form(pending, form, problem)
    is_plan_edit = form.verdict == "edit"
    plan = plan_rows(
        approval,
        pending.tools,
        may_edit=eligibility.may_decide and pending.is_whole,
        entered=form.calls,
        kept_calls=form.kept_calls if is_plan_edit else None,
        problems=problem.calls if problem else {},
    )
    selects_steps = bool(plan) and plan[0].edit is not None
    forms = [edit, result, *(row.edit for row in plan)]
    is_plan = approval.kind == "plan"
    consequences = phrases.consequences(approval, pending.tool)
    same_kind = [one for one in history.earlier_requests if one.kind == approval.kind]
    last_author = next((one.by for one in reversed(history.versions) if one.by), "")
    budget = pending.status.get("budget") or {}
    used = (budget.get(approval.tool) or {}).get("used")
    here = address("waiting", pending.run_id, approval.call_id)
    heading = phrases.heading(approval, info.agent)
    return CallPage(
        pending=pending,
        approval=approval,
        form=form,
        notice=notice or _notice(pending, form, problem, forms),
        title=REQUESTS[approval.kind],
        heading=heading,
        approve=phrases.approve_button(approval, used, history.first_limit),
        if_approved=phrases.if_approved(approval, pending.tool),
        consequences=consequences,
        warnings=side_effect_warnings(plan) if is_plan else consequences,
        eligibility=eligibility,
        timeout_effect=phrases.timeout_effect(approval, policy, is_single_call=info.is_single_call),
        timeout_policy=phrases.timeout_policy(approval, policy),
        requested=display_time(approval.requested_at),
        started=display_time(history.started_at),
        expires=display_time(approval.expires_at),
        decisions=[
            phrases.decision_text(one, approval.kind, person.name) for one in approval.decisions
        ],
        has_decided=any(one.by == person.name for one in approval.decisions),
        earlier_requests=[earlier_request_text(one, person) for one in history.earlier_requests],
        times_requested=phrases.ordinal(len(same_kind) + 1) if same_kind else "",
        changed_by=one_line(last_author or "", _LABEL_CHARS) or "A person",
        changes=argument_differences(
            approval.kind, history.versions[0].arguments, approval.arguments, pending.tools
        )
        if len(history.versions) > 1
        else [],
        budget_uses=list(budget_uses(budget)) if approval.kind == "budget" else [],
        values=build_fields(
            pending.schema, FormValue(approval.arguments, {}), prefix="v", room=5 * MAX_FIELDS
        ),
        edit=edit,
        result=result,
        plan=plan,
        hidden_steps=len(list(shown_calls(approval.arguments))) - len(plan) if is_plan else 0,
        doubts_mark=doubts_mark(pending, entered),
        needs_token=approval.signed and not signs,
        is_single_call=info.is_single_call,
        is_changed=is_plan_edit and not is_same(form.edit.value, approval.arguments),
        is_checked=form.action == CHECK
        and is_plan_edit
        and (edit is not None or (eligibility.may_decide and selects_steps)),
        is_untouched=form.verdict not in ("respond", "happened"),
        may_be_unknown=bool(pending.output_schema == {}),
        selects_steps=eligibility.may_decide and selects_steps,
        description=clean(pending.tool.description) if pending.tool else "",
        known_text=_known_text(approval, heading),
        key=clean(f"{pending.run_id} {approval.call_id}"),
        command=how_to_decide(pending.run_id, approval),
        show_command=holdfast_command("show", pending.run_id, "--json"),
        here=here,
        run=address("run", pending.run_id),
        changes_address=f"{here}/changes?seen={pending.mark}",
    )


def _known_text(approval: PendingApproval, heading: str) -> str:
    """Return the reason why an outcome is unknown, without the part for terminals."""
    text, _, _ = clean(approval.question).partition(_OUTCOME_QUESTION)
    return text.replace(f"`{approval.tool}`", heading).replace("`", "").rstrip(".")


def _edit_form(
    pending: PendingCall, entered: FormValue, problem: FormProblem | None
) -> Field | None:
    """Return the form of the arguments; `None` where they cannot be edited here."""
    is_too_large = json_size(pending.approval.arguments) > MAX_EDIT_BYTES
    if pending.approval.kind not in ("call", "budget") or is_too_large or not pending.is_whole:
        return None
    wrong = problem.edit if problem else ()
    return build_fields(pending.schema, entered, place=EDIT, prefix="e", wrong=wrong)


def _entered_arguments(pending: PendingCall, form: DecisionForm) -> FormValue:
    is_own = form.verdict == "edit" and form.edit.value is not MISSING
    return form.edit if is_own else FormValue(pending.approval.arguments, {})


def _result_form(pending: PendingCall, form: DecisionForm, problem: FormProblem | None) -> Field:
    """Return the form of an answer in place of the result."""
    label = "Result" if pending.approval.kind == "reconcile" else "Answer"
    schema, entered = pending.output_schema, form.result
    if form.verdict not in ("respond", "happened"):
        entered = FormValue(initial_value(schema), {})
    wrong = problem.result if problem else ()
    return build_fields(schema, entered, place=RESULT, prefix="r", wrong=wrong, label=label)


def _notice(
    pending: PendingCall,
    form: DecisionForm,
    problem: FormProblem | None,
    forms: Sequence[Field | None],
) -> Notice | None:
    drawn = [one for one in forms if one is not None]
    doubts = [one for each in drawn for one in doubtful_fields(each)]
    doubts = doubts if form.verdict == "edit" else []
    if problem is not None:
        found = [fault for each in drawn for fault in field_problems(each)]
        return Notice("bad", problem.message, problems=found, doubts=[] if found else doubts)
    approval = pending.approval
    if form.action == CHECK and approval.kind == "plan":
        edit = plan_decision(form, pending)
        # Without arguments, the plan is approved as it is.
        new = {} if isinstance(edit, FormProblem) else edit.get("arguments", approval.arguments)
        changes = (
            argument_differences(approval.kind, approval.arguments, new, pending.tools)
            if new
            else []
        )
        if changes:
            return Notice("asks", "Not sent yet. Your changes:", changes)
        return Notice("good", "No changes: the whole plan would be executed as requested.")
    if form.action == CHECK and form.verdict == "edit" and is_plain(form.edit.value):
        changes = differences(approval.arguments, form.edit.value)
        return Notice("asks", "Not sent yet. Your changes:", changes, doubts=doubts)
    return None


def build_closed_page(closed: ClosedCall, person: Person) -> dict[str, Any]:
    """Return the values of the page of a closed call: its decisions and its outcome."""
    history, approval, verdict = closed.history, closed.approval, closed.history.verdict
    here = address("waiting", closed.run_id, closed.call_id)
    if verdict is not None:
        text = phrases.decision_text(verdict, approval.kind, person.name)
        at = display_time(verdict.at)
    elif history.expired:
        text, at = EXPIRED.capitalize(), display_time(approval.expires_at)
    else:
        text, at = "Withdrawn: the run continued without it", display_time("")
        if closed.run_ended:
            text = "Withdrawn: the run ended before a decision"
    last = approval.model_copy(update={"arguments": history.versions[-1].arguments})
    is_call = approval.kind in ("call", "reconcile")
    return {
        "closed": closed,
        "verdict": text,
        "outcome": phrases.outcome_text(history),
        "decided_at": at,
        "heading": phrases.heading(approval, closed.run_info.agent),
        "arguments": shorten(brief(last), MAX_BRIEF_CHARS) if is_call else "",
        "limit": _limit(closed),
        "reason": clean(verdict.reason or "") if verdict else "",
        "is_own": verdict is not None and verdict.by == person.name,
        "changes": _changes(closed),
        "decisions": [
            phrases.decision_text(one, approval.kind, person.name) for one in history.decisions
        ],
        "earlier_requests": [earlier_request_text(one, person) for one in history.earlier_requests],
        "run": address("run", closed.run_id),
        "changes_address": f"{here}/changes?seen={quote(closed.mark, safe='')}",
    }


def _limit(closed: ClosedCall) -> str:
    history, approval = closed.history, closed.approval
    if history.verdict is None:
        return ""
    now: Mapping[str, Any] = (closed.status.get("budget") or {}).get(approval.tool) or {}
    last = history.versions[-1].arguments
    return phrases.limit_outcome(approval, history.verdict, last, now.get("limit"))


def _changes(closed: ClosedCall) -> list[Difference]:
    versions = closed.history.versions
    # The outcome of a limit is described in words.
    if len(versions) < 2 or closed.approval.kind == "budget":
        return []
    first, last = versions[0].arguments, versions[-1].arguments
    return argument_differences(closed.approval.kind, first, last, {})


def earlier_request_text(one: EarlierRequest, person: Person) -> tuple[str, DisplayTime]:
    """Return how an earlier question ended, and when."""
    if one.verdict is None:
        return "Withdrawn", display_time(one.at)
    return phrases.decision_text(one.verdict, one.kind, person.name), display_time(one.at)

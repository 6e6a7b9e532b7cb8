"""Read the form of a call's page as a decision.

    form ─► `DecisionForm` ─► `Decision`, or the `FormProblem` that prevents it

The input is kept unchanged until a decision is accepted.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import ValidationError
from starlette.datastructures import FormData

from holdfast.client.errors import HoldfastError
from holdfast.client.question_text import strike_calls
from holdfast.runtime.text_safety import as_sentence
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision, PendingApproval
from holdfast.schemas.reference import MARK
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.validation.validator import Violation
from holdfast.web.auth.sessions import Person
from holdfast.web.call.loader import OpenCall
from holdfast.web.call.plan import PlanSteps, call_place, describe_unusable
from holdfast.web.forms import form_values
from holdfast.web.forms.field_builder import build_fields, form_violations
from holdfast.web.forms.structure_edits import apply_action
from holdfast.web.forms.value_diff import Difference, is_same

# The places of the values in the forms of the page.
EDIT: Final[form_values.Place] = ("arguments",)
RESULT: Final[form_values.Place] = ("result",)
CHECK: Final = "check"
_NO_VALUE: Final = form_values.FormValue(form_values.MISSING, {})


@dataclass(frozen=True)
class DecisionForm:
    """A submitted form. `action` is the button that changes fields, `verdict` the decision.

    `again` is an `again_token`. `is_untouched` marks the form of an answer with nothing filled in;
    `seen_doubts` is the mark of the doubtful values that the page has shown.
    """

    verdict: str = ""
    action: str = ""
    digest: str = ""
    nonce: str = ""
    reason: str = ""
    token: str = ""
    again: str = ""
    remember: bool = False
    edit: form_values.FormValue = _NO_VALUE
    result: form_values.FormValue = _NO_VALUE
    calls: Mapping[str, form_values.FormValue] = field(default_factory=dict)
    seen_doubts: str = ""
    is_untouched: bool = False
    kept_calls: Sequence[str] = ()
    items: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(cls, form: FormData) -> "DecisionForm":
        """Read a form; missing fields are empty."""
        items = [(name, text) for name, text in form.multi_items() if isinstance(text, str)]
        fields, values = dict(items), form_values.SubmittedForm(items)
        ids = dict.fromkeys(text for name, text in items if name == "call")
        return cls(
            verdict=fields.get("about", ""),
            action=fields.get(form_values.DO, ""),
            digest=fields.get("digest", "").strip(),
            nonce=fields.get("nonce", "").strip(),
            reason=fields.get("reason", "").strip(),
            token=fields.get("token", "").strip(),
            again=fields.get("again", ""),
            remember="remember" in fields,
            edit=values.value_at(EDIT),
            result=values.value_at(RESULT),
            calls={one: values.value_at(call_place(one)) for one in ids},
            seen_doubts=fields.get("doubted", "").strip(),
            is_untouched="untouched" in fields,
            kept_calls=[text for name, text in items if name == "keep"],
            items=items,
        )

    def is_about(self, approval: PendingApproval) -> bool:
        """Report whether its page showed this question, as it is now."""
        return (self.digest, self.nonce) == (approval.digest, approval.nonce)

    def redraw(self, pending: OpenCall) -> "DecisionForm":
        """Return the form after its button has changed the fields."""
        # The entered name of an added property.
        key = dict(self.items).get(f"key:{self.action.partition(':')[2]}", "").strip()
        edit = apply_action(self.edit, self.action, pending.schema, key, EDIT)
        result = apply_action(self.result, self.action, pending.output_schema, key, RESULT)
        calls = {
            step.id: apply_action(
                self.calls[step.id], self.action, step.schema, key, call_place(step.id)
            )
            for step in PlanSteps(pending.approval.arguments, pending.tools).all
            if step.id in self.calls
        }
        return replace(self, edit=edit, result=result, calls=calls)


def again_token(approval: PendingApproval, person: Person) -> str:
    """Return the token of the page that runs a call again: of this attempt, for this person."""
    bound = [person.form_token, approval.nonce, approval.digest]
    return f"{len(approval.attempts)}.{sha256(canonical_json(bound))}"


@dataclass(frozen=True)
class FormProblem:
    """The reason why a form is no decision, and the violations in its values.

    `differences` are the changes since the page of the form was opened.
    """

    message: str
    differences: Sequence[Difference] = ()
    edit: Sequence[Violation] = ()
    result: Sequence[Violation] = ()
    calls: Mapping[str, Sequence[Violation]] = field(default_factory=dict)


def read_decision(form: DecisionForm, pending: OpenCall, person: Person) -> Decision | FormProblem:
    """Return the decision of a form, or the problem that prevents it."""
    match form.verdict:
        case "edit" if pending.approval.kind == "plan":
            fields = _plan_decision(form, pending)
        case "edit":
            fields = _edit(form, pending)
        case "respond" | "happened":
            fields = _result(form, pending)
        case _:
            fields = {}
    if isinstance(fields, FormProblem):
        return fields
    return build_decision(form, pending.approval, person, fields)


def build_decision(
    form: DecisionForm, approval: PendingApproval, person: Person, fields: Mapping[str, Any]
) -> Decision | FormProblem:
    """Return the decision of a form on a question, with these checked fields."""
    # A token names its approver itself.
    who = {"by": person.name, "groups": list(person.groups)}
    decision: dict[str, Any] = {
        "callId": approval.call_id,
        "decision": form.verdict,
        "digest": approval.digest,
        "nonce": approval.nonce,
        **fields,
        **({"reason": form.reason} if form.reason else {}),
        **({"remember": True} if form.remember and form.verdict == "approve" else {}),
        **({"token": form.token} if form.token else who),
    }
    try:
        return Decision.model_validate(decision)
    except ValidationError as error:
        return FormProblem(summarize_problems(problems_of(error, decision, Decision)))


def _edit(form: DecisionForm, pending: OpenCall) -> dict[str, Any] | FormProblem:
    value = form.edit.value
    if found := form_violations(value, pending.schema):
        return FormProblem("The arguments are invalid; see the marked fields.", edit=found)
    if canonical_json(value) == canonical_json(pending.approval.arguments):
        return FormProblem("Nothing was changed. Approve it to execute it as requested.")
    doubts = build_fields(pending.schema, form.edit, place=EDIT).doubts_mark
    if doubts not in ("", form.seen_doubts) and not form.action:
        return FormProblem("Not sent yet. Check these values; approve again to send them anyway.")
    return {"arguments": value}


def _result(form: DecisionForm, pending: OpenCall) -> dict[str, Any] | FormProblem:
    schema, value = pending.output_schema, form.result.value
    if value is form_values.MISSING and form.verdict == "happened" and schema == {}:
        return {"result": None}
    if found := form_violations(value, schema):
        return FormProblem("The answer is invalid; see the marked fields.", result=found)
    has_fields = schema.get("properties") or not pending.approval.form
    if has_fields and form.is_untouched and is_same(form_values.initial_value(schema), value):
        return FormProblem("Not sent yet: nothing was filled in. Send it again to confirm.")
    return {"result": value}


def _plan_decision(form: DecisionForm, pending: OpenCall) -> dict[str, Any] | FormProblem:
    """Return an approval of a plan, or an edit where steps are removed or changed."""
    approval, steps = pending.approval, PlanSteps(pending.approval.arguments, pending.tools)
    removed = [step.id for step in steps.all if step.id not in form.kept_calls]
    changed: dict[str, Any] = {}
    problems: dict[str, Sequence[Violation]] = {}
    for step in steps.all:
        value = form.calls.get(step.id, _NO_VALUE).value
        if step.id in removed or value is form_values.MISSING:
            continue
        # The value of a reference is not known yet.
        violations = [
            one
            for one in form_violations(value, step.schema)
            if not _is_reference(value, one.place)
        ]
        if violations:
            problems[step.id] = violations
        elif canonical_json(value) != canonical_json(step.arguments):
            changed[step.id] = value
    if problems:
        return FormProblem("A step is invalid; see the marked fields.", calls=problems)
    if not removed and not changed:
        return {"decision": "approve"}
    if unusable := steps.unusable_steps(removed, changed):
        return FormProblem(describe_unusable(unusable))
    try:
        remaining = strike_calls(approval, removed)
    except HoldfastError as error:
        return FormProblem(as_sentence(str(error)))
    calls = [
        {**call, "arguments": changed[call["id"]]} if call["id"] in changed else call
        for call in remaining["calls"]
    ]
    return {"arguments": {**remaining, "calls": calls}}


def _is_reference(value: Any, place: form_values.Place) -> bool:
    with suppress(KeyError):  # the place of a missing property
        for step in place:
            value = value[step]
    return isinstance(value, str) and MARK in value

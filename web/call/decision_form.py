"""Read the form of a call's page as a decision.

    form ─► `DecisionForm` ─► `Decision`, or the `FormProblem` that prevents it

The input is kept unchanged until a decision is accepted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import ValidationError
from starlette.datastructures import FormData

from holdfast.client.question_text import CannotStrikeError, strike_calls
from holdfast.runtime.text_safety import as_sentence
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision, shown_calls
from holdfast.schemas.reference import MARK
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.validation.validator import Violation
from holdfast.web.auth.sessions import Person
from holdfast.web.call.loader import PendingCall
from holdfast.web.call.plan import arguments_schema, call_place, describe_unusable, steps_of
from holdfast.web.forms.field_builder import build_fields, form_violations
from holdfast.web.forms.fields import Field
from holdfast.web.forms.form_values import (
    DO,
    MISSING,
    FormValue,
    Place,
    SubmittedForm,
    pointer,
)
from holdfast.web.forms.schema_shape import initial_value
from holdfast.web.forms.structure_edits import apply_action
from holdfast.web.forms.value_diff import is_same

# The places of the values in the forms of the page.
EDIT: Final[Place] = ("arguments",)
RESULT: Final[Place] = ("result",)
CHECK: Final = "check"
_NO_VALUE: Final = FormValue(MISSING, {})


@dataclass(frozen=True)
class DecisionForm:
    """A submitted form. `action` is the button that changes fields, `verdict` the decision.

    `is_untouched` marks the form of an answer with nothing filled in; `seen_doubts` is the mark of
    the doubtful values that the page has shown.
    """

    verdict: str = ""
    action: str = ""
    digest: str = ""
    reason: str = ""
    token: str = ""
    remember: bool = False
    edit: FormValue = _NO_VALUE
    result: FormValue = _NO_VALUE
    calls: Mapping[str, FormValue] = field(default_factory=dict)
    seen_doubts: str = ""
    is_untouched: bool = False
    kept_calls: Sequence[str] = ()
    items: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(cls, form: FormData) -> "DecisionForm":
        """Read a form; missing fields are empty."""
        items = [(name, text) for name, text in form.multi_items() if isinstance(text, str)]
        fields, values = dict(items), SubmittedForm(items)
        ids = dict.fromkeys(text for name, text in items if name == "call")
        return cls(
            verdict=fields.get("about", ""),
            action=fields.get(DO, ""),
            digest=fields.get("digest", "").strip(),
            reason=fields.get("reason", "").strip(),
            token=fields.get("token", "").strip(),
            remember="remember" in fields,
            edit=values.value_at(EDIT),
            result=values.value_at(RESULT),
            calls={one: values.value_at(call_place(one)) for one in ids},
            seen_doubts=fields.get("doubted", "").strip(),
            is_untouched="begun" in fields,
            kept_calls=[text for name, text in items if name == "keep"],
            items=items,
        )

    def redraw(self, pending: PendingCall) -> "DecisionForm":
        """Return the form after its button has changed the fields."""
        # The entered name of an added property.
        key = dict(self.items).get(f"key:{self.action.partition(':')[2]}", "").strip()
        arguments, tools = pending.approval.arguments, pending.tools
        edit = apply_action(self.edit, self.action, pending.schema, key, EDIT)
        result = apply_action(self.result, self.action, pending.output_schema, key, RESULT)
        calls = {
            one: apply_action(
                value, self.action, arguments_schema(arguments, tools, one), key, call_place(one)
            )
            for one, value in self.calls.items()
        }
        return replace(self, edit=edit, result=result, calls=calls)


@dataclass(frozen=True)
class FormProblem:
    """The reason why a form is no decision, and the violations in its values."""

    message: str
    edit: Sequence[Violation] = ()
    result: Sequence[Violation] = ()
    calls: Mapping[str, Sequence[Violation]] = field(default_factory=dict)


def doubts_mark(pending: PendingCall, edited: FormValue) -> str:
    """Return a mark of the doubtful values in edited arguments; empty for none."""
    doubtful = doubtful_fields(build_fields(pending.schema, edited))
    found = [(pointer(one.place), one.value) for one in doubtful]
    return sha256(canonical_json(found)) if found else ""


def doubtful_fields(form: Field) -> list[Field]:
    """Return the fields whose values do not look like their format."""
    return [one for one in form.walk() if one.doubt]


def read_decision(
    form: DecisionForm, pending: PendingCall, person: Person
) -> Decision | FormProblem:
    """Return the decision of a form, or the problem that prevents it."""
    match form.verdict:
        case "edit" if pending.approval.kind == "plan":
            fields = plan_decision(form, pending)
        case "edit":
            fields = _edit(form, pending)
        case "respond" | "happened":
            fields = _result(form, pending)
        case _:
            fields = {}
    if isinstance(fields, FormProblem):
        return fields
    # A token names its approver itself.
    who = {"by": person.name, "groups": list(person.groups)}
    decision: dict[str, Any] = {
        "callId": pending.approval.call_id,
        "decision": form.verdict,
        "digest": pending.approval.digest,
        **fields,
        **({"reason": form.reason} if form.reason else {}),
        **({"remember": True} if form.remember else {}),
        **({"token": form.token} if form.token else who),
    }
    try:
        return Decision.model_validate(decision)
    except ValidationError as error:
        return FormProblem(summarize_problems(problems_of(error, decision, Decision)))


def _edit(form: DecisionForm, pending: PendingCall) -> dict[str, Any] | FormProblem:
    value = form.edit.value
    if found := form_violations(value, pending.schema):
        return FormProblem("The arguments are invalid; see the marked fields.", edit=found)
    if canonical_json(value) == canonical_json(pending.approval.arguments):
        return FormProblem("Nothing was changed. Approve it to execute it as requested.")
    doubts = "" if form.action else doubts_mark(pending, form.edit)
    if doubts and form.seen_doubts != doubts:
        return FormProblem("Not sent yet. Check these values; approve again to send them anyway.")
    return {"arguments": value}


def _result(form: DecisionForm, pending: PendingCall) -> dict[str, Any] | FormProblem:
    schema, value = pending.output_schema, form.result.value
    if value is MISSING and form.verdict == "happened" and schema == {}:
        return {"result": None}
    if found := form_violations(value, schema):
        return FormProblem("The answer is invalid; see the marked fields.", result=found)
    if form.is_untouched and is_same(initial_value(schema), value):
        return FormProblem("Not sent yet: nothing was filled in. Send it again to confirm.")
    return {"result": value}


def plan_decision(form: DecisionForm, pending: PendingCall) -> dict[str, Any] | FormProblem:
    """Return an approval of a plan, or an edit where steps are removed or changed."""
    approval = pending.approval
    removed = [
        call["id"] for call in shown_calls(approval.arguments) if call["id"] not in form.kept_calls
    ]
    changed = _changed_steps(form, pending, removed)
    if isinstance(changed, FormProblem):
        return changed
    if not removed and not changed:
        return {"decision": "approve"}
    steps = steps_of(approval.arguments, pending.tools)
    if unusable := steps.unusable_steps(removed, changed):
        return FormProblem(describe_unusable(unusable))
    try:
        remaining = strike_calls(approval, removed)
    except CannotStrikeError as error:
        return FormProblem(as_sentence(str(error)))
    for call in remaining["calls"]:
        if call["id"] in changed:
            call["arguments"] = changed[call["id"]]
    return {"arguments": remaining}


def _changed_steps(
    form: DecisionForm, pending: PendingCall, removed: Sequence[str]
) -> dict[str, Any] | FormProblem:
    """Return the new arguments of the remaining steps that were changed."""
    arguments, tools = pending.approval.arguments, pending.tools
    changed: dict[str, Any] = {}
    problems: dict[str, Sequence[Violation]] = {}
    for call in shown_calls(arguments):
        one = call["id"]
        entered = form.calls.get(one, _NO_VALUE)
        if one in removed or entered.value is MISSING:
            continue
        # The value of a reference is not known yet.
        violations = [
            each
            for each in form_violations(entered.value, arguments_schema(arguments, tools, one))
            if not _is_reference(entered.value, each.place)
        ]
        if violations:
            problems[one] = violations
        elif canonical_json(entered.value) != canonical_json(call.get("arguments")):
            changed[one] = entered.value
    if problems:
        return FormProblem("A step is invalid; see the marked fields.", calls=problems)
    return changed


def _is_reference(value: Any, place: Place) -> bool:
    for step in place:
        in_object = isinstance(value, dict) and step in value
        if not in_object and not (isinstance(value, list) and isinstance(step, int)):
            return False
        value = value[step]
    return isinstance(value, str) and MARK in value

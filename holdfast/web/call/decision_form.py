"""Read the form of a call's page as a decision, or change it by a button of its fields.

    form ─► `DecisionForm` ─► `Decision`, or the `FormProblem` that prevents it

The input is kept unchanged until a decision is accepted. The buttons need no script: the form is
submitted, changed, and shown again with all input.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import ValidationError
from starlette.datastructures import FormData

from holdfast.client.errors import HoldfastError
from holdfast.client.question_text import strike_calls
from holdfast.runtime.narration.schema_shapes import ShapeReader
from holdfast.runtime.narration.value_diff import MISSING, Difference, Place
from holdfast.runtime.text_safety import as_sentence, one_line
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision, PendingApproval
from holdfast.schemas.reference import MARK
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.validation.validator import Violation
from holdfast.web.auth.sessions import Person
from holdfast.web.call.loader import OpenApproval
from holdfast.web.call.plan import PlanSteps, call_place, describe_unusable
from holdfast.web.forms.fields import build_fields
from holdfast.web.forms.form_values import (
    DO,
    EditNotice,
    FormValue,
    SubmittedForm,
    UnreadableText,
    form_violations,
    initial_value,
    is_same,
    start_value,
)

# The places of the values in the forms of the page.
EDIT: Final[Place] = ("arguments",)
RESULT: Final[Place] = ("result",)
CHECK: Final = "check"
_VALUE_CHARS: Final = 100
_NO_VALUE: Final = FormValue(MISSING, {})


@dataclass(frozen=True)
class DecisionForm:
    """A submitted form. `action` is the button that changes fields, `verdict` the decision.

    Where it `has_values`, the schemas of the tools are needed to read it.
    `again` is an `again_token`. `is_untouched` marks the form of an answer with nothing filled in;
    `seen_doubts` is the mark of the doubtful values that the page has shown.
    """

    verdict: str = ""
    action: str = ""
    has_values: bool = False
    digest: str = ""
    nonce: str = ""
    reason: str = ""
    token: str = ""
    again: str = ""
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
        fields = dict(items)
        verdict, action = fields.get("about", ""), fields.get(DO, "")
        read = cls(
            verdict=verdict,
            action=action,
            has_values=bool(action) or verdict in ("edit", "respond", "happened"),
            digest=fields.get("digest", "").strip(),
            nonce=fields.get("nonce", "").strip(),
            reason=fields.get("reason", "").strip(),
            token=fields.get("token", "").strip(),
            again=fields.get("again", ""),
            remember="remember" in fields,
            seen_doubts=fields.get("doubted", "").strip(),
            is_untouched="untouched" in fields,
            items=items,
        )
        # A form without them has no values.
        if not (read.has_values or "call" in fields):
            return read
        values = SubmittedForm(items)
        ids = dict.fromkeys(text for name, text in items if name == "call")
        return replace(
            read,
            edit=values.value_at(EDIT),
            result=values.value_at(RESULT),
            calls={one: values.value_at(call_place(one)) for one in ids},
            kept_calls=[text for name, text in items if name == "keep"],
        )

    def is_about(self, approval: PendingApproval) -> bool:
        """Report whether its page showed this question, as it is now."""
        return (self.digest, self.nonce) == (approval.digest, approval.nonce)

    def redraw(self, pending: OpenApproval) -> "DecisionForm":
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


def read_decision(
    form: DecisionForm, pending: OpenApproval, person: Person
) -> Decision | FormProblem:
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


def _edit(form: DecisionForm, pending: OpenApproval) -> dict[str, Any] | FormProblem:
    value = form.edit.value
    if found := form_violations(value, pending.schema):
        return FormProblem("The arguments are invalid; see the marked fields.", edit=found)
    if canonical_json(value) == canonical_json(pending.approval.arguments):
        return FormProblem("Nothing was changed. Approve it to execute it as requested.")
    doubts = build_fields(pending.schema, form.edit, place=EDIT).doubts_mark
    if doubts not in ("", form.seen_doubts) and not form.action:
        return FormProblem("Not sent yet. Check these values; approve again to send them anyway.")
    return {"arguments": value}


def _result(form: DecisionForm, pending: OpenApproval) -> dict[str, Any] | FormProblem:
    schema, value = pending.output_schema, form.result.value
    if value is MISSING and form.verdict == "happened" and schema == {}:
        return {"result": None}
    if found := form_violations(value, schema):
        return FormProblem("The answer is invalid; see the marked fields.", result=found)
    has_fields = schema.get("properties") or not pending.approval.form
    if has_fields and form.is_untouched and is_same(initial_value(schema), value):
        return FormProblem("Not sent yet: nothing was filled in. Send it again to confirm.")
    return {"result": value}


def _plan_decision(form: DecisionForm, pending: OpenApproval) -> dict[str, Any] | FormProblem:
    """Return an approval of a plan, or an edit where steps are removed or changed."""
    approval, steps = pending.approval, PlanSteps(pending.approval.arguments, pending.tools)
    removed = [step.id for step in steps.all if step.id not in form.kept_calls]
    changed: dict[str, Any] = {}
    problems: dict[str, Sequence[Violation]] = {}
    for step in steps.all:
        value = form.calls.get(step.id, _NO_VALUE).value
        if step.id in removed or value is MISSING:
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


def _is_reference(value: Any, place: Place) -> bool:
    with suppress(KeyError):  # the place of a missing property
        for step in place:
            value = value[step]
    return isinstance(value, str) and MARK in value


def apply_action(
    form: FormValue, action: str, schema: Any, key: str = "", place: Place = ()
) -> FormValue:
    """Return the value of a form after a button; an unknown button changes nothing.

    `action` is the button's: `add:/items`, `drop:/items/2`, `make:/address`, `null:/address`,
    `key:/labels` with the property's name as `key`, `branch:/payment:1`.
    """
    fields = build_fields(schema, form, place=place).walk()
    found = next((one for one in fields if action in one.actions), None)
    if found is None:
        return form
    inner, shapes, value = found.place[len(place) :], ShapeReader(schema), found.value
    notice_place, branches, new = inner, form.branches, value
    match action.partition(":")[0]:
        case "drop":
            new, is_empty = MISSING, value == "" or found.children
            text = "" if is_empty else one_line(found.display_text, _VALUE_CHARS)
            if is_item := isinstance(found.place[-1], int):
                branches = dict(_moved(branches, inner))
            notice = f"Removed entry {found.key}" if is_item else f"Omitted “{found.label}”"
            notice += f": {text}" if text else "."
        case "null":
            new, notice = None, f"“{found.label}” is now null."
        case "make":
            new, notice = (start_value(found.shape, shapes), f"Added “{found.label}”: fill it in.")
        case "add":
            new = [*value, _new_value(found.shape.item_schema(len(value)), shapes)]
            notice_place, notice = (*inner, len(value)), f"Added entry {len(new)}."
        case "branch":
            number = int(action.rpartition(":")[2])
            shape = found.alternatives[number]
            new = start_value(shape, shapes)
            if isinstance(new, dict) and isinstance(value, dict):
                # The properties that both schemas have stay.
                same = {name: one for name, one in value.items() if name in shape.properties}
                new = {**same, **new}
            others = {at: one for at, one in branches.items() if at[: len(inner)] != inner}
            branches = {**others, inner: number}
            notice = f"“{found.label}” is now: {found.branches[number].label}."
        case _ if not key or key in value:
            why = "a property of that name exists." if key else "enter a name first."
            text = f"Nothing was added: {why}"
            return replace(form, notice=EditNotice(inner, text, after_children=True))
        case _:
            new = {**value, key: _new_value(found.shape.property_schema(key), shapes)}
            notice_place, notice = (*inner, key), f"Added “{one_line(key, _VALUE_CHARS)}”."
    return FormValue(_put(form.value, inner, new), branches, EditNotice(notice_place, notice))


def _moved(branches: Mapping[Place, int], gone: Place) -> Iterator[tuple[Place, int]]:
    """Yield the selected alternatives where they are without an entry."""
    n, number = len(gone) - 1, int(gone[-1])
    for at, one in branches.items():
        is_inside = at[:n] == gone[:n] and len(at) > n
        if not is_inside or int(at[n]) < number:
            yield at, one
        elif int(at[n]) > number:
            yield (*at[:n], int(at[n]) - 1, *at[n + 1 :]), one


def _put(value: Any, place: Place, new: Any) -> Any:
    if not place:
        return new
    step, *rest = place
    parts = dict(enumerate(value) if isinstance(value, list) else value)
    parts[step] = _put(parts.get(step, MISSING), tuple(rest), new)
    if parts[step] is MISSING:
        del parts[step]
    return [*parts.values()] if isinstance(value, list) else parts


def _new_value(schema: Any, shapes: ShapeReader) -> Any:
    """Return a new item or property: empty, but present."""
    shape = shapes.read(schema)
    value = start_value(shape, shapes)
    if value is not MISSING:
        return value
    if shape.choices:
        return UnreadableText("", "pick")
    if shape.kinds and "string" not in shape.kinds:
        return UnreadableText("", "number" if {"number", "integer"} & set(shape.kinds) else "json")
    return ""

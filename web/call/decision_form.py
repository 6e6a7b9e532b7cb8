"""From what somebody has typed on the page of a call to a decision.

    form ─► `Typed` ─► decision, or what is wrong with it

What was typed is kept as it was typed until a decision counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import ValidationError
from starlette.datastructures import FormData

from holdfast.client.question_text import CannotStrikeError, strike_calls
from holdfast.runtime.text_safety import as_sentence
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision, PendingApproval, shown_calls
from holdfast.schemas.reference import MARK
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.validation.validator import Violation
from holdfast.web.auth.person import Person
from holdfast.web.call.loader import Asked
from holdfast.web.call.plan_steps import steps_of, why_lost
from holdfast.web.forms.control_names import DO, MISSING, Place, Said
from holdfast.web.forms.control_names import pointer as at
from holdfast.web.forms.field_builder import drawn
from holdfast.web.forms.fields import Field
from holdfast.web.forms.form_check import wrong
from holdfast.web.forms.structure_edits import begun, changed
from holdfast.web.forms.submission import Form, written_key
from holdfast.web.forms.value_diff import is_same

# Where values stand in the forms of the page.
EDIT: Final[Place] = ("arguments",)
RESULT: Final[Place] = ("result",)
CHECK: Final = "check"
_SAID: Final = ("digest", "reason", "token", "doubted")
KEEP: Final = "keep"


def of_call(call_id: str) -> Place:
    """Where the arguments of a call of a plan stand."""
    return ("calls", call_id)


@dataclass(frozen=True)
class Typed:
    """What was typed, and which button was pressed. `about` is the decision that it is for, `begun`
    says that its answer is from a page that nobody had filled in anything of yet."""

    about: str = ""
    does: str = ""
    digest: str = ""
    reason: str = ""
    token: str = ""
    remember: bool = False
    edit: Said = field(default_factory=lambda: Said(MISSING, {}))
    result: Said = field(default_factory=lambda: Said(MISSING, {}))
    calls: Mapping[str, Said] = field(default_factory=dict)
    doubted: str = ""
    begun: bool = False
    keep: Sequence[str] = ()
    items: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(cls, form: FormData) -> "Typed":
        """What a form says; what it lacks is empty."""
        items = [(name, text) for name, text in form.multi_items() if isinstance(text, str)]
        fields = dict(items)
        said = {name: fields.get(name, "").strip() for name in _SAID}
        ids = dict.fromkeys(text for name, text in items if name == "call")
        values = Form(items)
        return cls(
            about=fields.get("about", ""),
            does=fields.get(DO, ""),
            remember="remember" in fields,
            begun="begun" in fields,
            edit=values.said(EDIT),
            result=values.said(RESULT),
            calls={one: values.said(of_call(one)) for one in ids},
            keep=[text for name, text in items if name == KEEP],
            items=items,
            **said,
        )

    @property
    def only_draws(self) -> bool:
        """Whether the button was one that decides nothing."""
        return bool(self.does)

    def redrawn(self, asked: Asked) -> "Typed":
        """It, once the button was pressed that gives a form other fields."""
        _, _, pointer = self.does.partition(":")
        key = written_key(self.items, pointer)
        edit = changed(self.edit, self.does, asked.schema, key, EDIT)
        result = changed(self.result, self.does, output_of(asked), key, RESULT)
        calls = {
            one: changed(said, self.does, schema_of(asked, one), key, of_call(one))
            for one, said in self.calls.items()
        }
        return replace(self, edit=edit, result=result, calls=calls)


@dataclass(frozen=True)
class Amiss:
    """Why nothing was decided: in a sentence, and beside which values of which form."""

    said: str
    edit: Sequence[Violation] = ()
    result: Sequence[Violation] = ()
    calls: Mapping[str, Sequence[Violation]] = field(default_factory=dict)


def output_of(asked: Asked) -> Any:
    """The schema of the call's result; any, where its tool says none."""
    tool = asked.tool
    return {} if tool is None or not isinstance(tool.output, dict) else tool.output


def doubted(asked: Asked, said: Said) -> str:
    """What there is to be looked at again in edited arguments, as a mark; empty where nothing."""
    found = [(at(one.place), one.value) for one in doubtful(drawn(asked.schema, said))]
    return sha256(canonical_json(found)) if found else ""


def doubtful(form: Field) -> list[Field]:
    """The fields whose values do not look like what they are to be."""
    return [one for one in form.all() if one.doubt]


def schema_of(asked: Asked, call_id: str) -> Any:
    """The schema of the arguments of a call of a plan."""
    for call in shown_calls(asked.waiting.arguments):
        if call["id"] == call_id and str(call.get("tool")) in asked.tools:
            return asked.tools[str(call.get("tool"))].parameters
    return {}


def decision_of(typed: Typed, asked: Asked, person: Person) -> Decision | Amiss:
    """The decision, or what keeps it from being one."""
    match typed.about:
        case "edit" if asked.waiting.kind == "plan":
            said = of_plan(typed, asked)
        case "edit":
            said = _of_edit(typed, asked)
        case "respond" | "happened":
            said = _of_result(typed, asked)
        case _:
            said = {}
    return said if isinstance(said, Amiss) else _checked(typed, asked.waiting, person, said)


def _checked(
    typed: Typed, waiting: PendingApproval, person: Person, said: dict[str, Any]
) -> Decision | Amiss:
    given: dict[str, Any] = {
        "callId": waiting.call_id,
        "decision": typed.about,
        "digest": waiting.digest,
        **said,
    }
    if typed.reason:
        given["reason"] = typed.reason
    if typed.remember:
        given["remember"] = True
    # What was signed elsewhere says itself who decides.
    who = {"by": person.name, "groups": list(person.groups)}
    given |= {"token": typed.token} if typed.token else who
    try:
        return Decision.model_validate(given)
    except ValidationError as error:
        return Amiss(summarize_problems(problems_of(error, given, Decision)))


def _of_edit(typed: Typed, asked: Asked) -> dict[str, Any] | Amiss:
    found = wrong(typed.edit.value, asked.schema)
    if found:
        return Amiss("Some of it cannot be sent yet; what is wrong stands beside it.", edit=found)
    if canonical_json(typed.edit.value) == canonical_json(asked.waiting.arguments):
        return Amiss("Nothing was changed. To carry it out as it is, approve it.")
    # Once somebody was told what to look at again, it is theirs to say.
    if typed.doubted != (doubts := doubted(asked, typed.edit)) and doubts and not typed.does:
        return Amiss("Nothing was sent yet. Look at this again; to send it all the same, approve.")
    return {"arguments": typed.edit.value}


def _of_result(typed: Typed, asked: Asked) -> dict[str, Any] | Amiss:
    schema = output_of(asked)
    if typed.result.value is MISSING and typed.about == "happened" and schema == {}:
        return {"result": None}
    found = wrong(typed.result.value, schema)
    if found:
        return Amiss("This answer cannot be sent yet; what is wrong stands below.", result=found)
    if typed.begun and is_same(begun(schema), typed.result.value):
        return Amiss("Nothing was sent yet: nothing was filled in. Send it again, if it is meant.")
    return {"result": typed.result.value}


def of_plan(typed: Typed, asked: Asked) -> dict[str, Any] | Amiss:
    """A plan is approved as it is, or edited where something was struck out or changed."""
    shown = [call["id"] for call in shown_calls(asked.waiting.arguments)]
    struck = [one for one in shown if one not in typed.keep]
    others = _others(typed, asked, struck)
    if isinstance(others, Amiss):
        return others
    if not struck and not others:
        return {"decision": "approve"}
    if lost := steps_of(asked.waiting.arguments, asked.tools).lost(struck, others):
        return Amiss(why_lost(lost))
    try:
        left = strike_calls(asked.waiting, struck)
    except CannotStrikeError as error:
        return Amiss(as_sentence(str(error)))
    for call in left["calls"]:
        if call["id"] in others:
            call["arguments"] = others[call["id"]]
    return {"arguments": left}


def _others(typed: Typed, asked: Asked, struck: Sequence[str]) -> dict[str, Any] | Amiss:
    """The arguments of the calls of a plan that stay, and are to have others."""
    others: dict[str, Any] = {}
    faults: dict[str, Sequence[Violation]] = {}
    for call in shown_calls(asked.waiting.arguments):
        one = call["id"]
        said = typed.calls.get(one)
        if said is None or one in struck or said.value is MISSING:
            continue
        if found := _beyond_references(wrong(said.value, schema_of(asked, one)), said.value):
            faults[one] = found
        elif canonical_json(said.value) != canonical_json(call.get("arguments")):
            others[one] = said.value
    if faults:
        return Amiss("Some of it cannot be sent yet; it stands beside the step.", calls=faults)
    return others


def _beyond_references(found: Sequence[Violation], value: Any) -> list[Violation]:
    """What is wrong, but for references: what they come to stand for is not known yet."""
    return [one for one in found if not _is_reference(value, one.place)]


def _is_reference(value: Any, place: Place) -> bool:
    for step in place:
        inside = isinstance(value, dict) and step in value
        if not inside and not (isinstance(value, list) and isinstance(step, int)):
            return False
        value = value[step]
    return isinstance(value, str) and MARK in value

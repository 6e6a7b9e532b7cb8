"""From what somebody has typed on the page of a call to a decision, and to what came of it.

    form ─► `Typed` ─► decision, or what is wrong ─► signed ─► the run ─► its answer

What was typed is kept as it was typed until a decision counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import ValidationError
from starlette.datastructures import FormData
from temporalio.exceptions import ApplicationError

from inbox.call.asked import Asked
from inbox.forms.changing import changed
from inbox.forms.checking import wrong
from inbox.forms.places import DO, MISSING, Place, Said
from inbox.forms.reading import read, written_key
from inbox.parts import Parts
from inbox.person import Person
from remote.errors import CommandError
from remote.plan import CannotStrikeError, without
from remote.run import RemoteRun
from schemas import names
from schemas.base import canonical_json
from schemas.decision import Decision, Receipt, Waiting
from schemas.faults import faults_of, told
from schemas.plan import calls_shown
from schemas.reference import MARK
from workflows.engine.checking import Misfit

# Where values stand in the forms of the page.
EDIT: Final[Place] = ("arguments",)
RESULT: Final[Place] = ("result",)
CHECK: Final = "check"
KEEP: Final = "keep"


def of_call(call_id: str) -> Place:
    """Where the arguments of a call of a plan stand."""
    return ("calls", call_id)


@dataclass(frozen=True)
class Typed:
    """What was typed, and which button was pressed. `about` is the decision that it is for."""

    about: str = ""
    does: str = ""
    digest: str = ""
    reason: str = ""
    token: str = ""
    remember: bool = False
    edit: Said = field(default_factory=lambda: Said(MISSING, {}))
    result: Said = field(default_factory=lambda: Said(MISSING, {}))
    calls: Mapping[str, Said] = field(default_factory=dict)
    keep: Sequence[str] = ()
    items: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(cls, form: FormData) -> "Typed":
        """What a form says; what it lacks is empty."""
        items = [(name, text) for name, text in form.multi_items() if isinstance(text, str)]
        fields = dict(items)
        said = {name: fields.get(name, "").strip() for name in ("digest", "reason", "token")}
        ids = dict.fromkeys(text for name, text in items if name == "call")
        return cls(
            about=fields.get("about", ""),
            does=fields.get(DO, ""),
            remember="remember" in fields,
            edit=read(items, EDIT),
            result=read(items, RESULT),
            calls={one: read(items, of_call(one)) for one in ids},
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
    edit: Sequence[Misfit] = ()
    result: Sequence[Misfit] = ()
    calls: Mapping[str, Sequence[Misfit]] = field(default_factory=dict)


def output_of(asked: Asked) -> Any:
    """The schema of the call's result; any, where its tool says none."""
    tool = asked.tool
    return {} if tool is None or not isinstance(tool.output, dict) else tool.output


def schema_of(asked: Asked, call_id: str) -> Any:
    """The schema of the arguments of a call of a plan."""
    for call in calls_shown(asked.waiting.arguments):
        if call["id"] == call_id and str(call.get("tool")) in asked.tools:
            return asked.tools[str(call.get("tool"))].parameters
    return {}


def decision_of(typed: Typed, asked: Asked, person: Person) -> Decision | Amiss:
    """The decision, or what keeps it from being one."""
    match typed.about:
        case "edit" if asked.waiting.kind == "plan":
            said = _of_plan(typed, asked)
        case "edit":
            said = _of_edit(typed, asked)
        case "respond" | "happened":
            said = _of_result(typed, asked)
        case _:
            said = {}
    return said if isinstance(said, Amiss) else _checked(typed, asked.waiting, person, said)


def _checked(
    typed: Typed, waiting: Waiting, person: Person, said: dict[str, Any]
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
        return Amiss(told(faults_of(error, given, Decision)))


def _of_edit(typed: Typed, asked: Asked) -> dict[str, Any] | Amiss:
    found = wrong(typed.edit.value, asked.schema)
    if found:
        return Amiss("Some of it cannot be sent yet; what is wrong stands beside it.", edit=found)
    if canonical_json(typed.edit.value) == canonical_json(asked.waiting.arguments):
        return Amiss("Nothing was changed. To carry it out as it is, approve it.")
    return {"arguments": typed.edit.value}


def _of_result(typed: Typed, asked: Asked) -> dict[str, Any] | Amiss:
    schema = output_of(asked)
    if typed.result.value is MISSING and typed.about == "happened" and schema == {}:
        return {"result": None}
    found = wrong(typed.result.value, schema)
    if found:
        return Amiss("This answer cannot be sent yet; what is wrong stands below.", result=found)
    return {"result": typed.result.value}


def _of_plan(typed: Typed, asked: Asked) -> dict[str, Any] | Amiss:
    """A plan is approved as it is, or edited where something was struck out or changed."""
    waiting = asked.waiting
    shown = {call["id"]: call.get("arguments") for call in calls_shown(waiting.arguments)}
    struck = [one for one in shown if one not in typed.keep]
    others: dict[str, Any] = {}
    faults: dict[str, Sequence[Misfit]] = {}
    for one, said in typed.calls.items():
        if one in struck or one not in shown or said.value is MISSING:
            continue
        if found := _beyond_references(wrong(said.value, schema_of(asked, one)), said.value):
            faults[one] = found
        elif canonical_json(said.value) != canonical_json(shown[one]):
            others[one] = said.value
    if faults:
        return Amiss("Some of it cannot be sent yet; it stands beside the call.", calls=faults)
    if not struck and not others:
        return {"decision": "approve"}
    try:
        left = without(waiting, struck)
    except CannotStrikeError as error:
        return Amiss(f"{str(error)[:1].upper()}{str(error)[1:]}.")
    for call in left["calls"]:
        if call["id"] in others:
            call["arguments"] = others[call["id"]]
    return {"arguments": left}


def _beyond_references(found: Sequence[Misfit], value: Any) -> list[Misfit]:
    """What is wrong, but for references: what they come to stand for is not known yet."""
    return [one for one in found if not _is_reference(value, one.place)]


def _is_reference(value: Any, place: Place) -> bool:
    for step in place:
        inside = isinstance(value, dict) and step in value
        if not inside and not (isinstance(value, list) and isinstance(step, int)):
            return False
        value = value[step]
    return isinstance(value, str) and MARK in value


class RefusedError(Exception):
    """The run does not take the decision; `code` is one of `names`."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(said)
        self.code = code


async def send(parts: Parts, run_id: str, waiting: Waiting, decision: Decision) -> Receipt:
    """Sign a decision on a call of a run, where that is done here, send it, and have the answer.

    Raises:
        RefusedError: it does not count, and why.
        CommandError: nobody answers, it cannot be signed, or the run has ended.
    """
    run = parts.run(run_id)
    if parts.signer is not None and waiting.signed and decision.token is None:
        decision = parts.signer.sign(decision, waiting, run_id)
    try:
        return await _sent(run, decision)
    except ApplicationError as refusal:
        raise RefusedError(refusal.type or "", refusal.message) from refusal


async def _sent(run: RemoteRun, decision: Decision) -> Receipt:
    """A run that comes anew to its question after a crash may not know it for a moment."""
    try:
        return await run.decide(decision)
    except ApplicationError as refusal:
        if refusal.type != names.NO_SUCH_CALL:
            raise
        waiting = await run.waiting()
        if (decision.call_id, decision.digest) not in [(w.call_id, w.digest) for w in waiting]:
            raise
    return await run.decide(decision)


def stands(error: CommandError) -> str:
    """What is the matter, as a sentence."""
    said = str(error)
    return f"{said[:1].upper()}{said[1:]}."

"""A plan as its page shows it: step by step, what each would do, and what it uses of the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast.client import question_text
from holdfast.runtime.text_safety import clean, one_line
from holdfast.schemas.base import json_size
from holdfast.schemas.decision import Kind, shown_calls
from holdfast.schemas.tool import ShownTool
from holdfast.validation.validator import Violation
from holdfast.web.call.decision_form import Amiss, Typed, of_call, schema_of
from holdfast.web.call.loader import Asked
from holdfast.web.call.plan_steps import Step, Steps, in_words, numbered, steps_of
from holdfast.web.forms.control_names import Said
from holdfast.web.forms.field_builder import MAX_FIELDS, drawn
from holdfast.web.forms.fields import Field
from holdfast.web.forms.value_diff import Difference, differences, is_plain, is_same

MAX_EDIT_BYTES: Final = 200_000
_PLAN_FIELDS: Final = 120
_DESCRIPTION_CHARS: Final = 300
_NAME_CHARS: Final = 100
_CHANGES: Final = "changes something outside of this run"


@dataclass(frozen=True)
class Planned:
    """A call of a plan. `writes` is where it keeps its result, `users` who cannot be without it;
    `changes` is what somebody has changed of its arguments and not sent yet."""

    id: str
    number: int
    label: str
    description: str
    outside: str
    order: str
    writes: str
    by_whom: str
    why: str
    users: str
    values: Field
    edit: Field | None
    keep: bool
    is_changed: bool = False
    is_open: bool = False
    changes: Sequence[Difference] = ()


def planned(asked: Asked, typed: Typed, amiss: Amiss | None, *, may: bool) -> list[Planned]:
    """The calls of a plan; none, where it is another question."""
    if asked.waiting.kind != "plan":
        return []
    arguments = asked.waiting.arguments
    calls = list(shown_calls(arguments))
    # What is not shown could be neither kept nor left out.
    can = may and asked.is_whole and len(calls) <= question_text.MAX_CALLS
    can = can and json_size(arguments) <= MAX_EDIT_BYTES
    room = max(_PLAN_FIELDS // max(len(calls), 1), 1)
    steps, found = steps_of(arguments, asked.tools), list[Planned]()
    for step, call in zip(steps.all, calls[: question_text.MAX_CALLS], strict=False):
        said = typed.calls.get(step.id, Said(step.arguments, {}))
        wrong = amiss.calls.get(step.id, ()) if amiss else ()
        schema, users = schema_of(asked, step.id), steps.users(step)
        is_changed = not is_same(said.value, step.arguments)
        differ = is_changed and is_plain(said.value)
        found.append(
            Planned(
                id=step.id,
                number=step.number,
                label=step.label,
                description=_description(asked, step),
                outside=_outside(asked, step),
                order=_order(steps, step, call),
                writes=one_line(str(call.get("writes") or ""), _NAME_CHARS),
                by_whom=question_text.plan_call_delegate(call),
                why=clean(str(call.get("reasoning") or "")),
                users=numbered(users) if users else "",
                values=_values(schema, steps, step),
                edit=_edit(schema, said, step, room, wrong) if can else None,
                keep=typed.about != "edit" or step.id in typed.keep,
                is_changed=is_changed,
                is_open=bool(wrong) or is_changed or said.done is not None,
                changes=differences(step.arguments, said.value) if differ else (),
            )
        )
    return found


def differing(
    kind: Kind, old: Mapping[str, Any], new: Mapping[str, Any], tools: Mapping[str, ShownTool]
) -> list[Difference]:
    """What is another in the arguments of a question; of a plan, step by step what is left out of
    it, and what is changed."""
    if kind != "plan":
        return differences(old, new)
    left = {call["id"]: call for call in shown_calls(new)}
    found: list[Difference] = []
    for step in steps_of(old, tools).all:
        name = f"Step {step.number}: {step.label}"
        if step.id not in left:
            found.append(Difference(name, "would be carried out", "left out"))
            continue
        others = left[step.id].get("arguments")
        changed = [] if others is None else differences(step.arguments, others)
        found += [replace(one, place=f"{name} › {one.place}") for one in changed]
    return found


def outside_of(steps: Sequence[Planned]) -> list[str]:
    """Which of the steps that stay change something outside, in a sentence."""
    found = [str(one.number) for one in steps if one.keep and one.outside == _CHANGES]
    if not found:
        return []
    one = len(found) == 1
    which = f"Step {found[0]} changes" if one else f"Steps {in_words(found)} change"
    back = f"There is no button that takes {'it' if one else 'them'} back."
    return [f"{which} something outside of this run. {back}"]


def _description(asked: Asked, step: Step) -> str:
    tool = asked.tools.get(step.tool)
    return one_line(tool.description, _DESCRIPTION_CHARS) if tool is not None else ""


def _outside(asked: Asked, step: Step) -> str:
    """Whether it changes something that no button takes back."""
    tool = asked.tools.get(step.tool)
    if tool is None:
        return f"not known whether it {_CHANGES}"
    return _CHANGES if tool.side_effects else ""


def _order(steps: Steps, step: Step, call: Mapping[str, Any]) -> str:
    """What it waits for, and whose data it is about."""
    whose = f"for {one_line(str(call['instance']), _NAME_CHARS)}" if call.get("instance") else ""
    return ", ".join(part for part in (steps.before(step), whose) if part)


def _edit(schema: Any, said: Said, step: Step, room: int, wrong: Sequence[Violation]) -> Field:
    """The form of its arguments."""
    place, prefix = of_call(step.id), f"c{step.number}-"
    return drawn(schema, said, place=place, prefix=prefix, room=room, wrong=wrong)


def _values(schema: Any, steps: Steps, step: Step) -> Field:
    """The arguments, to be looked at: each reference with what it stands for."""
    whole = drawn(schema, Said(step.arguments, {}), prefix="v", room=5 * MAX_FIELDS)
    for one in whole.all():
        one.stands_for = steps.meaning(step, one.value)
    return whole

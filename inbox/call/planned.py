"""A plan as its page shows it: step by step, what each would do, and what it uses of the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inbox.call.asked import Asked
from inbox.call.deciding import Amiss, Typed, of_call, schema_of
from inbox.call.steps import Step, Steps, numbered, steps_of
from inbox.forms.differing import Difference, differences, is_same
from inbox.forms.drawing import MAX_FIELDS, drawn
from inbox.forms.fields import Field
from inbox.forms.places import Said
from remote import plan
from remote.text import clean, one_line
from schemas.base import json_size
from schemas.plan import calls_shown
from workflows.engine.checking import Misfit

MAX_EDIT_BYTES: Final = 200_000
_PLAN_FIELDS: Final = 120
_DESCRIPTION_CHARS: Final = 300
_NAME_CHARS: Final = 100


@dataclass(frozen=True)
class Planned:
    """A call of a plan. `writes` is where it keeps its result, `users` who cannot be without it."""

    id: str
    number: int
    label: str
    description: str
    order: str
    writes: str
    by_whom: str
    why: str
    users: str
    values: Field
    edit: Field | None
    keep: bool
    is_open: bool = False


def planned(asked: Asked, typed: Typed, amiss: Amiss | None, *, may: bool) -> list[Planned]:
    """The calls of a plan; none, where it is another question."""
    if asked.waiting.kind != "plan":
        return []
    arguments = asked.waiting.arguments
    calls = list(calls_shown(arguments))
    # What is not shown could be neither kept nor left out.
    can = may and asked.is_whole and len(calls) <= plan.MAX_CALLS
    can = can and json_size(arguments) <= MAX_EDIT_BYTES
    room = max(_PLAN_FIELDS // max(len(calls), 1), 1)
    steps, found = steps_of(arguments, asked.tools), list[Planned]()
    for step, call in zip(steps.all, calls[: plan.MAX_CALLS], strict=False):
        said = typed.calls.get(step.id, Said(step.arguments, {}))
        wrong = amiss.calls.get(step.id, ()) if amiss else ()
        schema, users = schema_of(asked, step.id), steps.users(step)
        found.append(
            Planned(
                id=step.id,
                number=step.number,
                label=step.label,
                description=_description(asked, step),
                order=_order(steps, step, call),
                writes=one_line(str(call.get("writes") or ""), _NAME_CHARS),
                by_whom=plan.by_whom(call),
                why=clean(str(call.get("reasoning") or "")),
                users=numbered(users) if users else "",
                values=_values(schema, steps, step),
                edit=_edit(schema, said, step, room, wrong) if can else None,
                keep=typed.about != "edit" or step.id in typed.keep,
                is_open=bool(wrong) or not is_same(said.value, step.arguments),
            )
        )
    return found


def changed_in(asked: Asked, decided: Mapping[str, Any]) -> list[Difference]:
    """What a decision would leave out of a plan, and change in it, step by step."""
    left = {call["id"]: call for call in calls_shown(decided.get("arguments") or {})}
    if not left:
        return []  # it is approved as it is
    found: list[Difference] = []
    for step in steps_of(asked.waiting.arguments, asked.tools).all:
        name = f"Step {step.number}: {step.label}"
        if step.id not in left:
            found.append(Difference(name, "would be carried out", "left out"))
            continue
        others = left[step.id].get("arguments")
        changed = [] if others is None else differences(step.arguments, others)
        found += [Difference(f"{name} › {one.place}", one.before, one.after) for one in changed]
    return found


def _description(asked: Asked, step: Step) -> str:
    tool = asked.tools.get(step.tool)
    return one_line(tool.description, _DESCRIPTION_CHARS) if tool is not None else ""


def _order(steps: Steps, step: Step, call: Mapping[str, Any]) -> str:
    """What it waits for, and whose data it is about."""
    whose = f"for {one_line(str(call['instance']), _NAME_CHARS)}" if call.get("instance") else ""
    return ", ".join(part for part in (steps.before(step), whose) if part)


def _edit(schema: Any, said: Said, step: Step, room: int, wrong: Sequence[Misfit]) -> Field:
    """The form of its arguments."""
    place, prefix = of_call(step.id), f"c{step.number}-"
    return drawn(schema, said, place=place, prefix=prefix, room=room, wrong=wrong)


def _values(schema: Any, steps: Steps, step: Step) -> Field:
    """The arguments, to be looked at: each reference with what it stands for."""
    whole = drawn(schema, Said(step.arguments, {}), prefix="v", room=5 * MAX_FIELDS)
    for one in whole.all():
        one.stands_for = steps.meaning(step, one.value)
    return whole

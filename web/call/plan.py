"""The steps of a plan by their numbers, their dependencies, and their rows of a page.

The run checks an edited plan again, by the same rules.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast.client import question_text
from holdfast.runtime.text_safety import clean, one_line
from holdfast.schemas.base import json_size
from holdfast.schemas.decision import Kind, PendingApproval, shown_calls
from holdfast.schemas.reference import (
    OutputPath,
    Path,
    Reference,
    parse_output_path,
    parse_reference,
    paths_inside,
    replace_inside,
)
from holdfast.schemas.tool import ShownTool
from holdfast.validation.validator import Violation
from holdfast.web.forms.field_builder import MAX_FIELDS, build_fields
from holdfast.web.forms.fields import Field
from holdfast.web.forms.form_values import FormValue, Place
from holdfast.web.forms.value_diff import Difference, differences, is_plain, is_same
from holdfast.workflows.engine.state.references import references

MAX_EDIT_BYTES: Final = 200_000
MAX_NAMED: Final = 10
_PLAN_FIELDS: Final = 120
_DESCRIPTION_CHARS: Final = 300
_TEXT_CHARS: Final = 100
_NAME_CHARS: Final = 60
_PATH_CHARS: Final = 120
_SIDE_EFFECTS: Final = "has side effects"


@dataclass(frozen=True, eq=False)
class PlanStep:
    """A call of a plan; its result is written to `places`, its error to `errors`."""

    number: int
    id: str
    tool: str
    label: str
    arguments: Any
    waits_for: Collection[str]
    places: tuple[Path, ...]
    errors: tuple[Path, ...]

    @property
    def title(self) -> str:
        """Return the number and the name of the step."""
        return f"step {self.number} ({self.label})"

    @property
    def all_places(self) -> tuple[Path, ...]:
        """Return all places that the step may write to."""
        return (*self.places, *self.errors)


@dataclass(frozen=True)
class UnusableStep:
    """A step that cannot be executed, and the removed steps that it needs."""

    step: PlanStep
    missing: Sequence[PlanStep]

    @property
    def missing_titles(self) -> str:
        """Return the titles of the removed steps."""
        return join_words([one.title for one in self.missing])


class PlanSteps:
    """The steps of one plan and their dependencies."""

    def __init__(self, arguments: Mapping[str, Any], labels: Mapping[str, str]) -> None:
        calls = enumerate(shown_calls(arguments), start=1)
        self.all = [_step(number, call, labels) for number, call in calls]
        self._of = {step.id: step for step in self.all}
        self._uses = {step.id: [*references(step.arguments)] for step in self.all}

    def of(self, call_id: str) -> PlanStep:
        """Return the step of a call."""
        return self._of[call_id]

    def order_text(self, step: PlanStep) -> str:
        """Return the steps that a step waits for: `After steps 1 and 2`; empty for none."""
        waits = [one for one in self.all if one.id in step.waits_for]
        return f"After {step_numbers(waits)}" if waits else ""

    def steps_using(self, step: PlanStep) -> list[PlanStep]:
        """Return the steps that cannot be executed without this one."""
        return [lost.step for lost in self.unusable_steps({step.id}, {})]

    def unusable_steps(
        self, struck: Collection[str], edited: Mapping[str, Any]
    ) -> list[UnusableStep]:
        """Return the remaining steps that refer to values that only removed steps write."""
        uses = self._uses | {one: [*references(arguments)] for one, arguments in edited.items()}
        gone, found = {*struck}, list[UnusableStep]()
        just_gone = gone
        # Only steps that wait for a newly removed step can be affected: a plan can be a long chain.
        while more := [
            UnusableStep(step, without)
            for step in self.all
            if step.id not in gone and not just_gone.isdisjoint(step.waits_for)
            if (without := self.missing_results(step, uses[step.id], gone))
        ]:
            found += more
            just_gone = {lost.step.id for lost in more}
            gone = gone | just_gone
        return found

    def missing_results(
        self, step: PlanStep, uses: Sequence[Reference], gone: Collection[str]
    ) -> list[PlanStep]:
        """Return the removed steps whose result a step needs, in order."""
        lacking: dict[int, PlanStep] = {}
        for reference in uses:
            each = [self._only(step, path, gone) for path in reference.paths]
            if any(each) if reference.choose == "all" else all(each):
                lacking |= {one.number: one for several in each for one in several}
        return [lacking[number] for number in sorted(lacking)]

    def _only(self, step: PlanStep, path: Path, gone: Collection[str]) -> list[PlanStep]:
        """Return the removed steps that alone would write a place."""
        sources = [self._of[one] for one in step.waits_for if one in self._of]
        coming = [
            place for one in sources for place in (one.errors if one.id in gone else one.all_places)
        ]
        if any(place.overlaps(path) for place in coming):
            return []
        return [
            one
            for one in sources
            if one.id in gone and any(place.covers(path) for place in one.all_places)
        ]

    def reference_text(self, step: PlanStep, value: Any) -> str:
        """Describe the value of a reference; empty for a value that is no reference."""
        if not isinstance(value, str) or not step.waits_for:
            return ""
        if (reference := parse_reference(value)) is not None:
            return self._told(step, reference)
        if paths_inside(value):
            return replace_inside(value, lambda path: f"[{self._value(step, path)}]")
        return ""

    def _told(self, step: PlanStep, reference: Reference) -> str:
        told = [self._value(step, path) for path in reference.paths]
        if reference.choose == "all":
            return f"{told[-1]}, once {' and '.join(told[:-1])} exists"
        return ", or else ".join(told)

    def _value(self, step: PlanStep, path: Path) -> str:
        """Describe the value at a path: `“paid” of the result of step 1`."""
        found = [
            (one, place)
            for one in self.all
            if one.id in step.waits_for
            for place in one.all_places
            if place.overlaps(path)
        ]
        if not found:
            source = f"the {path.kind} of the run"
            return f"“{_along(path.steps)}” of {source}" if path.steps else source
        one, place = found[-1]
        inside = _along(path.steps[len(place.steps) :]) if place.covers(path) else ""
        writers = [*dict.fromkeys(writer for writer, _ in found)]
        source = f"the {'error' if place in one.errors else 'result'} of {step_numbers(writers)}"
        return f"“{inside}” of {source}" if inside else source


def steps_of(arguments: Mapping[str, Any], tools: Mapping[str, ShownTool]) -> PlanSteps:
    """Return the steps of a plan, named by the labels of their tools."""
    named = {}
    for name, tool in tools.items():
        label = tool.label or tool.parameters.get("title")
        named[name] = label if isinstance(label, str) else ""
    return PlanSteps(arguments, named)


def step_numbers(steps: Sequence[PlanStep]) -> str:
    """Return `step 1` or `steps 1, 2 and 5`."""
    told = [str(step.number) for step in steps]
    return f"step{'' if len(told) == 1 else 's'} {join_words(told)}"


def join_words(told: Sequence[str]) -> str:
    """Join words to `a, b and c`, with a count in place of those beyond `MAX_NAMED`."""
    if len(told) > MAX_NAMED:
        told = [*told[:MAX_NAMED], f"{len(told) - MAX_NAMED} more"]
    *most, last = told
    return f"{', '.join(most)} and {last}" if most else last


def describe_unusable(found: Sequence[UnusableStep]) -> str:
    """Return why a plan cannot be approved with these steps, and what to do."""
    texts = []
    for missing in dict.fromkeys(one.missing_titles for one in found):
        users = [one.step.title for one in found if one.missing_titles == missing]
        need = "needs" if len(users) == 1 else "need"
        texts.append(f"{join_words(users)} {need} the result of {missing}")
    text = "; ".join(texts)
    also = f"Remove {step_numbers([one.step for one in found])} too, or change the arguments"
    return f"{text[:1].upper()}{text[1:]}, which would be removed. {also}."


def _step(number: int, call: Mapping[str, Any], labels: Mapping[str, str]) -> PlanStep:
    tool = str(call.get("tool") or "")
    own = str(call.get("label") or "")
    label = labels.get(tool, "") if own in ("", tool) else own
    written = _written(call.get("writes"))
    waits = call.get("waitsFor")
    return PlanStep(
        number,
        call["id"],
        tool,
        one_line(label or own or tool, _NAME_CHARS),
        call.get("arguments") or {},
        frozenset(map(str, waits)) if isinstance(waits, list) else frozenset(),
        written.result,
        written.error,
    )


def _written(writes: Any) -> OutputPath:
    """Read the output path of a call of a plan."""
    before, _, behind = str(writes or "").partition(" || ")
    try:
        result = parse_output_path(before).result if before else ()
        return OutputPath(result, parse_output_path(behind).result if behind else ())
    except ValueError:
        return OutputPath(())


def _along(steps: Sequence[str | int]) -> str:
    named = (str(step + 1) if isinstance(step, int) else step for step in steps)
    return one_line(" › ".join(named), _PATH_CHARS)


def call_place(call_id: str) -> Place:
    """Return the place of a call's arguments in the form of a plan."""
    return ("calls", call_id)


def arguments_schema(
    arguments: Mapping[str, Any], tools: Mapping[str, ShownTool], call_id: str
) -> Any:
    """Return the schema of the arguments of a call of a plan."""
    for call in shown_calls(arguments):
        if call["id"] == call_id and str(call.get("tool")) in tools:
            return tools[str(call.get("tool"))].parameters
    return {}


@dataclass(frozen=True)
class PlanRow:
    """A step as the page shows it.

    The result is stored at `writes`; the steps `users` need it; `changes` are edits not sent yet.
    """

    id: str
    number: int
    label: str
    description: str
    side_effect: str
    order: str
    writes: str
    executor: str
    reasoning: str
    users: str
    values: Field
    edit: Field | None
    keep: bool
    is_changed: bool = False
    is_open: bool = False
    changes: Sequence[Difference] = ()


def plan_rows(
    approval: PendingApproval,
    tools: Mapping[str, ShownTool],
    *,
    may_edit: bool,
    entered: Mapping[str, FormValue],
    kept_calls: Collection[str] | None,
    problems: Mapping[str, Sequence[Violation]],
) -> list[PlanRow]:
    """Return the steps of a plan; none for another kind of question.

    Args:
        approval: the question.
        tools: the tools of its calls, as far as they are known.
        may_edit: the person may decide, and all arguments are known.
        entered: the entered arguments, by call.
        kept_calls: the selected calls; `None` if nothing was selected yet.
        problems: the violations in entered arguments, by call.
    """
    if approval.kind != "plan":
        return []
    arguments = approval.arguments
    calls = list(shown_calls(arguments))
    # A step that is not shown can be neither kept nor removed.
    may_edit = may_edit and len(calls) <= question_text.MAX_CALLS
    may_edit = may_edit and json_size(arguments) <= MAX_EDIT_BYTES
    room = max(_PLAN_FIELDS // max(len(calls), 1), 1)
    steps, found = steps_of(arguments, tools), list[PlanRow]()
    for step, call in zip(steps.all, calls[: question_text.MAX_CALLS], strict=False):
        said = entered.get(step.id, FormValue(step.arguments, {}))
        wrong, tool = problems.get(step.id, ()), tools.get(step.tool)
        schema, users = arguments_schema(arguments, tools, step.id), steps.steps_using(step)
        is_changed = not is_same(said.value, step.arguments)
        values = build_fields(
            schema, FormValue(step.arguments, {}), prefix="v", room=5 * MAX_FIELDS
        )
        for one in values.walk():
            one.reference_text = steps.reference_text(step, one.value)
        edit = None
        if may_edit:
            place, prefix = call_place(step.id), f"c{step.number}-"
            edit = build_fields(schema, said, place=place, prefix=prefix, room=room, wrong=wrong)
        instance = one_line(str(call.get("instance") or ""), _TEXT_CHARS)
        order = [steps.order_text(step), f"for {instance}" if instance else ""]
        found.append(
            PlanRow(
                id=step.id,
                number=step.number,
                label=step.label,
                description=one_line(tool.description, _DESCRIPTION_CHARS) if tool else "",
                side_effect=_side_effect(tool),
                order=", ".join(filter(None, order)),
                writes=one_line(str(call.get("writes") or ""), _TEXT_CHARS),
                executor=question_text.plan_call_delegate(call),
                reasoning=clean(str(call.get("reasoning") or "")),
                users=step_numbers(users) if users else "",
                values=values,
                edit=edit,
                keep=kept_calls is None or step.id in kept_calls,
                is_changed=is_changed,
                is_open=bool(wrong) or is_changed or said.notice is not None,
                changes=differences(step.arguments, said.value)
                if is_changed and is_plain(said.value)
                else (),
            )
        )
    return found


def _side_effect(tool: ShownTool | None) -> str:
    if tool is None:
        return "side effects unknown"
    return _SIDE_EFFECTS if tool.side_effects else ""


def side_effect_warnings(rows: Sequence[PlanRow]) -> list[str]:
    """Return which of the selected steps have side effects, as a sentence."""
    found = [str(one.number) for one in rows if one.keep and one.side_effect == _SIDE_EFFECTS]
    if not found:
        return []
    which = f"Step {found[0]} has" if len(found) == 1 else f"Steps {join_words(found)} have"
    return [f"{which} side effects. There is no undo."]


def argument_differences(
    kind: Kind, old: Mapping[str, Any], new: Mapping[str, Any], tools: Mapping[str, ShownTool]
) -> list[Difference]:
    """Return the differences between arguments; of a plan, step by step."""
    if kind != "plan":
        return differences(old, new)
    remaining = {call["id"]: call for call in shown_calls(new)}
    found: list[Difference] = []
    for step in steps_of(old, tools).all:
        name = f"Step {step.number}: {step.label}"
        if step.id not in remaining:
            found.append(Difference(name, "to be executed", "removed"))
            continue
        others = remaining[step.id].get("arguments")
        changed = [] if others is None else differences(step.arguments, others)
        found += [replace(one, place=f"{name} › {one.place}") for one in changed]
    return found

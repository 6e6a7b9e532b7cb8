"""The steps of a plan by their numbers, their dependencies, and their rows of a page.

The run checks an edited plan again, by the same rules.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast.runtime.narration.arguments import (
    ItemTable,
    effect_text,
    item_table,
    money_amount,
    total_text,
)
from holdfast.runtime.narration.question_view import MAX_CALLS, step_bound, step_delegate
from holdfast.runtime.narration.value_diff import Difference, Place, differences
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.decision import Kind, PendingApproval, shown_calls
from holdfast.schemas.reference import (
    OutputPath,
    Path,
    Reference,
    parse_output_path,
    parse_reference,
    paths_inside,
    references_in,
    replace_inside,
)
from holdfast.schemas.tool import ShownTool, shown_parameters
from holdfast.validation.validator import Violation
from holdfast.web.forms.fields import MAX_FIELDS, Field, build_fields
from holdfast.web.forms.form_values import FormValue, is_plain, is_same

MAX_NAMED: Final = 10
_PLAN_FIELDS: Final = 120
_TEXT_CHARS: Final = 100
_NAME_CHARS: Final = 60
_PATH_CHARS: Final = 120
_BUTTON_CHARS: Final = 90


@dataclass(frozen=True, eq=False)
class PlanStep:
    """A call of a plan; it may write its result and its error to `places`."""

    number: int
    id: str
    call: Mapping[str, Any]
    tool: ShownTool | None
    label: str
    arguments: Any
    schema: Any
    waits_for: Collection[str]
    places: OutputPath

    @property
    def title(self) -> str:
        return f"step {self.number} ({self.label})"

    @property
    def may_have_effects(self) -> bool:
        return self.tool is None or self.tool.side_effects

    @property
    def amount(self) -> str:
        """Return the one amount of money in its arguments, `980.00 EUR`; empty without one."""
        return money_amount(self.arguments, self.schema)

    @property
    def effect(self) -> str:
        """Return what it does: by its tool `payment of €980.00`, or its label and amount."""
        template, effect = self.tool and self.tool.approval.effect, ""
        if template and not [*references_in(self.arguments)]:
            effect = effect_text(template, self.arguments, self.schema)
        return effect or f"{self.label} {total_text([self.amount])}".rstrip()

    @property
    def all_places(self) -> tuple[Path, ...]:
        """Return all places that the step may write to."""
        return (*self.places.result, *self.places.error)


# A step that cannot be executed, and the removed steps that it needs.
UnusableStep = tuple[PlanStep, Sequence[PlanStep]]


class PlanSteps:
    """The steps of one plan and their dependencies."""

    def __init__(self, arguments: Mapping[str, Any], tools: Mapping[str, ShownTool]) -> None:
        self.all: list[PlanStep] = []
        for number, call in enumerate(shown_calls(arguments), start=1):
            name, label = str(call.get("tool") or ""), str(call.get("label") or "")
            tool = tools.get(name)
            if tool is not None and label in ("", name):
                title = tool.label or tool.parameters.get("title")
                label = title if isinstance(title, str) else label
            try:
                places = parse_output_path(str(call.get("writes") or ""))
            except ValueError:
                places = OutputPath(())
            waits = call.get("waitsFor")
            self.all.append(
                PlanStep(
                    number,
                    call["id"],
                    call,
                    tool,
                    one_line(label or name, _NAME_CHARS),
                    call.get("arguments") or {},
                    shown_parameters(tool.parameters if tool else {}, call.get("arguments")),
                    frozenset(map(str, waits)) if isinstance(waits, list) else frozenset(),
                    places,
                )
            )
        self._of = {step.id: step for step in self.all}
        self._uses = {step.id: [*references_in(step.arguments)] for step in self.all}

    def order_text(self, step: PlanStep) -> str:
        """Return what a step waits for, its instance, its bound, and the agent that runs it.

        `After steps 1 and 2, for ada`; may be empty.
        """
        waits = [one for one in self.all if one.id in step.waits_for]
        instance = one_line(str(step.call.get("instance") or ""), _TEXT_CHARS)
        order = [f"After {step_numbers(waits)}"] if waits else []
        order += [f"for {instance}"] if instance else []
        order.append(step_bound(step.call))
        executor = step_delegate(step.call)
        return "; ".join(filter(None, [", ".join(filter(None, order)), executor]))

    def unusable_steps(
        self, struck: Collection[str], edited: Mapping[str, Any]
    ) -> list[UnusableStep]:
        """Return the remaining steps that refer to values that only removed steps write."""
        uses = self._uses | {one: [*references_in(arguments)] for one, arguments in edited.items()}
        gone, found = {*struck}, list[UnusableStep]()
        just_gone = gone
        # Only steps that wait for a newly removed step can be affected: a plan can be a long chain.
        while more := [
            (step, without)
            for step in self.all
            if step.id not in gone and not just_gone.isdisjoint(step.waits_for)
            if (without := self.missing_results(step, uses[step.id], gone))
        ]:
            found += more
            just_gone = {lost.id for lost, _ in more}
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
        found = list[PlanStep]()
        for one in filter(None, map(self._of.get, step.waits_for)):
            is_gone = one.id in gone
            coming = one.places.error if is_gone else one.all_places
            if any(place.overlaps(path) for place in coming):
                return []
            if is_gone and any(place.covers(path) for place in one.all_places):
                found.append(one)
        return found

    def reference_text(self, step: PlanStep, value: Any) -> str:
        """Describe the value of a reference; empty for a value that is no reference."""
        if not isinstance(value, str) or not step.waits_for:
            return ""
        if (reference := parse_reference(value)) is not None:
            texts = [self._value(step, path) for path in reference.paths]
            if reference.choose == "all":
                return f"{texts[-1]}, once {' and '.join(texts[:-1])} exists"
            return ", or else ".join(texts)
        if paths_inside(value):
            return replace_inside(value, lambda path: f"[{self._value(step, path)}]")
        return ""

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
        writers = [*dict(found)]
        what = "error" if place in one.places.error else "result"
        source = f"the {what} of {step_numbers(writers)}"
        return f"“{inside}” of {source}" if inside else source


def step_numbers(steps: Sequence[PlanStep]) -> str:
    """Return `step 1` or `steps 1, 2 and 5`."""
    return f"step{'' if len(steps) == 1 else 's'} {join_words([str(one.number) for one in steps])}"


def join_words(words: Sequence[str]) -> str:
    """Join words to `a, b and c`, with a count in place of those beyond `MAX_NAMED`."""
    if len(words) > MAX_NAMED:
        words = [*words[:MAX_NAMED], f"{len(words) - MAX_NAMED} more"]
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def describe_unusable(found: Sequence[UnusableStep]) -> str:
    """Return why a plan cannot be approved with these steps, and what to do."""
    users: dict[str, list[str]] = {}
    for step, without in found:
        missing = join_words([one.title for one in without])
        users.setdefault(missing, []).append(step.title)
    texts = [
        f"{join_words(titles)} {'needs' if len(titles) == 1 else 'need'} the result of {missing}"
        for missing, titles in users.items()
    ]
    text = "; ".join(texts)
    also = f"Remove {step_numbers([step for step, _ in found])} too, or change the arguments"
    return f"{text[:1].upper()}{text[1:]}, which would be removed. {also}."


def _along(steps: Sequence[str | int]) -> str:
    named = (_item(step) if isinstance(step, int) else step for step in steps)
    return one_line(" › ".join(named), _PATH_CHARS)


def _item(index: int) -> str:
    return str(index + 1) if index >= 0 else f"{-index} from the end"


def call_place(call_id: str) -> Place:
    """Return the place of a call's arguments in the form of a plan."""
    return ("calls", call_id)


@dataclass(frozen=True)
class PlanRow:
    """A step as the page shows it.

    The steps `users` need its result; `changes` are edits not sent yet.
    """

    step: PlanStep
    order: str
    users: str
    values: Field
    items: ItemTable | None
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
    """Return the steps of a plan.

    `entered` are arguments by call, with their `problems`; `kept_calls` is `None` if nothing was
    selected yet.
    """
    steps, found = PlanSteps(approval.arguments, tools), list[PlanRow]()
    # A step that is not shown can be neither kept nor removed.
    may_edit = may_edit and len(steps.all) <= MAX_CALLS
    room = max(_PLAN_FIELDS // max(len(steps.all), 1), 1)
    for step in steps.all[:MAX_CALLS]:
        form = entered.get(step.id, FormValue(step.arguments, {}))
        wrong = problems.get(step.id, ())
        is_changed = not is_same(form.value, step.arguments)
        users = [lost for lost, _ in steps.unusable_steps({step.id}, {})]
        as_asked, prefix = FormValue(step.arguments, {}), f"v{step.number}-"
        values = build_fields(step.schema, as_asked, prefix=prefix, room=5 * MAX_FIELDS)
        for one in values.walk():
            one.reference_text = steps.reference_text(step, one.value)
        edit = None
        if may_edit:
            place, prefix = call_place(step.id), f"c{step.number}-"
            edit = build_fields(
                step.schema, form, place=place, prefix=prefix, room=room, wrong=wrong
            )
        found.append(
            PlanRow(
                step=step,
                order=steps.order_text(step),
                users=step_numbers(users) if users else "",
                values=values,
                items=item_table(step.arguments, step.tool and step.tool.parameters),
                edit=edit,
                keep=kept_calls is None or step.id in kept_calls,
                is_changed=is_changed,
                is_open=bool(wrong) or is_changed or form.notice is not None,
                changes=differences(step.arguments, form.value, step.schema)
                if is_changed and is_plain(form.value)
                else (),
            )
        )
    return found


def plan_button(rows: Sequence[PlanRow]) -> str:
    """Return the button that approves steps, with the effects of those that are kept.

    `Approve 3 steps: order of €980.00, payment of €980.00`; of many, their number and sum.
    """
    kept = [row.step for row in rows if row.keep]
    acting = [step for step in kept if step.may_have_effects]
    label = f"Approve {len(kept)} step{'' if len(kept) == 1 else 's'}"
    whole = f"{label}: {', '.join(step.effect for step in acting)}"
    if len(whole) > _BUTTON_CHARS:
        whole = f"{label}: {len(acting)} with side effects"
        whole += f", {total}" if (total := total_text(step.amount for step in acting)) else ""
    return whole if acting else label


def argument_differences(
    kind: Kind,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    tools: Mapping[str, ShownTool],
    schema: Any = True,
) -> list[Difference]:
    """Return the differences between arguments of a schema; of a plan, step by step."""
    if kind != "plan":
        return differences(old, new, schema)
    remaining = {call["id"]: call for call in shown_calls(new)}
    found: list[Difference] = []
    for step in PlanSteps(old, tools).all:
        name = f"Step {step.number}: {step.label}"
        if step.id not in remaining:
            found.append(Difference(name, "to be executed", "removed"))
            continue
        others = remaining[step.id].get("arguments")
        changed = [] if others is None else differences(step.arguments, others, step.schema)
        found += [replace(one, place=f"{name} › {one.place}") for one in changed]
    return found

"""The steps of a plan by their numbers, and how they hang together: what one gives, others use.

What is told here beforehand the run decides itself, by the same rules, when it is sent.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast.runtime.text_safety import one_line
from holdfast.schemas.decision import shown_calls
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
from holdfast.workflows.engine.state.references import references

MAX_TOLD: Final = 10
_NAME_CHARS: Final = 60
_PATH_CHARS: Final = 120


@dataclass(frozen=True, eq=False)
class Step:
    """A call of a plan. `places` are those that its result is written to, `errors` its error."""

    number: int
    id: str
    tool: str
    label: str
    arguments: Any
    waits: Collection[str]
    places: tuple[Path, ...]
    errors: tuple[Path, ...]

    @property
    def told(self) -> str:
        """It, by its number and its name."""
        return f"step {self.number} ({self.label})"

    @property
    def all_places(self) -> tuple[Path, ...]:
        """All that it may write to."""
        return (*self.places, *self.errors)


@dataclass(frozen=True)
class Lost:
    """A step that cannot be carried out, and those without which it cannot."""

    step: Step
    without: Sequence[Step]

    @property
    def gone(self) -> str:
        """Those, by their names."""
        return in_words([one.told for one in self.without])


class Steps:
    """The steps of one plan."""

    def __init__(self, arguments: Mapping[str, Any], labels: Mapping[str, str]) -> None:
        calls = enumerate(shown_calls(arguments), start=1)
        self.all = [_step(number, call, labels) for number, call in calls]
        self._of = {step.id: step for step in self.all}
        self._uses = {step.id: [*references(step.arguments)] for step in self.all}

    def of(self, call_id: str) -> Step:
        """The step of a call."""
        return self._of[call_id]

    def before(self, step: Step) -> str:
        """What it waits for: `After steps 1 and 2`; empty for nothing."""
        waits = [one for one in self.all if one.id in step.waits]
        return f"After {numbered(waits)}" if waits else ""

    def users(self, step: Step) -> list[Step]:
        """The steps that cannot be carried out without this one."""
        return [lost.step for lost in self.lost({step.id}, {})]

    def lost(self, struck: Collection[str], edited: Mapping[str, Any]) -> list[Lost]:
        """The steps that stay, and refer to what only those write that do not; in turn."""
        uses = self._uses | {one: [*references(arguments)] for one, arguments in edited.items()}
        gone, found = {*struck}, list[Lost]()
        just_gone = gone
        # Who waits for none of those has lost nothing by them: a plan can be a long chain.
        while more := [
            Lost(step, without)
            for step in self.all
            if step.id not in gone and not just_gone.isdisjoint(step.waits)
            if (without := self._lacks(step, uses[step.id], gone))
        ]:
            found += more
            just_gone = {lost.step.id for lost in more}
            gone = gone | just_gone
        return found

    def _lacks(self, step: Step, uses: Sequence[Reference], gone: Collection[str]) -> list[Step]:
        """Those that are gone whose result a step cannot be without; none: it can be."""
        lacking: dict[int, Step] = {}
        for reference in uses:
            each = [self._only(step, path, gone) for path in reference.paths]
            if any(each) if reference.choose == "all" else all(each):
                lacking |= {one.number: one for several in each for one in several}
        return [lacking[number] for number in sorted(lacking)]

    def _only(self, step: Step, path: Path, gone: Collection[str]) -> list[Step]:
        """Those that are gone and alone were to write a place."""
        sources = [self._of[one] for one in step.waits if one in self._of]
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

    def meaning(self, step: Step, value: Any) -> str:
        """What a reference stands for, in words; empty where the value is none, and itself."""
        if not isinstance(value, str) or not step.waits:
            return ""
        if (reference := parse_reference(value)) is not None:
            return self._told(step, reference)
        if paths_inside(value):
            return replace_inside(value, lambda path: f"[{self._value(step, path)}]")
        return ""

    def _told(self, step: Step, reference: Reference) -> str:
        told = [self._value(step, path) for path in reference.paths]
        if reference.choose == "all":
            return f"{told[-1]}, once there is {' and '.join(told[:-1])}"
        return ", or else ".join(told)

    def _value(self, step: Step, path: Path) -> str:
        """`the “paid” of what step 1 gives`."""
        found = [
            (one, place)
            for one in self.all
            if one.id in step.waits
            for place in one.all_places
            if place.overlaps(path)
        ]
        if not found:
            known = "the run was given" if path.kind == "input" else f"stands in its {path.kind}"
            return f"“{_along(path.steps)}” of what {known}" if path.steps else f"what {known}"
        one, place = found[-1]
        inside = _along(path.steps[len(place.steps) :]) if place.covers(path) else ""
        writers = [*dict.fromkeys(writer for writer, _ in found)]
        gives = "give" if len(writers) > 1 else "gives"
        what = "the error of" if place in one.errors else "what"
        who = f"{what} {numbered(writers)}" + ("" if what != "what" else f" {gives}")
        return f"the “{inside}” of {who}" if inside else who


def steps_of(arguments: Mapping[str, Any], tools: Mapping[str, ShownTool]) -> Steps:
    """The steps of a plan, by the names that their tools have for people."""
    named = {}
    for name, tool in tools.items():
        label = tool.label or tool.parameters.get("title")
        named[name] = label if isinstance(label, str) else ""
    return Steps(arguments, named)


def numbered(steps: Sequence[Step]) -> str:
    """`step 1`, `steps 1, 2 and 5`."""
    told = [str(step.number) for step in steps]
    return f"step{'' if len(told) == 1 else 's'} {in_words(told)}"


def in_words(told: Sequence[str]) -> str:
    """`a, b and c`; of too many, how many there are besides."""
    if len(told) > MAX_TOLD:
        told = [*told[:MAX_TOLD], f"{len(told) - MAX_TOLD} more"]
    *most, last = told
    return f"{', '.join(most)} and {last}" if most else last


def why_lost(found: Sequence[Lost]) -> str:
    """Why a plan cannot be approved so, and what to do."""
    them = "it uses" if len(found) == 1 else "they use"
    told = []
    for without in dict.fromkeys(lost.gone for lost in found):
        users = [lost.step.told for lost in found if lost.gone == without]
        use = "uses" if len(users) == 1 else "use"
        told.append(f"{in_words(users)} {use} what {without} would give")
    said = "; ".join(told)
    also = f"Leave out {numbered([lost.step for lost in found])} as well, or change what {them}"
    return f"{said[:1].upper()}{said[1:]}, and that would not be there. {also}."


def _step(number: int, call: Mapping[str, Any], labels: Mapping[str, str]) -> Step:
    tool = str(call.get("tool") or "")
    own = str(call.get("label") or "")
    label = labels.get(tool, "") if own in ("", tool) else own
    written = _written(call.get("writes"))
    waits = call.get("waitsFor")
    return Step(
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
    """Where a call of a plan writes, as the plan says it."""
    before, _, behind = str(writes or "").partition(" || ")
    try:
        result = parse_output_path(before).result if before else ()
        return OutputPath(result, parse_output_path(behind).result if behind else ())
    except ValueError:
        return OutputPath(())


def _along(steps: Sequence[str | int]) -> str:
    named = (str(step + 1) if isinstance(step, int) else step for step in steps)
    return one_line(" › ".join(named), _PATH_CHARS)

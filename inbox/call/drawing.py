"""The page of a question: everything that its template names, made ready to be read.

`Shown` holds no markup and decides nothing. What was typed stands in its forms as it was typed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from inbox.call import words
from inbox.call.asked import Asked, digest_in
from inbox.call.who import Standing, policy_of, standing
from inbox.deciding import CHECK, EDIT, RESULT, Amiss, Typed, of_call, output_of, schema_of
from inbox.forms.checking import faults
from inbox.forms.differing import Difference, differences
from inbox.forms.drawing import MAX_FIELDS, drawn
from inbox.forms.fields import Field
from inbox.forms.places import MISSING, Misread, Said
from inbox.pages import address
from inbox.person import Person
from remote import plan
from remote.question import how_to_decide
from remote.text import as_json, clean, one_line
from schemas.base import canonical_json, json_size
from schemas.decision import Waiting
from schemas.plan import calls_shown

MAX_EDIT_BYTES: Final = 200_000
_PLAN_FIELDS: Final = 120
_LABEL_CHARS: Final = 100
_USED: Final = (
    *("maxIterations", "maxTurns", "maxCalls", "maxDuration", "maxTokens", "maxCost"),
    *("maxSameTool", "maxDepth"),
)


@dataclass(frozen=True)
class Notice:
    """What happened, above the page: good, bad, or to be looked at; what differs; what to do."""

    tone: str
    said: str
    differences: Sequence[Difference] = ()
    faults: Sequence[tuple[Field, str]] = ()


@dataclass(frozen=True)
class Planned:
    """A call of a plan."""

    id: str
    number: int
    label: str
    order: str
    by_whom: str
    why: str
    values: Field
    edit: Field | None
    keep: bool
    is_open: bool = False


@dataclass(frozen=True)
class Shown:
    """The page."""

    asked: Asked
    waiting: Waiting
    person: Person
    typed: Typed
    notice: Notice | None
    standing: Standing
    asks: str
    heading: str
    if_approved: str
    consequences: list[str]
    lapse: str
    until: words.When
    since: words.When
    started: words.When
    values: Field
    approve: str
    edit: Field | None
    result: Field
    plan: list[Planned] = field(default_factory=list)
    decided: list[str] = field(default_factory=list)
    changes: Sequence[Difference] = ()
    changed_by: str = ""
    used: list[tuple[str, str]] = field(default_factory=list)
    own: str = ""
    asks_token: bool = False
    command: str = ""
    missing: int = 0

    @property
    def here(self) -> str:
        """The address of the page."""
        return address("waiting", self.asked.run_id, self.waiting.call_id)

    @property
    def changes_address(self) -> str:
        """Where the page hears of what changes."""
        return f"{self.here}/changes?seen={digest_in(self.waiting)}"

    @property
    def run(self) -> str:
        """The address of the run."""
        return address("run", self.asked.run_id)

    @property
    def description(self) -> str:
        """What the tool does, by its author."""
        return clean(self.asked.tool.description) if self.asked.tool else ""

    @property
    def what_is_known(self) -> str:
        """How a call's end came to be unknown, in the run's own words; what follows them is for
        terminals."""
        said, _, _ = clean(self.waiting.question).partition(" Did it happen?")
        return said.replace("`", "").rstrip(".")

    @property
    def key(self) -> str:
        """What a tool may have left with what it has done."""
        return clean(f"{self.asked.run_id} {self.waiting.call_id}")

    def is_about(self, verdict: str) -> bool:
        """Whether it is this decision that was being written."""
        return self.typed.about == verdict


def shown(
    asked: Asked,
    person: Person,
    *,
    signs: bool,
    typed: Typed | None = None,
    amiss: Amiss | None = None,
    notice: Notice | None = None,
) -> Shown:
    """The page of a question, for a person."""
    waiting, typed = asked.waiting, typed or Typed()
    policy = policy_of(waiting, list(asked.tools.values()))
    stands = standing(waiting, policy, person, asked.known.principal, signs=signs)
    edit = _edit(asked, typed, amiss) if stands.may else None
    result = drawn(
        output_of(asked),
        typed.result,
        place=RESULT,
        prefix="r",
        wrong=amiss.result if amiss else (),
        label="What it returned" if waiting.kind == "reconcile" else "Your answer",
    )
    planned = _planned(asked, typed, amiss, may=stands.may)
    first = asked.past.versions[0] if asked.past.versions else None
    last = asked.past.versions[-1] if len(asked.past.versions) > 1 else None
    return Shown(
        asked=asked,
        waiting=waiting,
        person=person,
        typed=typed,
        notice=notice or _notice(asked, typed, amiss, [edit, result, *(p.edit for p in planned)]),
        standing=stands,
        asks=words.asks(waiting),
        heading=words.heading(waiting),
        if_approved=words.if_approved(waiting, asked.tool),
        consequences=words.consequences(waiting, asked.tool),
        lapse=words.lapse(waiting, policy),
        until=words.when(waiting.expires_at),
        since=words.when(waiting.requested_at),
        started=words.when(asked.past.started_at),
        values=_values(asked.schema, waiting.arguments),
        approve=words.approve_button(waiting),
        edit=edit,
        result=result,
        plan=planned,
        decided=[words.gave(one, waiting.kind, person.name) for one in waiting.decisions],
        changes=differences(first.arguments, waiting.arguments) if first and last else (),
        changed_by=one_line(last.by or "", _LABEL_CHARS) if last else "",
        used=_used(asked),
        own=next((d.decision for d in waiting.decisions if d.by == person.name), ""),
        asks_token=waiting.signed and not signs,
        command=how_to_decide(asked.run_id, waiting),
    )


def _values(schema: Any, arguments: Any) -> Field:
    """The arguments, to be looked at: as many fields as there are."""
    return drawn(schema, Said(arguments, {}), prefix="v", room=5 * MAX_FIELDS)


def _edit(asked: Asked, typed: Typed, amiss: Amiss | None) -> Field | None:
    """The form of the arguments; `None` where they cannot be edited here."""
    kinds = ("call", "budget")
    too_large = json_size(asked.waiting.arguments) > MAX_EDIT_BYTES
    if asked.waiting.kind not in kinds or too_large or not asked.is_whole:
        return None
    own = typed.about == "edit" and typed.edit.value is not MISSING
    said = typed.edit if own else Said(asked.waiting.arguments, {})
    return drawn(asked.schema, said, place=EDIT, prefix="e", wrong=amiss.edit if amiss else ())


def _planned(asked: Asked, typed: Typed, amiss: Amiss | None, *, may: bool) -> list[Planned]:
    waiting = asked.waiting
    calls = list(calls_shown(waiting.arguments))[: plan.MAX_CALLS] if waiting.kind == "plan" else []
    can = may and asked.is_whole and json_size(waiting.arguments) <= MAX_EDIT_BYTES
    room = max(_PLAN_FIELDS // max(len(calls), 1), 1)
    found = []
    for number, call in enumerate(calls, start=1):
        one = call["id"]
        schema, given = schema_of(asked, one), call.get("arguments") or {}
        said = typed.calls.get(one, Said(given, {}))
        wrong = (amiss.calls if amiss else {}).get(one, ())
        place, prefix = of_call(one), f"c{number}-"
        edit = drawn(schema, said, place=place, prefix=prefix, room=room, wrong=wrong)
        found.append(
            Planned(
                id=one,
                number=number,
                label=one_line(str(call.get("label") or call.get("tool") or ""), _LABEL_CHARS),
                order=plan.order(call),
                by_whom=plan.by_whom(call),
                why=clean(str(call.get("reasoning") or "")),
                values=_values(schema, given),
                edit=edit if can else None,
                keep=typed.about != "edit" or one in typed.keep,
                is_open=bool(wrong) or not _same(said.value, given),
            )
        )
    return found


def _same(value: Any, given: Any) -> bool:
    """Whether nothing was typed that is another value, or cannot be read."""
    return _is_plain(value) and canonical_json(value) == canonical_json(given)


def _is_plain(value: Any) -> bool:
    """Whether everything in it was read."""
    match value:
        case Misread():
            return False
        case dict():
            return all(map(_is_plain, value.values()))
        case list():
            return all(map(_is_plain, value))
        case _:
            return value is not MISSING


def _notice(
    asked: Asked, typed: Typed, amiss: Amiss | None, forms: Sequence[Field | None]
) -> Notice | None:
    if amiss is not None:
        told = [fault for form in forms if form is not None for fault in faults(form)]
        return Notice("bad", amiss.said, faults=told)
    if typed.does == CHECK and typed.about == "edit" and _is_plain(typed.edit.value):
        changes = differences(asked.waiting.arguments, typed.edit.value)
        return Notice("asks", "This is what you would change:", changes)
    return None


def _used(asked: Asked) -> list[tuple[str, str]]:
    """What the run has used of its budgets."""
    if asked.waiting.kind != "budget":
        return []
    budget = asked.status.get("budget") or {}
    told = []
    for name in _USED:
        one = budget.get(name) or {}
        if one.get("limit") is not None:
            used = "unknown" if one.get("used") is None else as_json(one["used"])
            told.append((name, f"{used} of {as_json(one['limit'])}"))
    return told

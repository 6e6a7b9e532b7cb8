"""The page of a question: everything that its template names, made ready to be read.

`OperationView` holds no markup and decides nothing. What was typed stands in its forms as it was
typed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast.client.question_text import how_to_decide
from holdfast.runtime.text_safety import clean, holdfast_command, one_line
from holdfast.schemas.base import json_size
from holdfast.schemas.decision import PendingApproval, shown_calls
from holdfast.web.auth.person import Person
from holdfast.web.budget_text import Used, used_of
from holdfast.web.call import phrases
from holdfast.web.call.decision_form import (
    CHECK,
    EDIT,
    RESULT,
    Amiss,
    Typed,
    doubted,
    doubtful,
    of_plan,
    output_of,
)
from holdfast.web.call.eligibility import Standing, policy_of, standing
from holdfast.web.call.loader import Asked, digest_in
from holdfast.web.call.outcome import asked_before
from holdfast.web.call.plan_view import MAX_EDIT_BYTES, Planned, differing, outside_of, planned
from holdfast.web.forms.control_names import MISSING, Said
from holdfast.web.forms.field_builder import MAX_FIELDS, drawn
from holdfast.web.forms.fields import Field
from holdfast.web.forms.form_check import faults
from holdfast.web.forms.structure_edits import begun
from holdfast.web.forms.value_diff import Difference, differences, is_plain, is_same
from holdfast.web.pages import address
from holdfast.web.times import When, when

_LABEL_CHARS: Final = 100
_OTHERWISE: Final = "Nothing was sent yet. This is what would be otherwise than it was asked:"


@dataclass(frozen=True)
class Notice:
    """What happened, above the page: good, bad, or to be looked at; what differs; what to do."""

    tone: str
    said: str
    differences: Sequence[Difference] = ()
    faults: Sequence[tuple[Field, str]] = ()
    doubts: Sequence[Field] = ()


@dataclass(frozen=True)
class Shown:
    """The page."""

    asked: Asked
    waiting: PendingApproval
    person: Person
    typed: Typed
    notice: Notice | None
    standing: Standing
    lapse: str
    ends: str
    values: Field
    edit: Field | None
    result: Field
    plan: list[Planned]
    doubted: str
    asks_token: bool

    @property
    def asks(self) -> str:
        """The question."""
        return phrases.asks(self.waiting)

    @property
    def heading(self) -> str:
        """What it is about."""
        return phrases.heading(self.waiting, self.asked.known.agent)

    @property
    def if_approved(self) -> str:
        """What happens then."""
        return phrases.if_approved(self.waiting, self.asked.tool)

    @property
    def consequences(self) -> list[str]:
        """What else follows."""
        return phrases.consequences(self.waiting, self.asked.tool)

    @property
    def approve(self) -> str:
        """What the button says that approves."""
        budget = self.asked.status.get("budget") or {}
        used = (budget.get(self.waiting.tool) or {}).get("used")
        return phrases.approve_button(self.waiting, used, self.asked.past.granted)

    @property
    def until(self) -> When:
        """Until when it waits."""
        return when(self.waiting.expires_at)

    @property
    def since(self) -> When:
        """Since when it waits."""
        return when(self.waiting.requested_at)

    @property
    def started(self) -> When:
        """When the call was started, of which nobody knows whether it happened."""
        return when(self.asked.past.started_at)

    @property
    def decided(self) -> list[str]:
        """What was said so far, and by whom."""
        return [
            phrases.gave(one, self.waiting.kind, self.person.name) for one in self.waiting.decisions
        ]

    @property
    def own(self) -> bool:
        """Whether this person has decided, and others have to agree."""
        return any(one.by == self.person.name for one in self.waiting.decisions)

    @property
    def before(self) -> list[tuple[str, When]]:
        """The times that it was asked before, and what was answered."""
        return [asked_before(one, self.person) for one in self.asked.past.before]

    @property
    def changed_by(self) -> str:
        """Who has changed the arguments last since it was asked."""
        named = [one.by for one in self.asked.past.versions if one.by]
        return (one_line(named[-1], _LABEL_CHARS) if named else "") or "Somebody"

    @property
    def changes(self) -> list[Difference]:
        """What is another now than it was asked."""
        versions, waiting = self.asked.past.versions, self.waiting
        if len(versions) < 2:
            return []
        return differing(waiting.kind, versions[0].arguments, waiting.arguments, self.asked.tools)

    @property
    def used(self) -> list[Used]:
        """What the run has used of its budgets, where it is asked about one."""
        if self.waiting.kind != "budget":
            return []
        return list(used_of(self.asked.status.get("budget") or {}))

    @property
    def command(self) -> str:
        """The command that decides it."""
        return how_to_decide(self.asked.run_id, self.waiting)

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
    def single(self) -> bool:
        """Whether it is a single call, which no agent made, and no model reads of."""
        return self.asked.known.single

    @property
    def is_changed(self) -> bool:
        """Whether something stands in the form of the arguments that was not asked."""
        said = self.typed.edit.value
        return self.is_about("edit") and not is_same(said, self.waiting.arguments)

    @property
    def is_checked(self) -> bool:
        """Whether it was only asked what a form comes to: the answer stands in that form."""
        has_form = self.edit is not None or self.picks
        return self.typed.does == CHECK and self.is_about("edit") and has_form

    @property
    def warnings(self) -> list[str]:
        """What follows of what was checked."""
        if self.waiting.kind != "plan":
            return self.consequences
        return outside_of(self.plan)

    @property
    def is_begun(self) -> bool:
        """Whether the form of an answer stands there as nobody has touched it."""
        return not (self.is_about("respond") or self.is_about("happened"))

    @property
    def may_be_unknown(self) -> bool:
        """Whether a run takes it that nobody knows what a call returned."""
        return bool(output_of(self.asked) == {})

    @property
    def nth(self) -> str:
        """How often this is asked, in a word, where it is not the first time."""
        times = [one for one in self.asked.past.before if one.kind == self.waiting.kind]
        return phrases.ordinal(len(times) + 1) if times else ""

    @property
    def picks(self) -> bool:
        """Whether it is a plan of which single calls can be left out or changed here."""
        return self.standing.may and bool(self.plan) and self.plan[0].edit is not None

    @property
    def description(self) -> str:
        """What the tool does, by its author."""
        return clean(self.asked.tool.description) if self.asked.tool else ""

    @property
    def what_is_known(self) -> str:
        """How a call's end came to be unknown, in the run's own words; what follows them is for
        terminals."""
        said, _, _ = clean(self.waiting.question).partition(" Did it happen?")
        said = said.replace(f"`{self.waiting.tool}`", self.heading)
        return said.replace("`", "").rstrip(".")

    @property
    def key(self) -> str:
        """What a tool may have left with what it has done."""
        return clean(f"{self.asked.run_id} {self.waiting.call_id}")

    @property
    def beyond(self) -> int:
        """How many steps of a plan the page has no room for."""
        if self.waiting.kind != "plan":
            return 0
        return len(list(shown_calls(self.waiting.arguments))) - len(self.plan)

    @property
    def show_command(self) -> str:
        """What shows all of it, to be copied: the id of a run is a stranger's."""
        return holdfast_command("show", self.asked.run_id, "--json")

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
    result = _result(asked, typed, amiss)
    calls = planned(asked, typed, amiss, may=stands.may)
    forms = [edit, result, *(one.edit for one in calls)]
    return Shown(
        asked=asked,
        waiting=waiting,
        person=person,
        typed=typed,
        notice=notice or _notice(asked, typed, amiss, forms),
        standing=stands,
        lapse=phrases.lapse(waiting, policy, single=asked.known.single),
        ends=phrases.ends(waiting, policy),
        values=_values(asked.schema, waiting.arguments),
        edit=edit,
        result=result,
        plan=calls,
        doubted=doubted(asked, _edited(asked, typed)),
        asks_token=waiting.signed and not signs,
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
    said, wrong = _edited(asked, typed), amiss.edit if amiss else ()
    return drawn(asked.schema, said, place=EDIT, prefix="e", wrong=wrong)


def _edited(asked: Asked, typed: Typed) -> Said:
    """What stands in that form: what was typed, else what was asked."""
    own = typed.about == "edit" and typed.edit.value is not MISSING
    return typed.edit if own else Said(asked.waiting.arguments, {})


def _result(asked: Asked, typed: Typed, amiss: Amiss | None) -> Field:
    """The form of an answer in place of the result."""
    label = "What it returned" if asked.waiting.kind == "reconcile" else "Your answer"
    wrong = amiss.result if amiss else ()
    schema, said = output_of(asked), typed.result
    if typed.about not in ("respond", "happened"):
        said = Said(begun(schema), {})
    return drawn(schema, said, place=RESULT, prefix="r", wrong=wrong, label=label)


def _notice(
    asked: Asked, typed: Typed, amiss: Amiss | None, forms: Sequence[Field | None]
) -> Notice | None:
    doubts = _doubts(forms) if typed.about == "edit" else []
    if amiss is not None:
        told = [fault for form in forms if form is not None for fault in faults(form)]
        return Notice("bad", amiss.said, faults=told, doubts=[] if told else doubts)
    if typed.does == CHECK and asked.waiting.kind == "plan":
        said = of_plan(typed, asked)
        found = [] if isinstance(said, Amiss) else _otherwise(asked, said)
        as_it_is = "Nothing is left out or changed: all of it would be carried out as it stands."
        return Notice("asks", _OTHERWISE, found) if found else Notice("good", as_it_is)
    if typed.does == CHECK and typed.about == "edit" and is_plain(typed.edit.value):
        changes = differences(asked.waiting.arguments, typed.edit.value)
        return Notice("asks", "This is what you would change:", changes, doubts=doubts)
    return None


def _otherwise(asked: Asked, said: Mapping[str, Any]) -> list[Difference]:
    """What a decision would leave out of a plan, and change in it."""
    waiting = asked.waiting
    new = said.get("arguments", waiting.arguments)  # without, it is approved as it is
    return differing(waiting.kind, waiting.arguments, new, asked.tools)


def _doubts(forms: Sequence[Field | None]) -> list[Field]:
    return [one for form in forms if form is not None for one in doubtful(form)]

"""What waits, as the rows of a page: what would happen, whose it is, until when, who decides.

A run that has not answered yet has one row, with what the list knows of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, unquote

from holdfast.client.command_errors import CommandError
from holdfast.client.question_text import call_name
from holdfast.client.run_lists import RunListing
from holdfast.runtime.text_safety import as_json, as_sentence, clean, local_time, one_line, shorten
from holdfast.schemas import names
from holdfast.schemas.decision import Decided, Kind, PendingApproval, shown_calls
from holdfast.web.auth.person import Person
from holdfast.web.budget_text import reached
from holdfast.web.listing.run_answers import Answer
from holdfast.web.pending_call import is_whole
from holdfast.web.times import When, when

SOON: Final = timedelta(hours=1)
OVER: Final = "its time is over"
_LITTLE: Final = 0.1
MAX_BRIEF_CHARS: Final = 300
# A run may wait for more calls than a person reads in a list: the others stand on its own page.
MAX_OF_A_RUN: Final = 10
_NAME_CHARS: Final = 60
_ID_CHARS: Final = 200
_TEXT_CHARS: Final = 200
ASKING: Final = "Asking its worker what it would do…"

# What is asked, where it is not leave to carry out a call.
_KINDS: Final[dict[Kind, str]] = {
    "call": "",
    "reconcile": "Did it happen?",
    "plan": "A plan",
    "budget": "A limit is reached",
}
_OPEN_IT: Final[dict[Kind, str]] = {
    "reconcile": "It needs more than a yes or a no: open it.",
    "plan": "Open it to see what each of its steps would do.",
    "budget": "Open it to see what was used, and what a yes would grant.",
}
# What becomes of a call at its end, in front of a time.
_ENDS: Final = {None: "expires", "approve": "carried out", "fail": "the run fails"}


@dataclass(frozen=True)
class Row:
    """One row. `obstacle` says why it is not decided together with others; `trouble`, why nothing
    can be said of it; `ends`, what becomes of it at its end."""

    run: str
    agent: str
    principal: str
    title: str
    since: When
    until: When
    urgency: str
    deciders: str
    call: str = ""
    kind: str = ""
    brief: str = ""
    so_far: str = ""
    choice: str = ""
    obstacle: str = ""
    trouble: str = ""
    late: bool = False
    single: bool = False
    ends: str = "expires"

    @property
    def id(self) -> str:
        """What it is called on its page; another, once something else is asked."""
        return f"row-{quote(self.choice or f'{self.run}/{self.call}', safe='')}"


@dataclass(frozen=True)
class Choice:
    """A call that somebody has chosen, as it was shown."""

    run: str
    call: str
    digest: str

    def __str__(self) -> str:
        return "/".join(quote(part, safe="") for part in (self.run, self.call, self.digest))

    @classmethod
    def read(cls, text: str) -> "Choice | None":
        """The choice that a form names; `None` where it names none."""
        parts = text.split("/")
        return cls(*map(unquote, parts)) if len(parts) == 3 and all(parts) else None


def rows(run: RunListing, answer: Answer | None, person: Person, *, signs: bool) -> Iterator[Row]:
    """The rows of a run; none, where nothing waits in it any more. `signs`: whether the inbox signs
    decisions for who is signed in."""
    match answer:
        case None:
            yield _unanswered(run, ASKING, late=True)
        case CommandError() as error:
            yield _unanswered(run, as_sentence(clean(str(error))))
        case waiting:
            for one in waiting[:MAX_OF_A_RUN]:
                yield _row(run, one, person, signs=signs)
            if len(waiting) > MAX_OF_A_RUN:
                more = f"{len(waiting) - MAX_OF_A_RUN} more calls of this run wait"
                yield _unanswered(run, f"{more}: open the run.")


def plain(names: Iterable[str]) -> list[str]:
    """Names to choose from, in order; without those that read as another."""
    return sorted(name for name in names if name == one_line(name, _TEXT_CHARS))


def deciders(groups: Sequence[str]) -> str:
    """Who decides, of the groups that a list tells."""
    named = [one_line(group, _NAME_CHARS) for group in groups if group != names.FOR_ANYBODY]
    if not groups or len(named) < len(groups):
        named.append("anybody")
    return shorten(", ".join(named), _TEXT_CHARS)


def urgency(until: datetime | None, asked: datetime | None) -> str:
    """That there is little time left, in words: less than an hour, or a tenth of all; else
    empty."""
    left = None if until is None else until - datetime.now(UTC)
    if until is None or left is None:
        return ""
    little = SOON if asked is None else max(SOON, (until - asked) * _LITTLE)
    if left >= little:
        return ""
    return "expires soon" if left > timedelta() else OVER


def _row(run: RunListing, waiting: PendingApproval, person: Person, *, signs: bool) -> Row:
    asked, until = local_time(waiting.requested_at), local_time(waiting.expires_at)
    in_line = brief(waiting)
    obstacle = _obstacle(waiting, person, signs=signs)
    if not obstacle and (len(in_line) > MAX_BRIEF_CHARS or not is_whole(waiting)):
        obstacle = "Open it to see all of its arguments."
    choice = str(Choice(run.id, waiting.call_id, waiting.digest))
    return Row(
        run.id,
        one_line(run.agent or "", _NAME_CHARS),
        one_line(run.principal or "", _NAME_CHARS),
        reached(waiting, run.agent or "") if waiting.kind == "budget" else call_name(waiting),
        when(waiting.requested_at),
        when(waiting.expires_at),
        _urgency(waiting, urgency(until, asked)),
        deciders(waiting.approvers),
        call=waiting.call_id,
        kind=_KINDS[waiting.kind],
        brief=shorten(in_line, MAX_BRIEF_CHARS),
        so_far=_so_far(waiting),
        choice="" if obstacle else choice,
        obstacle=obstacle,
        single=run.single,
        ends=_ends(waiting, urgency(until, asked), single=run.single),
    )


def _urgency(waiting: PendingApproval, said: str) -> str:
    """How it presses. Where to do nothing is to say yes, that is said however far off it is."""
    by_itself = waiting.on_timeout == "approve" and said != OVER
    return "carried out unless denied" if by_itself else said


def _ends(waiting: PendingApproval, said: str, *, single: bool) -> str:
    """What becomes of it when nobody decides, in front of the time of that."""
    if said == OVER:
        return "expired"
    return "it fails" if single and waiting.on_timeout == "fail" else _ENDS[waiting.on_timeout]


def _unanswered(run: RunListing, trouble: str, *, late: bool = False) -> Row:
    tools = ", ".join(one_line(tool, _NAME_CHARS) for tool in run.tools)
    return Row(
        run.id,
        one_line(run.agent or "", _NAME_CHARS),
        one_line(run.principal or "", _NAME_CHARS),
        shorten(tools, _TEXT_CHARS) or one_line(run.id, _ID_CHARS),
        when(run.since),
        when(run.until),
        urgency(run.until, run.since),
        deciders(run.groups),
        trouble=trouble,
        late=late,
        single=run.single,
        ends="expired" if urgency(run.until, run.since) == OVER else "expires",
    )


def brief(waiting: PendingApproval) -> str:
    """The arguments in a line, exactly; text is quoted, so that no value can pass for another. Of a
    plan, its steps by their names, which is not what is decided on."""
    if waiting.kind == "plan":
        steps = enumerate(shown_calls(waiting.arguments), start=1)
        return ", ".join(f"{n}. {one_line(_label(call), _NAME_CHARS)}" for n, call in steps)
    return "  ".join(
        f"{one_line(name, _NAME_CHARS)}={as_json(value)}"
        for name, value in waiting.arguments.items()
    )


def _label(call: Mapping[str, Any]) -> str:
    return str(call.get("label") or call.get("tool") or call["id"])


def _so_far(waiting: PendingApproval) -> str:
    """What was decided before, and how many have to agree."""
    said = [_decided(decided) for decided in waiting.decisions]
    if waiting.quorum > 1:
        said.append(f"{waiting.quorum} people must agree")
    return shorten(", ".join(said), _TEXT_CHARS)


def _decided(decided: Decided) -> str:
    return f"{one_line(decided.by or '', _NAME_CHARS) or 'somebody'} said {decided.decision}"


def _obstacle(waiting: PendingApproval, person: Person, *, signs: bool) -> str:
    """Why a call is not decided together with others; empty where it can be."""
    if waiting.kind != "call":
        return _OPEN_IT[waiting.kind]
    if waiting.signed and not signs:
        return "Only signed decisions count: open it to see how to sign."
    if waiting.approvers and not set(waiting.approvers) & set(person.groups):
        return f"Only {deciders(waiting.approvers)} can decide."
    if any(decided.by == person.name for decided in waiting.decisions):
        return "You have decided; others must agree."
    return ""

"""The rows of the list of pending approvals: the call, its run, its expiry, its approvers.

A run that has not answered yet has one row, with the search attributes of the run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, unquote

from holdfast.client.command_errors import CommandError
from holdfast.client.question_text import call_name
from holdfast.client.run_lists import RunListing
from holdfast.runtime.narration.phrases import decided_phrase
from holdfast.runtime.text_safety import as_json, as_sentence, clean, local_time, one_line, shorten
from holdfast.schemas import names
from holdfast.schemas.decision import Kind, PendingApproval, shown_calls
from holdfast.web.auth.sessions import Person
from holdfast.web.listing.run_answers import RunAnswer
from holdfast.web.page_text import DisplayTime, display_time, limit_reached
from holdfast.web.services import is_whole

SOON: Final = timedelta(hours=1)
EXPIRED: Final = "expired"
_LITTLE: Final = 0.1
MAX_BRIEF_CHARS: Final = 300
# The page of the run shows its other pending calls.
MAX_OF_A_RUN: Final = 10
_NAME_CHARS: Final = 60
_ID_CHARS: Final = 200
_TEXT_CHARS: Final = 200
ASKING: Final = "Querying the run…"

_KINDS: Final[dict[Kind, str]] = {
    "call": "",
    "reconcile": "outcome unknown",
    "plan": "plan",
    "budget": "budget limit reached",
}
_OPEN_IT: Final[dict[Kind, str]] = {
    "reconcile": "Open it to decide what happened.",
    "plan": "Open it to see the steps.",
    "budget": "Open it to see the budget.",
}
# The text before the time of expiry, by the policy for a timeout.
_ENDS: Final = {None: "expires", "approve": "executed", "fail": "the run fails"}


@dataclass(frozen=True)
class PendingRow:
    """A row; `obstacle` is why the call cannot be selected, `trouble` why the run has no answer."""

    run: str
    agent: str
    principal: str
    title: str
    requested: DisplayTime
    expires: DisplayTime
    urgency: str
    deciders: str
    call: str = ""
    kind: str = ""
    brief: str = ""
    decisions: str = ""
    choice: str = ""
    obstacle: str = ""
    trouble: str = ""
    is_loading: bool = False
    is_single_call: bool = False
    expiry_label: str = "expires"

    @property
    def id(self) -> str:
        """Return the id of its element, which changes with the question."""
        return f"row-{quote(self.choice or f'{self.run}/{self.call}', safe='')}"


@dataclass(frozen=True)
class SelectedCall:
    """A selected call, with the digest that was shown."""

    run: str
    call: str
    digest: str

    def __str__(self) -> str:
        return "/".join(quote(part, safe="") for part in (self.run, self.call, self.digest))

    @classmethod
    def parse(cls, text: str) -> "SelectedCall | None":
        """Read a selection from a form; `None` for an invalid one."""
        parts = text.split("/")
        return cls(*map(unquote, parts)) if len(parts) == 3 and all(parts) else None


def pending_rows(
    run: RunListing, answer: RunAnswer | None, person: Person, *, signs: bool
) -> Iterator[PendingRow]:
    """Yield the rows of a run; `signs`: the inbox signs decisions for the person."""
    match answer:
        case None:
            yield _unanswered(run, ASKING, late=True)
        case CommandError() as error:
            yield _unanswered(run, as_sentence(clean(str(error))))
        case waiting:
            for one in waiting[:MAX_OF_A_RUN]:
                yield _row(run, one, person, signs=signs)
            if len(waiting) > MAX_OF_A_RUN:
                more = f"{len(waiting) - MAX_OF_A_RUN} more pending calls in this run"
                yield _unanswered(run, f"{more}: open the run.")


def plain_names(names: Iterable[str]) -> list[str]:
    """Return names to choose from, in order, without names that are displayed differently."""
    return sorted(name for name in names if name == one_line(name, _TEXT_CHARS))


def deciders(groups: Sequence[str]) -> str:
    """Return the approvers from the groups of a question."""
    named = [one_line(group, _NAME_CHARS) for group in groups if group != names.FOR_ANYBODY]
    if not groups or len(named) < len(groups):
        named.append("anyone")
    return shorten(", ".join(named), _TEXT_CHARS)


def urgency(until: datetime | None, asked: datetime | None) -> str:
    """Return `expires soon`, `expired`, or nothing.

    The last hour, or the last tenth of the time, counts as soon.
    """
    left = None if until is None else until - datetime.now(UTC)
    if until is None or left is None:
        return ""
    little = SOON if asked is None else max(SOON, (until - asked) * _LITTLE)
    if left >= little:
        return ""
    return "expires soon" if left > timedelta() else EXPIRED


def _row(run: RunListing, waiting: PendingApproval, person: Person, *, signs: bool) -> PendingRow:
    asked, until = local_time(waiting.requested_at), local_time(waiting.expires_at)
    in_line = brief(waiting)
    obstacle = _obstacle(waiting, person, signs=signs)
    if not obstacle and (len(in_line) > MAX_BRIEF_CHARS or not is_whole(waiting)):
        obstacle = "Open it to see all arguments."
    choice = str(SelectedCall(run.id, waiting.call_id, waiting.digest))
    return PendingRow(
        run.id,
        one_line(run.agent or "", _NAME_CHARS),
        one_line(run.principal or "", _NAME_CHARS),
        limit_reached(waiting, run.agent or "") if waiting.kind == "budget" else call_name(waiting),
        display_time(waiting.requested_at),
        display_time(waiting.expires_at),
        _urgency(waiting, urgency(until, asked)),
        deciders(waiting.approvers),
        call=waiting.call_id,
        kind=_KINDS[waiting.kind],
        brief=shorten(in_line, MAX_BRIEF_CHARS),
        decisions=_so_far(waiting),
        choice="" if obstacle else choice,
        obstacle=obstacle,
        is_single_call=run.single,
        expiry_label=_ends(waiting, urgency(until, asked), single=run.single),
    )


def _urgency(waiting: PendingApproval, said: str) -> str:
    """Return the urgency; a call that is executed without approval is always urgent."""
    by_itself = waiting.on_timeout == "approve" and said != EXPIRED
    return "executed unless denied" if by_itself else said


def _ends(waiting: PendingApproval, said: str, *, single: bool) -> str:
    if said == EXPIRED:
        return "expired"
    return (
        "the call fails" if single and waiting.on_timeout == "fail" else _ENDS[waiting.on_timeout]
    )


def _unanswered(run: RunListing, trouble: str, *, late: bool = False) -> PendingRow:
    tools = ", ".join(one_line(tool, _NAME_CHARS) for tool in run.tools)
    return PendingRow(
        run.id,
        one_line(run.agent or "", _NAME_CHARS),
        one_line(run.principal or "", _NAME_CHARS),
        shorten(tools, _TEXT_CHARS) or one_line(run.id, _ID_CHARS),
        display_time(run.since),
        display_time(run.until),
        urgency(run.until, run.since),
        deciders(run.groups),
        trouble=trouble,
        is_loading=late,
        is_single_call=run.single,
        expiry_label="expired" if urgency(run.until, run.since) == EXPIRED else "expires",
    )


def brief(waiting: PendingApproval) -> str:
    """Return the exact arguments as JSON in one line; for a plan, the names of its steps."""
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
    said = [decided_phrase(decided, waiting.kind) for decided in waiting.decisions]
    if waiting.quorum > 1:
        said.append(f"{waiting.quorum} people must approve")
    return shorten(", ".join(said), _TEXT_CHARS)


def _obstacle(waiting: PendingApproval, person: Person, *, signs: bool) -> str:
    """Return why a call cannot be selected, or nothing."""
    if waiting.kind != "call":
        return _OPEN_IT[waiting.kind]
    if waiting.signed and not signs:
        return "Decisions must be signed: open it to add a token."
    if waiting.approvers and not set(waiting.approvers) & set(person.groups):
        return f"Only members of {deciders(waiting.approvers)} can decide."
    if any(decided.by == person.name for decided in waiting.decisions):
        return "You have already decided; other approvers must agree."
    return ""

"""The rows of the list of pending approvals: the call, its run, its expiry, its approvers.

A run that has not answered yet has one row, with the search attributes of the run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from holdfast.client.errors import HoldfastError
from holdfast.client.run_lists import RunListing
from holdfast.runtime.absences import find_represented
from holdfast.runtime.narration.phrases import (
    MEMBERS_ONLY,
    QUESTIONS,
    TERMS,
    away_phrase,
    claim_phrase,
)
from holdfast.runtime.narration.question_line import MAX_BRIEF_CHARS, is_whole, question_line
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.text_safety import one_line, read_time, shorten
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.absences import Absence
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.phrases import distinct_names
from holdfast.web.auth.permissions import MAY_NOT_DECIDE, has_decided, is_approver
from holdfast.web.auth.sessions import Person
from holdfast.web.listing.pending_runs import RunAnswer
from holdfast.web.pages import DisplayTime, display_time, reader_texts

SOON: Final = timedelta(hours=1)
EXPIRED: Final = "expired"
_LITTLE: Final = 0.1
# Of arguments that cannot be decided in the list.
_PART_CHARS: Final = 160
# The page of the run shows its other pending calls.
MAX_OF_A_RUN: Final = 10
_NAME_CHARS: Final = 60
_ID_CHARS: Final = 200
_TEXT_CHARS: Final = 200
_NONE: Final[Mapping[Any, Any]] = {}
ASKING: Final = "Querying the run…"


@dataclass(frozen=True)
class PendingRow:
    """A row; its `title` leads with the effect, `name` is that of the call.

    `obstacle` is why the call cannot be selected, `trouble` why the run has no answer. `twins` are
    the other pending calls that are identical, as far as they have been read; `summary` is the one
    of the run.
    """

    run: RunListing
    title: str
    requested: DisplayTime
    expires: DisplayTime
    urgency: str
    deciders: str
    call: str = ""
    kind: str = ""
    brief: str = ""
    why: str = ""
    decisions: str = ""
    choice: str = ""
    name: str = ""
    may_claim: bool = False
    amount: str = ""
    obstacle: str = ""
    trouble: str = ""
    summary: str = ""
    is_loading: bool = False
    expiry_label: str = "expires"
    twins: Sequence["SelectedCall"] = ()

    @property
    def id(self) -> str:
        """Return the id of its element, which changes with the question."""
        return f"row-{quote(self.choice or f'{self.run.id}/{self.call}', safe='')}"


def pending_rows(
    run: RunListing,
    answer: RunAnswer | None,
    person: Person,
    *,
    signs: bool,
    identical: Mapping[SelectedCall, Sequence[SelectedCall]] = _NONE,
    may_decide: bool = True,
    absences: Sequence[Absence] = (),
) -> Iterator[PendingRow]:
    """Yield the rows of a run; `signs`: the inbox signs decisions for the person.

    `absences` are the present ones whose substitute the person is.
    """
    match answer:
        case None:
            yield _unanswered(run, ASKING, late=True)
        case HoldfastError() as error:
            yield _unanswered(run, reader_texts(error)[0])
        case waiting:
            for one in waiting[:MAX_OF_A_RUN]:
                call = SelectedCall.of(run.id, one)
                twins = [twin for twin in identical.get(call, ()) if twin != call]
                row = replace(_row(run, one, person, absences, signs=signs), twins=twins)
                if not may_decide:
                    row = replace(row, choice="", obstacle=MAY_NOT_DECIDE, may_claim=False)
                yield row
            if len(waiting) > MAX_OF_A_RUN:
                more = f"{len(waiting) - MAX_OF_A_RUN} more pending calls in this run"
                yield _unanswered(run, f"{more}: open the run.")


def plain_names(names: Iterable[str]) -> list[str]:
    """Return names to choose from, in order, without names that are displayed differently."""
    return sorted(name for name in names if name == one_line(name, _TEXT_CHARS))


def deciders(groups: Sequence[str]) -> str:
    """Return the approvers from the groups of a question."""
    named = [one_line(group, _NAME_CHARS) for group in groups if group != names.FOR_ANYBODY]
    is_open = not groups or len(named) < len(groups)
    named_groups = filter(None, [distinct_names(named), "anyone" if is_open else ""])
    return shorten(", ".join(named_groups), _TEXT_CHARS)


def urgency(until: datetime | None, asked: datetime | None) -> str:
    """Return `expires soon`, `expired`, or nothing.

    The last hour, or the last tenth of the time, counts as soon.
    """
    if until is None:
        return ""
    remaining = until - datetime.now(UTC)
    if remaining <= timedelta():
        return EXPIRED
    soon = SOON if asked is None else max(SOON, (until - asked) * _LITTLE)
    return "expires soon" if remaining < soon else ""


def _row(
    run: RunListing,
    approval: PendingApproval,
    person: Person,
    absences: Sequence[Absence],
    *,
    signs: bool,
) -> PendingRow:
    expires = read_time(approval.expires_at)
    urgent, on_timeout = urgency(expires, read_time(approval.requested_at)), approval.on_timeout
    view = QuestionView.of(approval, is_single_call=run.single)
    ends = {"approve": "executed", "fail": view.lapse}.get(on_timeout or "", "expires")
    expiry_label = _expiry_label(urgent, ends)
    # A call that is executed without approval is always urgent.
    if on_timeout == "approve" and urgent != EXPIRED:
        urgent = "executed unless denied"
    title, in_line = question_line(view, run.agent)
    obstacle, words = "", QUESTIONS[approval.kind]
    if words.open_it:
        obstacle = words.open_it
    elif approval.signed and not signs:
        obstacle = TERMS["page"]["signing"].format("open it to add a token")
    elif not is_approver(person, approval.approvers):
        obstacle = MEMBERS_ONLY.format(deciders(approval.approvers))
    elif has_decided(person, approval):
        obstacle = "You have already decided; other approvers must agree."
    elif not is_whole(in_line, approval.arguments) or approval.find_round() is None:
        obstacle = "Open it to see all arguments."
    claim = claim_phrase(approval, datetime.now(UTC), person.name)
    away = find_represented(absences, approval.approvers, person.groups)
    represented = [f"for {away_phrase(one)}" for one in away]
    states = [claim, *represented, *view.decisions, *view.terms("row")]
    return PendingRow(
        run,
        title,
        display_time(approval.requested_at),
        display_time(approval.expires_at),
        urgent,
        deciders(approval.approvers),
        call=approval.call_id,
        kind=view.request.lower() if words.badge is None else words.badge,
        brief=shorten(in_line, _PART_CHARS if obstacle else MAX_BRIEF_CHARS),
        why=_why(view),
        decisions=shorten(", ".join(filter(None, states)), _TEXT_CHARS),
        may_claim=is_approver(person, approval.approvers) and not claim.startswith("you"),
        choice="" if obstacle else str(SelectedCall.of(run.id, approval)),
        name=view.name,
        amount=approval.amount,
        obstacle=obstacle,
        expiry_label=expiry_label,
        summary=one_line(approval.run_title, _TEXT_CHARS),
    )


def _expiry_label(urgent: str, label: str = "expires") -> str:
    if urgent == EXPIRED:
        return EXPIRED
    return f"{urgent}," if urgent and label == "expires" else label


def _why(view: QuestionView) -> str:
    """Return the first line of the model's reason, or why an outcome is unknown."""
    if view.approval.kind == "reconcile":
        return one_line(view.unknown_reason, _TEXT_CHARS)
    first, *more = view.reasoning.strip().split("\n")
    line = one_line(first, _TEXT_CHARS)
    return f"“{line}{' …' if more and not line.endswith('…') else ''}”" if line else ""


def _unanswered(run: RunListing, trouble: str, *, late: bool = False) -> PendingRow:
    tools = ", ".join(one_line(tool, _NAME_CHARS) for tool in run.tools)
    urgent = urgency(run.until, run.since)
    return PendingRow(
        run,
        shorten(tools, _TEXT_CHARS) or one_line(run.id, _ID_CHARS),
        display_time(run.since),
        display_time(run.until),
        urgent,
        deciders(run.groups),
        trouble=trouble,
        is_loading=late,
        expiry_label=_expiry_label(urgent),
    )

"""Decide several calls at once: each as it was shown, and each with its own outcome."""

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar

from holdfast.client.errors import HoldfastError, RejectedError
from holdfast.client.question_text import call_name
from holdfast.runtime.narration.phrases import decision_phrase
from holdfast.runtime.text_safety import one_line, shorten
from holdfast.schemas import names
from holdfast.schemas.decision import Decision, PendingApproval
from holdfast.web.auth.sessions import Person
from holdfast.web.listing.identical import find_identical
from holdfast.web.listing.rows import MAX_BRIEF_CHARS, SelectedCall, brief
from holdfast.web.services import Services

MAX_CHOICES: Final = 250
AT_ONCE: Final = 8
_ID_CHARS: Final = 200
_ERROR_CHARS: Final = 1_000
_TOO_MANY: Final = f"Not decided: at most {MAX_CHOICES} at a time. Select it again."
_NOT_PENDING: Final = "Not decided by you: it is no longer pending. Open it to see the outcome."
_CHANGED: Final = "Not decided: it has changed since it was shown to you. Open it again."
# Outcomes where another approver was faster.
_MEANWHILE: Final = (names.ALREADY_DECIDED, names.NO_SUCH_CALL)

Verdict = Literal["approve", "deny"]
Tone = Literal["good", "asks", "bad"]
_T = TypeVar("_T")


@dataclass(frozen=True)
class BulkOutcome:
    """The outcome of one selected call; identical calls have the same `group`, 1 or more."""

    choice: SelectedCall
    title: str
    brief: str
    text: str
    tone: Tone
    group: int = 0


def read_choices(texts: Iterable[object]) -> list[SelectedCall]:
    """Return the selected calls of a form, each once."""
    found = dict.fromkeys(SelectedCall.parse(text) for text in texts if isinstance(text, str))
    return [choice for choice in found if choice is not None]


async def decide_selected(
    parts: Services,
    person: Person,
    choices: Sequence[SelectedCall],
    verdict: Verdict | None,
    reason: str | None = None,
    *,
    confirmed: Collection[SelectedCall] = (),
) -> list[BulkOutcome]:
    """Send a decision to each selected call; return the outcomes in the same order.

    Without a verdict, only check that the calls are still pending and unchanged: such calls have no
    text. The same applies to an approval of identical calls that are not all `confirmed`: none of
    the calls is decided, and the identical ones have a `group`.
    """
    first = choices[:MAX_CHOICES]
    found = await _gather(_look(parts, person, choice) for choice in first)
    groups = dict[SelectedCall, int]()
    if verdict == "approve":
        groups = await _number_identical(parts, dict(zip(first, found, strict=True)))
    if verdict is None or groups.keys() - set(confirmed):
        outcomes = [
            replace(_outcome(choice, seen, "", "good"), group=groups.get(choice, 0))
            if isinstance(seen, PendingApproval)
            else seen
            for choice, seen in zip(first, found, strict=True)
        ]
    else:
        outcomes = await _gather(
            _decide(parts, person, choice, seen, verdict, reason)
            for choice, seen in zip(first, found, strict=True)
        )
    return [*outcomes, *(_outcome(one, None, _TOO_MANY, "asks") for one in choices[MAX_CHOICES:])]


async def _gather(requests: Iterable[Awaitable[_T]]) -> list[_T]:
    """Return all results in order; `AT_ONCE` requests run at a time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def send(request: Awaitable[_T]) -> _T:
        async with gate:
            return await request

    return await asyncio.gather(*map(send, requests))


async def _look(
    parts: Services, person: Person, choice: SelectedCall
) -> PendingApproval | BulkOutcome:
    """Return the selected call if it is still as it was shown, or else the outcome."""
    try:
        access = await parts.require(person, "decide", choice.run)
        pending = await parts.approvals(access, choice.run)
    except HoldfastError as error:
        return _rejected(choice, None, error)
    approval = next((one for one in pending if one.call_id == choice.call), None)
    if approval is None:
        parts.pending.recheck(choice.run)
        return _outcome(choice, None, _NOT_PENDING, "asks")
    if SelectedCall.of(choice.run, approval) != choice:
        return _outcome(choice, approval, _CHANGED, "asks")
    return approval


async def _decide(
    parts: Services,
    person: Person,
    choice: SelectedCall,
    seen: PendingApproval | BulkOutcome,
    verdict: Verdict,
    reason: str | None,
) -> BulkOutcome:
    if isinstance(seen, BulkOutcome):
        return seen
    decision = Decision(
        call_id=choice.call,
        decision=verdict,
        reason=reason,
        by=person.name,
        groups=list(person.groups),
        digest=choice.digest,
    )
    try:
        receipt = await parts.decide(choice.run, seen, decision)
    except HoldfastError as error:
        return _rejected(choice, seen, error)
    text = f"Recorded; {receipt.missing} more must approve."
    if receipt.decided:
        text = f"{decision_phrase(receipt.decision).capitalize()}."
    return _outcome(choice, seen, text, "good")


async def _number_identical(
    parts: Services, found: Mapping[SelectedCall, PendingApproval | BulkOutcome]
) -> dict[SelectedCall, int]:
    pending = {call: one for call, one in found.items() if isinstance(one, PendingApproval)}
    if len(pending) < 2:
        return {}
    same = find_identical(pending, (await parts.pending.read()).runs)
    order = list(pending)
    return {call: 1 + order.index(group[0]) for call, group in same.items()}


def _rejected(
    choice: SelectedCall, approval: PendingApproval | None, error: HoldfastError
) -> BulkOutcome:
    tone: Tone = "bad"
    reason = str(error)
    if isinstance(error, RejectedError):
        tone, reason = "asks" if error.code in _MEANWHILE else "bad", error.reason
    text = f"Not decided: {one_line(reason, _ERROR_CHARS).rstrip('.')}."
    return _outcome(choice, approval, text, tone)


def _outcome(
    choice: SelectedCall, approval: PendingApproval | None, text: str, tone: Tone
) -> BulkOutcome:
    title, in_line = f"{one_line(choice.call, _ID_CHARS)} of {one_line(choice.run, _ID_CHARS)}", ""
    if approval is not None:
        title, in_line = call_name(approval), shorten(brief(approval), MAX_BRIEF_CHARS)
    return BulkOutcome(choice, title, in_line, text, tone)

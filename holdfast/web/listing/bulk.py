"""Decide several calls at once: each as it was shown, and each with its own outcome."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from holdfast.client.errors import HoldfastError, RejectedError
from holdfast.runtime.narration.arguments import total_text
from holdfast.runtime.narration.phrases import decision_phrase
from holdfast.runtime.narration.question_line import MAX_BRIEF_CHARS, argument_line
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.text_safety import one_line, shorten
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.web.auth.sessions import Person
from holdfast.web.listing.pending_runs import find_identical
from holdfast.web.pages import reader_texts
from holdfast.web.services import Services

MAX_CHOICES: Final = 250
AT_ONCE: Final = 8
_ID_CHARS: Final = 200
_ERROR_CHARS: Final = 1_000
_TOO_MANY: Final = f"Not decided: at most {MAX_CHOICES} at a time. Select it again."
NOT_PENDING: Final = "Not decided by you: it is no longer pending. Open it to see the outcome."
CHANGED: Final = "Not decided: it has changed since it was shown to you. Open it again."
_USED: Final = "Not decided: this was used before, for another decision. Open it in the inbox."
# Outcomes where another approver was faster.
_MEANWHILE: Final = (names.ALREADY_DECIDED, names.NO_SUCH_CALL)

Verdict = Literal["approve", "deny"]
Tone = Literal["good", "plain", "asks", "bad"]


@dataclass(frozen=True)
class BulkOutcome:
    """The outcome of one selected call; identical ones have the same `group`, which is not 0.

    It `needs_look` before it is decided: it was not on the screen, or an identical one is selected.
    """

    choice: SelectedCall
    title: str
    brief: str
    text: str
    tone: Tone
    approval: PendingApproval | None = None
    group: int = 0
    needs_look: bool = False


def described(outcomes: Iterable[BulkOutcome]) -> str:
    """Return what approving calls does: number, kinds and sum, as the bar of the list has it.

    `Approve 3: 2 × Send a payment, Send a letter · €40.00`
    """
    calls = [one for one in outcomes if one.approval is not None]
    kinds = Counter(one.title for one in calls)
    names = ", ".join(f"{n} × {name}" if n > 1 else name for name, n in kinds.items())
    total = total_text(one.approval.amount for one in calls if one.approval)
    return " · ".join(filter(None, [f"Approve {len(calls)}: {names}", total]))


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
) -> list[BulkOutcome]:
    """Send a decision to each selected call; return the outcomes in the same order.

    Without a verdict, only check that the calls are still pending and unchanged: such calls have no
    text.
    """
    gate = asyncio.Semaphore(AT_ONCE)
    fields = (lambda _: {"decision": verdict, "reason": reason}) if verdict else None

    async def decide(choice: SelectedCall) -> BulkOutcome:
        async with gate:
            return await decide_shown(parts, person, choice, fields)

    found = await asyncio.gather(*map(decide, choices[:MAX_CHOICES]))
    return [*found, *(_outcome(each, None, _TOO_MANY, "asks") for each in choices[MAX_CHOICES:])]


async def decide_shown(
    parts: Services,
    person: Person,
    choice: SelectedCall,
    fields: Callable[[PendingApproval], Mapping[str, Any]] | None,
    id: str | None = None,
) -> BulkOutcome:
    """Send a decision to a call if it is still pending as it was shown, and return the outcome.

    `fields` returns those of the decision; without it, the call is only checked. Of two decisions
    with the same id, the run takes the first.
    """
    approval = None
    try:
        access = await parts.require(person, "decide", choice.run)
        pending = await parts.approvals(access, choice.run)
        approval = next((one for one in pending if one.call_id == choice.call), None)
        if approval is None:
            parts.pending.recheck(choice.run)
            return _outcome(choice, None, NOT_PENDING, "asks")
        if SelectedCall.of(choice.run, approval) != choice:
            return _outcome(choice, approval, CHANGED, "asks")
        if fields is None:
            return _outcome(choice, approval, "", "good")
        said = fields(approval)
        receipt = await parts.decide_by(person, choice.run, approval, said, id)
    except RejectedError as refusal:
        tone: Tone = "asks" if refusal.code in _MEANWHILE else "bad"
        return _outcome(choice, approval, not_decided(refusal.reason), tone)
    except HoldfastError as error:
        return _outcome(choice, approval, not_decided(reader_texts(error)[0]), "bad")
    if receipt.decision != said["decision"]:
        return _outcome(choice, approval, _USED, "bad")
    text = f"Recorded; {receipt.missing} more must approve."
    if receipt.decided:
        text = f"{decision_phrase(receipt.decision).capitalize()}."
    return _outcome(choice, approval, text, "plain" if receipt.decision == "deny" else "good")


async def approve_selected(
    parts: Services,
    person: Person,
    choices: Sequence[SelectedCall],
    confirmed: Collection[SelectedCall],
    on_screen: Collection[SelectedCall],
) -> list[BulkOutcome]:
    """Approve each selected call, and return the outcomes.

    Where a call was not `on_screen`, or identical calls are not all `confirmed`, nothing is
    approved: identical ones have a `group`, and a pending call has no text.
    """
    unseen = {*choices}.difference(on_screen, confirmed)
    if len({choice.digest for choice in choices}) == len(choices) and not unseen:
        return await decide_selected(parts, person, choices, "approve")
    seen = await decide_selected(parts, person, choices, None)
    pending = {one.choice: one.approval for one in seen if one.approval and not one.text}
    same = find_identical(pending, (await parts.pending_for(person)).runs)
    doubtful = (same.keys() - set(confirmed)) | (unseen & pending.keys())
    if doubtful:
        groups = {one: 1 + choices.index(group[0]) for one, group in same.items()}
        return [
            replace(one, group=groups.get(one.choice, 0), needs_look=one.choice in doubtful)
            for one in seen
        ]
    # A call that was not compared is not approved.
    done = await decide_selected(parts, person, [*pending], "approve")
    outcomes = {one.choice: one for one in (*seen, *done)}
    return list(outcomes.values())


def not_decided(reason: str) -> str:
    """Return the outcome of a refused decision, as a sentence."""
    return f"Not decided: {one_line(reason, _ERROR_CHARS).rstrip('.')}."


def _outcome(
    choice: SelectedCall, approval: PendingApproval | None, text: str, tone: Tone
) -> BulkOutcome:
    title, in_line = f"{one_line(choice.call, _ID_CHARS)} of {one_line(choice.run, _ID_CHARS)}", ""
    if approval is not None:
        title, in_line = (
            QuestionView.of(approval).name,
            shorten(argument_line(approval), MAX_BRIEF_CHARS),
        )
    return BulkOutcome(choice, title, in_line, text, tone, approval)

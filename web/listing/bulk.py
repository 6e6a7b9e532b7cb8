"""Decide several calls at once: each as it was shown, and each with its own outcome."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from holdfast.client.command_errors import CommandError
from holdfast.client.question_text import call_name
from holdfast.runtime.narration.phrases import decision_phrase
from holdfast.runtime.text_safety import one_line, shorten
from holdfast.schemas import names
from holdfast.schemas.decision import Decision, PendingApproval
from holdfast.web.auth.sessions import Person
from holdfast.web.listing.rows import MAX_BRIEF_CHARS, SelectedCall, brief
from holdfast.web.services import DecisionNotSent, Services

MAX_CHOICES: Final = 250
AT_ONCE: Final = 8
_ID_CHARS: Final = 200
_SAID_CHARS: Final = 1_000
_TOO_MANY: Final = f"Not decided: at most {MAX_CHOICES} at a time. Select it again."
# Outcomes where another approver was faster.
_MEANWHILE: Final = (names.ALREADY_DECIDED, names.NO_SUCH_CALL)

Verdict = Literal["approve", "deny"]
Tone = Literal["good", "asks", "bad"]


@dataclass(frozen=True)
class BulkOutcome:
    """The outcome of one selected call."""

    choice: SelectedCall
    title: str
    brief: str
    text: str
    tone: Tone


@dataclass(frozen=True)
class BulkDecision:
    """A decision of one person on several calls."""

    parts: Services
    person: Person
    verdict: Verdict
    reason: str | None = None

    async def send(self, choices: Sequence[SelectedCall]) -> list[BulkOutcome]:
        """Send the decision to each call; return the outcomes in the same order."""
        return await _each(choices, self._decided)

    async def _decided(self, choice: SelectedCall) -> BulkOutcome:
        standing = await _standing(self.parts, choice)
        return standing if isinstance(standing, BulkOutcome) else await self._sent(choice, standing)

    async def _sent(self, choice: SelectedCall, waiting: PendingApproval) -> BulkOutcome:
        try:
            receipt = await self.parts.decide(choice.run, waiting, self._decision(choice))
        except DecisionNotSent as refusal:
            tone: Tone = "asks" if refusal.code in _MEANWHILE else "bad"
            return _outcome(choice, waiting, f"Not decided: {_plain(refusal)}.", tone)
        except CommandError as error:
            return _outcome(choice, waiting, f"Not decided: {_plain(error)}.", "bad")
        said = f"Recorded; {receipt.missing} more must approve."
        if receipt.decided:
            said = f"{decision_phrase(receipt.decision).capitalize()}."
        return _outcome(choice, waiting, said, "good")

    def _decision(self, choice: SelectedCall) -> Decision:
        return Decision(
            call_id=choice.call,
            decision=self.verdict,
            reason=self.reason,
            by=self.person.name,
            groups=list(self.person.groups),
            digest=choice.digest,
        )


def read_choices(texts: Iterable[object]) -> list[SelectedCall]:
    """Return the selected calls of a form, each once."""
    found = dict.fromkeys(SelectedCall.parse(text) for text in texts if isinstance(text, str))
    return [choice for choice in found if choice is not None]


async def check_selected(parts: Services, choices: Sequence[SelectedCall]) -> list[BulkOutcome]:
    """Check that the selected calls are still pending and unchanged: such calls have no text."""

    async def one(choice: SelectedCall) -> BulkOutcome:
        standing = await _standing(parts, choice)
        return (
            standing
            if isinstance(standing, BulkOutcome)
            else _outcome(choice, standing, "", "good")
        )

    return await _each(choices, one)


async def _each(
    choices: Sequence[SelectedCall], do: Callable[[SelectedCall], Awaitable[BulkOutcome]]
) -> list[BulkOutcome]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(choice: SelectedCall) -> BulkOutcome:
        async with gate:
            return await do(choice)

    found = await asyncio.gather(*map(one, choices[:MAX_CHOICES]))
    return [*found, *(_outcome(each, None, _TOO_MANY, "asks") for each in choices[MAX_CHOICES:])]


async def _standing(parts: Services, choice: SelectedCall) -> PendingApproval | BulkOutcome:
    """Return a selected call if it is still pending and unchanged, else the outcome."""
    try:
        all_waiting = await parts.run(choice.run).pending_approvals()
    except CommandError as error:
        return _outcome(choice, None, f"Not decided: {_plain(error)}.", "bad")
    waiting = next((one for one in all_waiting if one.call_id == choice.call), None)
    if waiting is None:
        said = "Not decided by you: it is no longer pending. Open it to see the outcome."
        return _outcome(choice, None, said, "asks")
    if waiting.digest != choice.digest:
        said = "Not decided: it has changed since it was shown to you. Open it again."
        return _outcome(choice, waiting, said, "asks")
    return waiting


def _plain(error: Exception) -> str:
    return one_line(str(error), _SAID_CHARS).rstrip(".")


def _outcome(
    choice: SelectedCall, waiting: PendingApproval | None, said: str, tone: Tone
) -> BulkOutcome:
    call = f"{one_line(choice.call, _ID_CHARS)} of {one_line(choice.run, _ID_CHARS)}"
    title, in_line = (call_name(waiting), brief(waiting)) if waiting else (call, "")
    return BulkOutcome(choice, title, shorten(in_line, MAX_BRIEF_CHARS), said, tone)

"""Deciding several calls at once: each as it was shown, and each with an outcome of its own."""

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
from holdfast.web.auth.person import Person
from holdfast.web.decision_sender import DecisionNotSent, send
from holdfast.web.listing.rows import MAX_BRIEF_CHARS, Choice, brief
from holdfast.web.services import Services

MAX_CHOICES: Final = 250
AT_ONCE: Final = 8
_ID_CHARS: Final = 200
_SAID_CHARS: Final = 1_000
_TOO_MANY: Final = f"Not decided: at most {MAX_CHOICES} are decided at a time. Tick it again."
# Others were faster.
_MEANWHILE: Final = (names.ALREADY_DECIDED, names.NO_SUCH_CALL)

Verdict = Literal["approve", "deny"]
Tone = Literal["good", "asks", "bad"]


@dataclass(frozen=True)
class Outcome:
    """What came of one choice: of which call, in words, and whether that is what was meant."""

    choice: Choice
    title: str
    brief: str
    said: str
    tone: Tone


@dataclass(frozen=True)
class Several:
    """One answer of one person to several calls."""

    parts: Services
    person: Person
    verdict: Verdict
    reason: str | None = None

    async def outcomes(self, choices: Sequence[Choice]) -> list[Outcome]:
        """Decide on each, a few at a time; what came of it, in the same order."""
        return await _each(choices, self._decided)

    async def _decided(self, choice: Choice) -> Outcome:
        standing = await _standing(self.parts, choice)
        return standing if isinstance(standing, Outcome) else await self._sent(choice, standing)

    async def _sent(self, choice: Choice, waiting: PendingApproval) -> Outcome:
        try:
            receipt = await send(self.parts, choice.run, waiting, self._decision(choice))
        except DecisionNotSent as refusal:
            tone: Tone = "asks" if refusal.code in _MEANWHILE else "bad"
            return _outcome(choice, waiting, f"Not decided: {_plain(refusal)}.", tone)
        except CommandError as error:
            return _outcome(choice, waiting, f"Not decided: {_plain(error)}.", "bad")
        said = f"Counted; {receipt.missing} more must agree."
        if receipt.decided:
            said = f"{decision_phrase(receipt.decision).capitalize()}."
        return _outcome(choice, waiting, said, "good")

    def _decision(self, choice: Choice) -> Decision:
        return Decision(
            call_id=choice.call,
            decision=self.verdict,
            reason=self.reason,
            by=self.person.name,
            groups=list(self.person.groups),
            digest=choice.digest,
        )


def read_choices(texts: Iterable[object]) -> list[Choice]:
    """The calls that a form names, each once."""
    found = dict.fromkeys(Choice.read(text) for text in texts if isinstance(text, str))
    return [choice for choice in found if choice is not None]


async def before(parts: Services, choices: Sequence[Choice]) -> list[Outcome]:
    """The calls as they stand, before a reason is asked for: nothing is said of one that is as it
    was when it was chosen."""

    async def one(choice: Choice) -> Outcome:
        standing = await _standing(parts, choice)
        return standing if isinstance(standing, Outcome) else _outcome(choice, standing, "", "good")

    return await _each(choices, one)


async def _each(
    choices: Sequence[Choice], do: Callable[[Choice], Awaitable[Outcome]]
) -> list[Outcome]:
    """What came of each choice; those beyond what is decided at a time are told so."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(choice: Choice) -> Outcome:
        async with gate:
            return await do(choice)

    found = await asyncio.gather(*map(one, choices[:MAX_CHOICES]))
    return [*found, *(_outcome(each, None, _TOO_MANY, "asks") for each in choices[MAX_CHOICES:])]


async def _standing(parts: Services, choice: Choice) -> PendingApproval | Outcome:
    """A call that was chosen, if it still waits as it was shown; else what has become of it."""
    try:
        all_waiting = await parts.run(choice.run).pending_approvals()
    except CommandError as error:
        return _outcome(choice, None, f"Not decided: {_plain(error)}.", "bad")
    waiting = next((one for one in all_waiting if one.call_id == choice.call), None)
    if waiting is None:
        said = "Not decided by you: it does not wait any more. Its run says what came of it."
        return _outcome(choice, None, said, "asks")
    if waiting.digest != choice.digest:
        said = "Not decided: it was changed since you saw it. Look at it again."
        return _outcome(choice, waiting, said, "asks")
    return waiting


def _plain(error: Exception) -> str:
    return one_line(str(error), _SAID_CHARS).rstrip(".")


def _outcome(choice: Choice, waiting: PendingApproval | None, said: str, tone: Tone) -> Outcome:
    call = f"{one_line(choice.call, _ID_CHARS)} of {one_line(choice.run, _ID_CHARS)}"
    title, in_line = (call_name(waiting), brief(waiting)) if waiting else (call, "")
    return Outcome(choice, title, shorten(in_line, MAX_BRIEF_CHARS), said, tone)

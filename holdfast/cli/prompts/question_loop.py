"""Ask the person in front of the screen each question of a run once.

A question is open only until a person has decided, here or elsewhere: the run is observed while a
person thinks.
"""

import asyncio
from contextlib import aclosing, suppress

from holdfast.cli.prompts.answers import AnswerSource, InputEndedError
from holdfast.cli.prompts.decision_prompt import MAX_TRIES, ask_decision
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client.errors import HoldfastError, NoWorkerError, RejectedError
from holdfast.client.question_text import delegate_line, how_to_decide
from holdfast.client.run import Run
from holdfast.client.stream.run_feed import RunFeed
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.text_safety import clean
from holdfast.schemas import names
from holdfast.schemas.decision import Decision, PendingApproval
from holdfast.schemas.run import DelegatePending
from holdfast.validation.text_safety import is_same_person


class ApprovalPrompts:
    """Shows pending approvals, and asks about them while the input lasts."""

    def __init__(self, run: Run, screen: PlainScreen, answers: AnswerSource | None) -> None:
        self._run = run
        self._screen = screen
        self._answers = answers
        self._shown: set[tuple[str, ...]] = set()
        self._elsewhere: list[DelegatePending] = []

    async def ask_new(self, waiting: list[PendingApproval]) -> bool:
        """Ask about new pending approvals; return false when a pipe or a file has ended.

        On a terminal, the run is followed while other people decide.
        """
        new = [one for one in waiting if _key(one) not in self._shown]
        self._shown.update(map(_key, new))
        for one in new:
            if self._answers is None or (one.signed and self._answers.approver.signer is None):
                self._screen.show_approval(one, asked=False)
                continue
            try:
                await self._ask(one, self._answers)
            except InputEndedError:
                self._screen.print_note("\nThe input has ended. To decide:")
                for each in waiting:
                    self._screen.print_note(f"  {how_to_decide(self._run.id, each)}")
                is_terminal, self._answers = self._answers.terminal, None
                return is_terminal
        return True

    def show_delegate_approvals(self, waiting: list[DelegatePending]) -> None:
        """Draw the new pending approvals of delegates, which are decided there."""
        for there in waiting:
            if there not in self._elsewhere:
                self._screen.print_waiting(delegate_line(there))
        self._screen.activity.show_delegates_wait(bool(waiting))
        self._elsewhere = waiting

    async def _ask(self, waiting: PendingApproval, answers: AnswerSource) -> None:
        """Ask, unless and until it is decided elsewhere."""
        if any(is_same_person(each, answers.approver.name) for each in waiting.decided_by):
            return
        answers.keep_draft("")
        for _ in range(MAX_TRIES):
            decision = await self._decision(waiting, answers)
            if decision is None or not await self._is_refused(decision, waiting, answers):
                return

    async def _decision(self, waiting: PendingApproval, answers: AnswerSource) -> Decision | None:
        """Return the decision; `None` if it was skipped or is decided elsewhere."""
        asking = asyncio.ensure_future(ask_decision(waiting, answers, self._screen))
        watching = asyncio.ensure_future(self._until_decided(waiting))
        try:
            await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                watching.result()
                self._screen.print_note(
                    f"\n{QuestionView.of(waiting).title} was decided elsewhere."
                )
                return None
            decision = asking.result()
        finally:
            asking.cancel()
            watching.cancel()
            await asyncio.gather(asking, watching, return_exceptions=True)
        if decision is None:
            self._screen.print_note(f"Skipped. To decide: {how_to_decide(self._run.id, waiting)}")
        return decision

    async def _until_decided(self, waiting: PendingApproval) -> None:
        """Return when the approval is no longer pending, or has changed since it was shown."""
        feed = RunFeed(self._run)
        async with aclosing(feed.moves()) as moves:
            async for look in moves:
                with suppress(HoldfastError):  # sending the decision will meet it
                    if look.closed or _key(waiting) not in map(_key, await self._run.approvals()):
                        return
                    feed.has_read(look)

    async def _is_refused(
        self, decision: Decision, waiting: PendingApproval, answers: AnswerSource
    ) -> bool:
        """Send a decision; return whether the same question has to be asked again at once."""
        note = self._screen.print_note
        try:
            if (signer := answers.approver.signer) is not None:
                decision = signer.sign(decision, waiting, self._run.id)
            receipt = await self._run.decide(decision)
            if receipt.decided:
                self._screen.activity.show_decision(waiting.call_id)
            else:
                note(f"Counted: {receipt.missing} more must agree.")
        except RejectedError as refusal:
            note(f"Rejected: {clean(refusal.reason)}")
            if refusal.code == names.INVALID_DECISION:
                with suppress(HoldfastError):
                    if _key(waiting) in map(_key, await self._run.approvals()):
                        return True
                self._shown.discard(_key(waiting))  # another decision is possible
        except NoWorkerError as error:
            note(f"{clean(str(error))}, then {how_to_decide(self._run.id, waiting)}")
        except HoldfastError as error:
            # It cannot be signed; or the run has ended, and the next look draws how.
            note(clean(str(error)))
        return False


def _key(waiting: PendingApproval) -> tuple[str, ...]:
    """Return the key of a question; an edit under a quorum makes a new one."""
    return (waiting.call_id, waiting.kind, waiting.requested_at, waiting.digest)

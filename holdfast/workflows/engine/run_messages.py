"""The messages of a run: which are read, and what answers each.

    queued ─► read, into the log ─► answered, by the next output of the run
                                 └► without an answer: its budget is used up, or the run has ended

In a conversation a budget counts for each message: the end of one is the end of its message.
"""

from typing import Any

from holdfast.schemas.budget import BudgetName
from holdfast.schemas.run import Conversation, RunRequest
from holdfast.workflows.engine import skills
from holdfast.workflows.engine.conversation.initial_context import append_message
from holdfast.workflows.engine.conversation.mailbox import Mailbox
from holdfast.workflows.engine.request_settings import RequestSettings
from holdfast.workflows.engine.run_state import RunState


class RunMessages:
    """The messages of one run; `conversation` is set if it awaits more after an answer."""

    def __init__(
        self, state: RunState, request: RunRequest, mailbox: Mailbox, settings: RequestSettings
    ) -> None:
        self._state = state
        self.mailbox = mailbox
        self._settings = settings
        hears = request.conversation
        self.conversation = Conversation() if hears is True else hears or None

    @property
    def is_open(self) -> bool:
        """Return whether the run awaits a message after an answer."""
        return self.conversation is not None and not self.mailbox.closed

    def read(self, *, ending: bool, is_over: bool = False) -> bool:
        """Move messages from the mailbox to the log, and return whether there were any.

        Once the run is over, they are in the log only, and change no skill.
        """
        messages = self.mailbox.take(ending=ending)
        for message in messages:
            name = message.skill
            problem = None if name is None or is_over else self.skill_problem(name)
            if problem is not None:
                self._state.log.add_notice(f"a message keeps the skill: {problem}")
            elif name not in (None, self._state.skill) and not is_over:
                self._settings.take_skill(name, "request")
            append_message(self._state, message)
        return bool(messages)

    def skill_problem(self, name: str) -> str | None:
        """Return why a message cannot change the skill to this one, if so."""
        if self.conversation is None:
            return "`skill`: only a conversation changes its skill"
        return skills.skill_problem(self._state.rules, name, is_change=True)

    def answer(self, output: Any) -> None:
        """Answer every message that was read so far with an output."""
        self._state.progress.complete(output, self.mailbox.heard)

    def exceed(self, name: BudgetName, *, is_noted: bool = False) -> None:
        """End the run on a budget, or in a conversation its message: others may follow."""
        state = self._state
        goes_on = self.conversation is not None and not state.meter.is_total(name)
        reason = state.progress.exceed(name, self.mailbox.heard if goes_on else None)
        if not is_noted:
            state.log.add_notice(f"{reason}; the next message has its own" if goes_on else reason)

    def budget_problem(self, number: int) -> str | None:
        """Return the budget because of which a message has no answer, if that is the reason."""
        progress = self._state.progress
        name = progress.exceeded
        if name is None:
            return None
        if progress.answered_up_to >= number:
            return (
                f"the budget {name} ({self._state.meter.limit(name)}) of this message is used up;"
                " send the next message, or raise `budget.perMessage`"
            )
        is_over = progress.ending == "budget_exceeded"
        return f"the run has ended: its budget {name} is used up" if is_over else None

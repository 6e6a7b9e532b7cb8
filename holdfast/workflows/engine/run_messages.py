"""The messages of a run: which are read, and what answers each.

Events: concluded, continued, message awaited, message arrived.

    queued ─► read, into the log ─► answered, by the next output of the run
                                 └► without an answer: its budget is used up, or the run has ended

Messages are queued in order of arrival. A `steer` message is read before the next request to the
model; a `followUp` message when the run would end. None is dropped: the run ends only with an empty
mailbox, or writes the rest into its log. A message that arrives again under the same id is the same
message. Temporal deduplicates within one history; the latest ids are passed on to the next history.

In a conversation a budget counts for each message: the end of one is the end of its message.
"""

from typing import Any, cast, get_args

from pydantic import Field
from pydantic.dataclasses import dataclass

from holdfast.schemas.base import MUTABLE
from holdfast.schemas.budget import BudgetName
from holdfast.schemas.message import Delivered, QueuedMessage
from holdfast.schemas.run import Conversation, Ended, RunRequest
from holdfast.workflows.engine import skills
from holdfast.workflows.engine.conversation.initial_context import append_message
from holdfast.workflows.engine.conversation.scopes import content_text
from holdfast.workflows.engine.phases import AwaitMessage, RunEvent, RunPhases
from holdfast.workflows.engine.request_settings import RequestSettings
from holdfast.workflows.engine.run_state import RunState

# A sender without an answer retries soon, and every id is a part of the snapshot.
MAX_KNOWN = 64
MAX_KNOWN_CHARACTERS = 200
# In `status`, and in the result.
MAX_LISTED_MESSAGES = 200
MAX_LISTED_CHARACTERS = 200


@dataclass(config=MUTABLE)
class Mailbox:
    """The messages that a run has not read yet, and, as JSON, their snapshot.

    `line` holds each with its number, from 1, in order of arrival; `received` is the newest number,
    `heard` the number up to which all are read. `closed`: the run accepts no further message.
    `known` maps the id of the update that sent a message to the message's number, `withdrawn` has
    the latest numbers that were taken back. `unread` lists what the log holds already, and no
    request to the model that was answered.
    """

    line: list[tuple[int, Delivered]] = Field(default=[])
    received: int = 0
    heard: int = 0
    closed: bool = False
    known: dict[str, int] = Field(default={})
    withdrawn: list[int] = Field(default=[])
    unread: list[QueuedMessage] = Field(default=[])

    def __len__(self) -> int:
        return len(self.line)

    def put(self, message: Delivered, id: str | None = None) -> int:
        """Queue a message unless its id is known; return its number."""
        if id in self.known:
            return self.known[id]
        self.received += 1
        self.line.append((self.received, message))
        if id is not None and len(id) <= MAX_KNOWN_CHARACTERS:
            self.known[id] = self.received
            for oldest in list(self.known)[:-MAX_KNOWN]:
                del self.known[oldest]
        return self.received

    def close(self) -> None:
        self.closed = True

    def queued(self) -> list[QueuedMessage]:
        return [_listed(*item) for item in self.line[:MAX_LISTED_MESSAGES]]

    def is_queued(self, number: int) -> bool:
        return any(each == number for each, _ in self.line)

    def withdraw(self, number: int) -> None:
        self.line = [item for item in self.line if item[0] != number]
        self._note_heard()
        self.withdrawn = [*self.withdrawn, number][-MAX_KNOWN:]

    @property
    def has_steering_message(self) -> bool:
        return any(message.delivery == "steer" for _, message in self.line)

    def take(self, *, ending: bool) -> list[Delivered]:
        """Return the messages to read now: the `steer` ones, or all if the run would end."""
        due = [item for item in self.line if ending or item[1].delivery == "steer"]
        self.line = [] if ending else [item for item in self.line if item[1].delivery != "steer"]
        self._note_heard()
        room = MAX_LISTED_MESSAGES - len(self.unread)
        self.unread = [*self.unread, *(_listed(*item) for item in due[:room])]
        return [message for _, message in due]

    def _note_heard(self) -> None:
        self.heard = self.line[0][0] - 1 if self.line else self.received

    def unread_in_order(self) -> list[QueuedMessage]:
        return sorted(self.unread, key=lambda message: message.number)

    def mark_read(self) -> None:
        """Record that the model has answered a request with all that was taken."""
        self.unread = []


def _listed(number: int, message: Delivered) -> QueuedMessage:
    text = content_text(message.content)
    if len(text) > MAX_LISTED_CHARACTERS:
        text = text[:MAX_LISTED_CHARACTERS] + " …"
    return QueuedMessage(number=number, role=message.role, delivery=message.delivery, text=text)


class RunMessages:
    """The messages of one run; `conversation` is set if it awaits more after an answer."""

    def __init__(
        self,
        state: RunState,
        phases: RunPhases,
        request: RunRequest,
        mailbox: Mailbox,
        settings: RequestSettings,
    ) -> None:
        self._state = state
        self._phases = phases
        self.mailbox = mailbox
        self._settings = settings
        hears = request.conversation
        self.conversation = Conversation() if hears is True else hears or None

    @property
    def is_open(self) -> bool:
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

    def go_on(self) -> bool:
        """Read the messages that came before the end; return whether there are any."""
        if not self.read(ending=True):
            return False
        self._phases.move(RunEvent.CONTINUED)
        self._state.progress.go_on()
        if self.conversation is not None:
            self._state.meter.begin_message()
        return True

    def wait(self) -> bool:
        """Wait for the next message, if the run is an open conversation; return whether it is."""
        if self.conversation is None or not self.is_open:
            return False
        self._phases.move(RunEvent.MESSAGE_AWAITED, AwaitMessage(self.conversation.idle_timeout))
        return True

    def end_wait(self) -> None:
        """End a wait for the next message, if there is one, or the conversation is closed."""
        has_come = bool(self.mailbox.line) or self.mailbox.closed
        if has_come and isinstance(self._phases.step, AwaitMessage):
            self._phases.move(RunEvent.MESSAGE_ARRIVED)

    def answer(self, output: Any) -> None:
        self._state.progress.complete(output, self.mailbox.heard)
        self._phases.move(RunEvent.CONCLUDED, conclusion="completed")

    def stop(self, output: Any) -> None:
        """End the run with an output, because a tool or a hook stopped it."""
        self._state.progress.stop(output)
        self._phases.move(RunEvent.CONCLUDED, conclusion="stopped")

    def exceed(self, name: str, *, is_noted: bool = False) -> None:
        """End the run on a budget, or in a conversation its message: others may follow."""
        state = self._state
        goes_on = self.conversation is not None and not state.meter.is_total(name)
        reason = state.progress.exceed(name, self.mailbox.heard if goes_on else None)
        ends: Ended = "completed" if goes_on else "budget_exceeded"
        self._phases.move(RunEvent.CONCLUDED, conclusion=ends)
        if not is_noted:
            state.log.add_notice(f"{reason}; the next message has its own" if goes_on else reason)

    def budget_problem(self, number: int) -> str | None:
        """Return the budget because of which a message has no answer, if that is the reason."""
        progress = self._state.progress
        name = progress.exceeded
        if name is None:
            return None
        if progress.answered_up_to >= number:
            if name not in get_args(BudgetName):  # one that runs share
                return f"{progress.reason}; send the next message later"
            limit = self._state.meter.limit(cast(BudgetName, name))
            return (
                f"the budget {name} ({limit}) of this message is used up; send the next message, or"
                " raise `budget.perMessage`"
            )
        is_over = self._phases.conclusion == "budget_exceeded"
        return f"the run has ended: its budget {name} is used up" if is_over else None

"""What a recorded run answers in one backtest: each recorded call and hook is used once.

The nth use of a call gets the nth recorded one. Calls of one turn start in any order: of those that
were recorded in one turn, a call gets the one at its own place, if that is equal.
"""

from collections.abc import Sequence
from typing import TypeVar

from holdfast.runtime.backtest.run_record import (
    BacktestFindings,
    CallRecord,
    End,
    HookRecord,
    MessageRecord,
    QuestionRecord,
    RunRecord,
    turn_in,
)
from holdfast.schemas.agent import ResolvedAgent

T = TypeVar("T", CallRecord, HookRecord, QuestionRecord)


class RecordedAnswers:
    """The answers of a record in one backtest, and what was found; `agent` is the candidate.

    `is_same_agent`: it is the agent of the run, perhaps as it was changed since.
    """

    def __init__(self, record: RunRecord, *, is_same_agent: bool) -> None:
        self.record, self.is_same_agent = record, is_same_agent
        self.findings = BacktestFindings()
        self.agent: ResolvedAgent | None = None
        self._calls, self._hooks = [*record.calls], [*record.hooks]
        self._messages = [*record.messages]
        # By the id of a call, the recorded ends that it has yet to get.
        self._ends: dict[str, list[End]] = {}

    def end_of_call(self, id: str, key: bytes) -> End | None:
        """Return how an execution of a call ends; None if the record does not have it.

        A call is executed again after an unknown outcome, or for a server that required input.
        """
        if not self._ends.get(id):
            found = take(self._calls, id, [one for one in self._calls if one.key == key])
            self._ends[id] = [] if found is None else list(found.ends)
        return self._ends[id].pop(0) if self._ends[id] else None

    def end_of_hook(self, id: str, key: bytes) -> End | None:
        """Return how a use of a hook ends; None if the record does not have it."""
        found = take(self._hooks, id, [one for one in self._hooks if one.key == key])
        return None if found is None else found.end

    def has_call(self, key: bytes) -> bool:
        """Return whether the record has the result of a call that is not used yet."""
        return any(one.key == key for one in self._calls)

    def take_messages(self, turn: int) -> list[MessageRecord]:
        """Return the messages that arrive in a turn; in a conversation, others are awaited."""
        is_open = bool(self.record.request.get("conversation"))
        due = [
            one for one in self._messages if one.turn <= turn and not (is_open and one.was_awaited)
        ]
        self._messages = [one for one in self._messages if one not in due]
        return due

    def take_awaited(self) -> MessageRecord | None:
        """Return the next message for a run that waits for one."""
        return self._messages.pop(0) if self._messages else None


def take(left: list[T], id: str, equal: Sequence[T]) -> T | None:
    """Take the next of equal ones that are left; of one turn, that with this id if there is one."""
    if not equal:
        return None
    same_turn = [one for one in equal if turn_in(one.id) == turn_in(equal[0].id)]
    found = next((one for one in same_turn if one.id == id), equal[0])
    left.remove(found)
    return found

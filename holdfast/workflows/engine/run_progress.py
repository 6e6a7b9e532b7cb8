"""What a run remembers between two turns, besides its log and what its calls have written.

running ─► completed ─► running again, with the next message
├─────► stopped
└─────► budget_exceeded; in a conversation completed, without an output for its message
"""

from collections.abc import Iterable
from typing import Any

from pydantic import JsonValue

from holdfast.schemas.agent import ToolChoice
from holdfast.schemas.base import Lenient
from holdfast.schemas.budget import BudgetName
from holdfast.schemas.run import Ended

# Providers match a result with its call by the nearest id.
MAX_SEEN_IDS = 1_024
MAX_REASON_CHARACTERS = 300


class RunProgress(Lenient, frozen=False):
    """What a run between two turns remembers besides its log, and, as JSON, a part of its snapshot.

    `choice` is the tool choice of the run, and `settled_after` the number of turns at the time when
    its skill was chosen. `finalizing` is the number of turns at the time of the request to finish;
    `cut_told`: the model has read that its last text was cut off; `is_refused`: the provider ended
    the last answer without one; `unknown_told`: the log has that the provider reports no usage.
    `said` is the latest text of the model. Messages up to number
    `answered_up_to` have the `output` as their answer. `exceeded` is the budget that ended the run,
    or the last message of a conversation, before an answer, and `reason` why in words. The last
    `rejections` answers were no output, the newest of them because of `rejected`.
    """

    seen_ids: list[str] = []
    choice: ToolChoice = "auto"
    output: JsonValue = None
    said: str | None = None
    answered_up_to: int = 0
    settled_after: int = 0
    finalizing: int | None = None
    cut_told: bool = False
    is_refused: bool = False
    unknown_told: bool = False
    ending: Ended | None = None
    exceeded: BudgetName | None = None
    reason: str | None = None
    rejections: int = 0
    rejected: str | None = None

    def record_answer(self, text: str, seen: Iterable[str]) -> None:
        """Record the text of an answer, and the ids of all calls so far."""
        self.said = text or self.said
        self.seen_ids = list(seen)[-MAX_SEEN_IDS:]

    def settle(self, turns: int, choice: ToolChoice) -> None:
        """Record that the run has its skill, with the tool choice of the skill's first turn."""
        self.settled_after, self.choice = turns, choice

    def finalize(self, turns: int) -> None:
        """Record the request to finish."""
        self.finalizing = turns

    def note_cut(self, *, is_told: bool) -> None:
        """Record whether the model has read that its last text was cut off."""
        self.cut_told = is_told

    def note_refusal(self, *, is_refused: bool) -> bool:
        """Record whether the provider ended an answer without one; return whether again."""
        was_refused, self.is_refused = self.is_refused, is_refused
        return was_refused and is_refused

    def note_unknown_usage(self) -> bool:
        """Record that the provider reports no usage; return whether the log has that already."""
        was_told, self.unknown_told = self.unknown_told, True
        return was_told

    def note_rejection(self, why: str | None) -> None:
        """Record why an answer was no output; with None, that it had calls."""
        self.rejections = 0 if why is None else self.rejections + 1
        self.rejected = why and why[:MAX_REASON_CHARACTERS]

    def complete(self, output: Any, upto: int) -> None:
        """Answer the messages up to this number with an output."""
        self.output, self.answered_up_to = output, upto
        self.ending, self.exceeded, self.reason = "completed", None, None
        self.note_rejection(None)

    def stop(self, output: Any) -> None:
        """End the run with an output, because a tool or a hook stopped it."""
        self.output, self.ending = output, "stopped"

    def exceed(self, name: BudgetName, upto: int | None) -> str:
        """End the run on a budget, or only its messages up to a number; return the reason."""
        self.exceeded, self.ending = name, "budget_exceeded"
        self.reason = f"the budget {name} is used up"
        if upto is not None:
            self.answered_up_to, self.ending = upto, "completed"
        if self.rejections:
            self.reason += f". Answers without an output in a row: {self.rejections}."
            self.reason += f" The last: {self.rejected}"
        self.note_rejection(None)
        return self.reason

    def go_on(self) -> None:
        """Continue after an answer, because a message arrived; calls are accepted again."""
        self.ending = self.finalizing = None

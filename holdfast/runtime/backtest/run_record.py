"""A recorded run, as a backtest answers from it.

It is read once, from the run's history and its log, and changes no more.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from temporalio.common import RawValue
from temporalio.exceptions import TimeoutError as ActivityTimeout

from holdfast.schemas.agent import AgentSnapshot
from holdfast.schemas.base import canonical_json
from holdfast.schemas.decision import Decision, PendingApproval
from holdfast.schemas.message import Delivered

# Of what a hook receives, its place in a run, and whose run it is.
_POSITION = frozenset(("id", "reasoning", "runId", "principal", "turn"))
# What an activity returned, or raised.
End = RawValue | BaseException


@dataclass(frozen=True)
class CallRecord:
    """A call that ran, with its arguments, and how each of its executions ended, in order."""

    id: str
    tool: str
    arguments: Any
    ends: Sequence[End]

    @property
    def turn(self) -> int:
        return turn_in(self.id)

    @property
    def has_timed_out(self) -> bool:
        return any(isinstance(end, ActivityTimeout) for end in self.ends)

    @property
    def key(self) -> bytes:
        return call_key(self.tool, self.arguments)


@dataclass(frozen=True)
class HookRecord:
    """One use of a hook: `id` is that of its activity, which has its name."""

    id: str
    key: bytes
    end: End


@dataclass(frozen=True)
class QuestionRecord:
    """What people were asked, by its digest, and their decisions on it, in order."""

    digest: str
    votes: Sequence[Decision]
    asked: PendingApproval | None = None

    @property
    def id(self) -> str:
        return "" if self.asked is None else self.asked.call_id


@dataclass(frozen=True)
class MessageRecord:
    """A message to the run, which it received in `turn`, or while it waited after that."""

    turn: int
    message: Delivered
    was_awaited: bool = False


@dataclass(frozen=True)
class RunRecord:
    """A recorded run: `request` is that of its start, with the principal as it was verified.

    A case of a suite, which was no run, has no `snapshot` of an agent, and no log.
    """

    id: str
    request: dict[str, Any]
    snapshot: AgentSnapshot | None = None
    log: Sequence[dict[str, Any]] = ()
    calls: Sequence[CallRecord] = ()
    hooks: Sequence[HookRecord] = ()
    questions: Sequence[QuestionRecord] = ()
    messages: Sequence[MessageRecord] = ()

    @property
    def effects(self) -> set[str]:
        """Return the tools that had side effects in the recorded run."""
        tools = [] if self.snapshot is None else self.snapshot.agent.all_tools
        return {tool.name for tool in tools if tool.side_effects}


@dataclass(frozen=True)
class MissingAnswer:
    """What a backtest needed and the record does not have."""

    turn: int
    what: str
    arguments: Any

    def __str__(self) -> str:
        return f"turn {self.turn}, {self.what}"

    def to_json(self) -> dict[str, Any]:
        return {"turn": self.turn, "what": self.what, "arguments": self.arguments}


@dataclass
class BacktestFindings:
    """What was found while a backtest ran: `stopped_by` ended it, `filled_in` did not.

    `cost` is that of the model where it simulated tools.
    """

    stopped_by: MissingAnswer | None = None
    filled_in: list[MissingAnswer] = field(default_factory=list)
    cost: float = 0.0

    def stop(self, missing: MissingAnswer) -> None:
        self.stopped_by = self.stopped_by or missing


def turn_in(id: str) -> int:
    """Return the turn in an id of a call, a hook, a plan or a budget."""
    found = re.match(r"t(\d+)", id)
    return int(found[1]) if found else 0


def call_key(tool: str, arguments: Any) -> bytes:
    """Return what equal calls have in common."""
    return canonical_json([tool, arguments])


def hook_key(name: str, arguments: Sequence[Any]) -> bytes:
    """Return what equal uses of a hook have in common: their arguments without ids and reasons.

    An agent that repairs arguments receives these alone, and no errors.
    """
    known = arguments[:1] if name == "repair" else arguments
    return canonical_json([name, *map(_without_position, known)])


def _without_position(value: Any) -> Any:
    is_view = isinstance(value, dict) and ({"id", "tool", "reasoning"} <= value.keys())
    if not is_view and not (isinstance(value, dict) and "runId" in value):
        return value
    return {key: one for key, one in value.items() if key not in _POSITION}

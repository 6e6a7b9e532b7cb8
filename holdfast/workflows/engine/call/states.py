"""The states of a call, and the events that move it: `TRANSITIONS` is the whole machine.

    proposed ─► pending ─► waiting ─► queued ─► running ─► ended ─► reviewed ─► published ─► closed
        │          │          │         │        │   ▲       ▲
        │          │          │         │        ▼   │       │
        │          │          │         │       unsure ──────┤
        └──────────┴──────────┴─────────┴────────────────────┘ refused

A call is pending while it needs the result of another call of its turn, waiting while people
decide, queued while an earlier call has yet to write to the same place, and unsure while its
outcome is unknown. Just before it starts, it is waiting (again) if the token of the run's principal
has expired; so is a running call whose MCP server requires a person's input. A result is reviewed
by hooks, published to calls that depend on it, and logged when the call is closed.

What is known of a call grows with its state: `ProposedCall`, `PreparedCall`, `DecidedCall`,
`ExecutedCall` and `ClosedCall` are frozen, and each holds the former. An event without a cell is an
`IllegalTransition`. No other module compares stages.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar

from holdfast.schemas.internal.mcp_input import NO_EXCHANGE, McpExchange
from holdfast.schemas.message import AskedCall
from holdfast.schemas.reference import OutputPath, Path
from holdfast.schemas.run import CallApprover
from holdfast.schemas.tool import OutputMethod, ResolvedTool
from holdfast.validation.arguments import InvalidArguments
from holdfast.workflows.engine.call.outcomes import (
    Answered,
    Failed,
    Final,
    Refused,
    Stopped,
    Succeeded,
)
from holdfast.workflows.engine.state.data import MISSING, Data


class CallStage(StrEnum):
    """A row of the table."""

    PROPOSED = "proposed"
    PENDING = "pending"
    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    UNSURE = "unsure"
    ENDED = "ended"
    REVIEWED = "reviewed"
    PUBLISHED = "published"
    CLOSED = "closed"


class CallEvent(StrEnum):
    """What moves a call to another stage."""

    POSTPONED = "postponed"
    ASKED = "asked"
    ENQUEUED = "enqueued"
    STARTED = "started"
    OUTCOME_LOST = "outcome lost"
    HAS_OUTCOME = "has outcome"
    RESULT_REVIEWED = "result reviewed"
    RESULT_PUBLISHED = "result published"
    RESULT_LOGGED = "result logged"


TRANSITIONS = {
    (CallStage.PROPOSED, CallEvent.POSTPONED): CallStage.PENDING,
    (CallStage.WAITING, CallEvent.POSTPONED): CallStage.PENDING,
    (CallStage.PROPOSED, CallEvent.ASKED): CallStage.WAITING,
    (CallStage.PENDING, CallEvent.ASKED): CallStage.WAITING,
    # The token of the principal has expired.
    (CallStage.WAITING, CallEvent.ASKED): CallStage.WAITING,
    (CallStage.QUEUED, CallEvent.ASKED): CallStage.WAITING,
    (CallStage.UNSURE, CallEvent.ASKED): CallStage.WAITING,
    (CallStage.RUNNING, CallEvent.ASKED): CallStage.WAITING,
    (CallStage.PROPOSED, CallEvent.ENQUEUED): CallStage.QUEUED,
    (CallStage.PENDING, CallEvent.ENQUEUED): CallStage.QUEUED,
    (CallStage.WAITING, CallEvent.ENQUEUED): CallStage.QUEUED,
    (CallStage.PROPOSED, CallEvent.STARTED): CallStage.RUNNING,
    (CallStage.PENDING, CallEvent.STARTED): CallStage.RUNNING,
    (CallStage.WAITING, CallEvent.STARTED): CallStage.RUNNING,
    (CallStage.QUEUED, CallEvent.STARTED): CallStage.RUNNING,
    (CallStage.UNSURE, CallEvent.STARTED): CallStage.RUNNING,
    (CallStage.RUNNING, CallEvent.OUTCOME_LOST): CallStage.UNSURE,
    (CallStage.PROPOSED, CallEvent.HAS_OUTCOME): CallStage.ENDED,
    (CallStage.PENDING, CallEvent.HAS_OUTCOME): CallStage.ENDED,
    (CallStage.WAITING, CallEvent.HAS_OUTCOME): CallStage.ENDED,
    (CallStage.QUEUED, CallEvent.HAS_OUTCOME): CallStage.ENDED,
    (CallStage.RUNNING, CallEvent.HAS_OUTCOME): CallStage.ENDED,
    (CallStage.UNSURE, CallEvent.HAS_OUTCOME): CallStage.ENDED,
    (CallStage.ENDED, CallEvent.RESULT_REVIEWED): CallStage.REVIEWED,
    (CallStage.REVIEWED, CallEvent.RESULT_PUBLISHED): CallStage.PUBLISHED,
    # A refused call has no result to review; a result is published if another call needs it.
    (CallStage.ENDED, CallEvent.RESULT_LOGGED): CallStage.CLOSED,
    (CallStage.REVIEWED, CallEvent.RESULT_LOGGED): CallStage.CLOSED,
    (CallStage.PUBLISHED, CallEvent.RESULT_LOGGED): CallStage.CLOSED,
}


class IllegalTransition(RuntimeError):
    """A call was used in a way that its state does not allow."""


@dataclass(frozen=True)
class MetaProperties:
    """The properties of a call besides the arguments of its tool."""

    reasoning: str | None = None
    instance: str | None = None
    output_path: OutputPath | None = None
    output_method: OutputMethod = "set"
    scopes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ProposedCall:
    """A call as it was proposed; `unreadable` is why its arguments are not a JSON object."""

    proposal: AskedCall
    tool: ResolvedTool | None = None
    unreadable: InvalidArguments | None = None
    is_literal: bool = False
    outcome: ClassVar = None

    @property
    def prepared(self) -> "PreparedCall":
        return PreparedCall(self, self.is_literal)


@dataclass(frozen=True)
class PreparedCall:
    """A call with its meta-properties and arguments, as far as they are known.

    `raw_arguments` hold references, unless the call `is_literal`; `arguments` hold their values.
    The call is `resolved_late` if they were resolved after it was pending and no person has seen
    them since. It `is_approved` if the approval of its plan, or of an edit, covers it; arguments
    that the approvers have not seen have to fit the schema `bound`. Its `approver` has approved
    these arguments; `decision` has the words for the last decision on it.
    """

    proposed: ProposedCall
    is_literal: bool = False
    meta: MetaProperties = MetaProperties()
    raw_arguments: dict[str, Any] = field(default_factory=dict)
    reference_count: int = 0
    model_result: Any = MISSING
    arguments: dict[str, Any] = field(default_factory=dict)
    visible_data: Data | None = None
    resolved_late: bool = False
    edited_by: str | None = None
    is_approved: bool = False
    approver: CallApprover | None = None
    decision: str = ""
    bound: dict[str, Any] | None = None
    outcome: ClassVar = None

    @property
    def prepared(self) -> "PreparedCall":
        return self

    def covered(self, *, is_approved: bool, approver: CallApprover | None = None) -> "PreparedCall":
        """Return the call as an approval of its plan, or of a person's edit, covers it."""
        approver = (approver or self.approver) if is_approved else None
        return replace(self, is_approved=is_approved, approver=approver)


@dataclass(frozen=True)
class DecidedCall:
    """A call that `started_at` a time, or is refused; `unknown_attempts` are such times."""

    prepared: PreparedCall
    started_at: str = ""
    unknown_attempts: tuple[str, ...] = ()
    mcp: McpExchange = NO_EXCHANGE
    outcome: ClassVar = None


@dataclass(frozen=True)
class ExecutedCall:
    """A call with its outcome, which the hooks `_after` may yet replace."""

    decided: DecidedCall
    outcome: Final

    @property
    def prepared(self) -> PreparedCall:
        return self.decided.prepared


@dataclass(frozen=True)
class ClosedCall:
    """A call whose result is in the log."""

    executed: ExecutedCall

    @property
    def prepared(self) -> PreparedCall:
        return self.executed.prepared

    @property
    def outcome(self) -> Final:
        return self.executed.outcome


CallState = ProposedCall | PreparedCall | DecidedCall | ExecutedCall | ClosedCall


@dataclass(frozen=True)
class Dependencies:
    """The calls of its turn that a call needs, and whether another one needs it.

    `sources` write what its references name; `earlier_writers`, to its places or the memory.
    """

    sources: list["ToolCall"] = field(default_factory=list, repr=False)
    earlier_writers: list["ToolCall"] = field(default_factory=list, repr=False)
    has_dependents: bool = False

    @property
    def needed(self) -> list["ToolCall"]:
        """Return every call that has to end before it can start, once."""
        return list(dict.fromkeys((*self.sources, *self.earlier_writers)))


class ToolCall:
    """One use of a tool; `hook_uses` numbers the activities that run for it besides its own."""

    def __init__(self, proposed: ProposedCall) -> None:
        self.proposed = proposed
        self.id = proposed.proposal.id
        # The tool's name as the model wrote it.
        self.name = proposed.proposal.tool
        self.label = (proposed.tool and proposed.tool.label) or self.name
        self.stage = CallStage.PROPOSED
        self.dependencies = Dependencies()
        self.hook_uses = Counter[str]()
        self._keep(proposed)

    @cached_property
    def tool(self) -> ResolvedTool:
        """Return the tool, or raise `IllegalTransition` if the run has no such tool."""
        if self.proposed.tool is None:
            raise IllegalTransition(f"call {self.id}: there is no tool {self.name}")
        return self.proposed.tool

    @property
    def decided(self) -> DecidedCall:
        """Return the decision on the call; one that has yet to be decided has no attempt."""
        state = self.state
        if isinstance(state, (ExecutedCall, ClosedCall)):
            return (state.executed if isinstance(state, ClosedCall) else state).decided
        return state if isinstance(state, DecidedCall) else DecidedCall(self.prepared)

    @property
    def meta(self) -> MetaProperties:
        return self.prepared.meta

    @property
    def arguments(self) -> dict[str, Any]:
        return self.prepared.arguments

    @property
    def known_arguments(self) -> dict[str, Any]:
        return self.prepared.raw_arguments if self.is_pending else self.arguments

    @property
    def ended(self) -> Final:
        """Return the outcome, or raise `IllegalTransition` if the call has not ended."""
        if (outcome := self.outcome) is None:
            raise IllegalTransition(f"call {self.id} has no outcome: {self.stage.value}")
        return outcome

    @property
    def places(self) -> tuple[Path, ...]:
        output = self.meta.output_path
        return () if output is None else (*output.result, *output.error)

    @property
    def writes(self) -> tuple[tuple[Path, ...], Any]:
        """Return the places that its outcome is written to, and the value."""
        output = self.meta.output_path
        match self.outcome:
            case Succeeded(value, _, _, None) | Answered(value) if output is not None:
                return output.result, value
            case Refused(error) | Failed(error, _) if output is not None:
                return output.error, error.to_json()
            case _:
                return (), None

    @property
    def is_pending(self) -> bool:
        return self.stage is CallStage.PENDING

    @property
    def is_undecided(self) -> bool:
        return self.stage in (CallStage.PROPOSED, CallStage.PENDING)

    @property
    def is_counted(self) -> bool:
        """Return whether it counts against its tool's limits."""
        return self.is_pending or self.prepared.visible_data is not None

    @property
    def is_queued(self) -> bool:
        return self.stage is CallStage.QUEUED

    @property
    def is_running(self) -> bool:
        return self.stage is CallStage.RUNNING

    @property
    def is_unsure(self) -> bool:
        return self.stage is CallStage.UNSURE

    @property
    def has_ended(self) -> bool:
        return isinstance(self.state, (ExecutedCall, ClosedCall))

    @property
    def is_reviewed(self) -> bool:
        return self.has_ended and self.stage is not CallStage.ENDED

    @property
    def result_published(self) -> bool:
        """Return whether calls that depend on it may read its result, or it will have none."""
        is_published = self.stage in (CallStage.PUBLISHED, CallStage.CLOSED)
        return is_published or isinstance(self.outcome, Refused | Stopped)

    @property
    def is_closed(self) -> bool:
        return isinstance(self.state, ClosedCall)

    @property
    def is_decidable(self) -> bool:
        """Return whether every call that it reads a result of has ended."""
        return all(other.result_published for other in self.dependencies.sources)

    @property
    def open_dependencies(self) -> list["ToolCall"]:
        return [other for other in self.dependencies.needed if not other.result_published]

    def move(self, event: CallEvent, to: CallState) -> None:
        """Move to the state that follows from an event, or raise `IllegalTransition`."""
        stage = TRANSITIONS.get((self.stage, event))
        if stage is None:
            raise IllegalTransition(f"call {self.id} is {self.stage.value}: {event.value}")
        self.stage = stage
        self._keep(to)

    def end(self, outcome: Final) -> None:
        self.move(CallEvent.HAS_OUTCOME, ExecutedCall(self.decided, outcome))

    def revise(self, to: PreparedCall | DecidedCall) -> None:
        """Replace what is known of a call that has not ended, without an event."""
        if self.has_ended:
            raise IllegalTransition(f"call {self.id} has ended")
        if isinstance(self.state, DecidedCall) and isinstance(to, PreparedCall):
            to = replace(self.state, prepared=to)
        self._keep(to)

    def edit(self, arguments: dict[str, Any], by: str | None) -> None:
        """Replace the arguments by a person's; they are literal if the person saw no reference."""
        is_literal = self.prepared.is_literal or not self.is_pending
        new = replace(self.prepared, raw_arguments=arguments, arguments=arguments)
        self.revise(replace(new, is_literal=is_literal, edited_by=by))

    def depend(self, on: Dependencies) -> None:
        self.dependencies = on

    def _keep(self, state: CallState) -> None:
        self.state: CallState = state
        self.prepared: PreparedCall = state.prepared
        self.outcome: Final | None = state.outcome

    def number_hook_use(self, name: str) -> int:
        """Count a use of a hook, and return its number, from 1."""
        self.hook_uses[name] += 1
        return self.hook_uses[name]

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
`ExecutedCall` and `ClosedCall` are frozen, and each has all of the former. An event without a cell,
or with a value of another type than `STATES` has for the stage, is an `IllegalTransition`. Only
`execution/lifecycle.py`, which decides what a call does next, compares stages too.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from holdfast.schemas.internal.mcp_input import NO_EXCHANGE, McpExchange
from holdfast.schemas.message import AskedCall
from holdfast.schemas.reference import OutputPath, Path
from holdfast.schemas.run import CallApprover
from holdfast.schemas.tool import EACH, OutputMethod, ResolvedTool
from holdfast.validation.arguments import InvalidArguments
from holdfast.workflows.engine.call import outcomes
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


_UNDECIDED = (CallStage.PROPOSED, CallStage.PENDING)
_UNSTARTED = (*_UNDECIDED, CallStage.WAITING, CallStage.QUEUED)
_OPEN = (*_UNSTARTED, CallStage.RUNNING, CallStage.UNSURE)
_REVIEWED = (CallStage.REVIEWED, CallStage.PUBLISHED)
# Each event with the stage that follows, and the stages in which it may come.
_MOVES: dict[tuple[CallEvent, CallStage], tuple[CallStage, ...]] = {
    (CallEvent.POSTPONED, CallStage.PENDING): (CallStage.PROPOSED, CallStage.WAITING),
    # Of a call in `waiting`, again: the token of the principal has expired.
    (CallEvent.ASKED, CallStage.WAITING): _OPEN,
    (CallEvent.ENQUEUED, CallStage.QUEUED): (*_UNDECIDED, CallStage.WAITING),
    (CallEvent.STARTED, CallStage.RUNNING): (*_UNSTARTED, CallStage.UNSURE),
    (CallEvent.OUTCOME_LOST, CallStage.UNSURE): (CallStage.RUNNING,),
    (CallEvent.HAS_OUTCOME, CallStage.ENDED): _OPEN,
    (CallEvent.RESULT_REVIEWED, CallStage.REVIEWED): (CallStage.ENDED,),
    (CallEvent.RESULT_PUBLISHED, CallStage.PUBLISHED): (CallStage.REVIEWED,),
    # A refused call has no result to review; a result is published if another call needs it.
    (CallEvent.RESULT_LOGGED, CallStage.CLOSED): (CallStage.ENDED, *_REVIEWED),
}
TRANSITIONS = {(stage, event): to for (event, to), stages in _MOVES.items() for stage in stages}


class IllegalTransition(RuntimeError):
    """A run or a call was used in a way that its state does not allow."""


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
    is_item: bool = False  # of a loop, which is a call with `_each`


@dataclass(frozen=True)
class PreparedCall:
    """A call with its meta-properties and arguments, as far as they are known.

    `raw_arguments` hold references, unless the call `is_literal`; `arguments` hold their values.
    The call is `resolved_late` if they were resolved after it was pending and no person has seen
    them since, and `is_counted` against `_limits.perRun`. It `is_approved` if the approval of its
    plan, or of an edit, covers it; arguments that the approvers have not seen have to fit the
    schema `bound`. Its `approver` has approved these arguments, by `decision`, which is in words.
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
    is_counted: bool = False
    edited_by: str | None = None
    is_approved: bool = False
    approver: CallApprover | None = None
    decision: str = ""
    bound: dict[str, Any] | None = None

    def covered(self, *, is_approved: bool, approver: CallApprover | None = None) -> "PreparedCall":
        """Return the call as an approval of its plan, or of a person's edit, covers it."""
        approver = (approver or self.approver) if is_approved else None
        return replace(self, is_approved=is_approved, approver=approver)


@dataclass(frozen=True)
class DecidedCall:
    """A call that people are asked about, or that `started_at` a time.

    `unknown_attempts` are such times, of attempts whose outcome is unknown.
    """

    prepared: PreparedCall
    started_at: str = ""
    unknown_attempts: tuple[str, ...] = ()
    mcp: McpExchange = NO_EXCHANGE

    @property
    def has_run(self) -> bool:
        """Return whether an attempt was lost, or its MCP server has required input."""
        return bool(self.unknown_attempts or self.mcp.forms)


@dataclass(frozen=True)
class ExecutedCall:
    """A call with its outcome, which the hooks `_after` may yet replace."""

    decided: DecidedCall
    outcome: outcomes.Final

    @property
    def prepared(self) -> PreparedCall:
        return self.decided.prepared


@dataclass(frozen=True)
class ClosedCall(ExecutedCall):
    """A call whose result is in the log."""


CallState = PreparedCall | DecidedCall | ExecutedCall
# What is known of a call in each stage.
STATES: dict[CallStage, type[CallState]] = {
    **dict.fromkeys(_OPEN, DecidedCall),
    **dict.fromkeys(_UNDECIDED, PreparedCall),
    **dict.fromkeys((CallStage.ENDED, *_REVIEWED), ExecutedCall),
    CallStage.CLOSED: ClosedCall,
}


@dataclass(frozen=True)
class Dependencies:
    """The calls of its turn that a call needs, and whether another one needs it.

    `sources` write what its references name; `earlier_writers`, to its places or the memory.
    `needed` are both, each once: they have to end before it can start.
    """

    sources: list["ToolCall"] = field(default_factory=list, repr=False)
    earlier_writers: list["ToolCall"] = field(default_factory=list, repr=False)
    needed: list["ToolCall"] = field(default_factory=list, repr=False)
    has_dependents: bool = False


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
        # The calls for the items of a loop, once its list is known.
        self.items: Sequence[ToolCall] = ()
        self.hook_uses = Counter[str]()
        self._keep(PreparedCall(proposed, proposed.is_literal))

    @cached_property
    def tool(self) -> ResolvedTool:
        """Return the tool, or raise `IllegalTransition` if the run has no such tool."""
        if self.proposed.tool is None:
            raise IllegalTransition(f"call {self.id}: there is no tool {self.name}")
        return self.proposed.tool

    @property
    def is_loop(self) -> bool:
        return EACH in self.prepared.raw_arguments and self.tool.each

    @property
    def open_items(self) -> list["ToolCall"]:
        return [item for item in self.items if not item.has_ended]

    @property
    def decided(self) -> DecidedCall:
        """Return the decision on the call; one that has yet to be decided has no attempt."""
        state = self.state
        if isinstance(state, ExecutedCall):
            return state.decided
        return state if isinstance(state, DecidedCall) else DecidedCall(self.prepared)

    @property
    def known_arguments(self) -> dict[str, Any]:
        return self.prepared.raw_arguments if self.is_pending else self.arguments

    @property
    def ended(self) -> outcomes.Final:
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
            case outcomes.Succeeded(value, _, _, None) | outcomes.Answered(value) if (
                output is not None
            ):
                return output.result, value
            case outcomes.Refused(error) | outcomes.Failed(error, _) if output is not None:
                return output.error, error.to_json()
            case _:
                return (), None

    @property
    def is_pending(self) -> bool:
        return self.stage is CallStage.PENDING

    @property
    def is_undecided(self) -> bool:
        return self.stage in _UNDECIDED

    @property
    def is_running(self) -> bool:
        return self.stage is CallStage.RUNNING

    @property
    def has_ended(self) -> bool:
        return self.outcome is not None

    @property
    def is_reviewed(self) -> bool:
        return self.stage in (*_REVIEWED, CallStage.CLOSED)

    @property
    def result_published(self) -> bool:
        """Return whether calls that depend on it may read its result, or it will have none."""
        is_published = self.stage in (CallStage.PUBLISHED, CallStage.CLOSED)
        return is_published or isinstance(self.outcome, outcomes.Refused | outcomes.Stopped)

    @property
    def is_closed(self) -> bool:
        return self.stage is CallStage.CLOSED

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
        if stage is None or type(to) is not STATES[stage]:
            raise IllegalTransition(f"call {self.id} is {self.stage.value}: {event.value}")
        self.stage = stage
        self._keep(to)

    def end(self, outcome: outcomes.Final) -> None:
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

    def expand(self, items: Sequence["ToolCall"]) -> None:
        self.items = items

    def depend(self, on: Dependencies) -> None:
        self.dependencies = on

    def _keep(self, state: CallState) -> None:
        self.state = state
        self.prepared = known = state if isinstance(state, PreparedCall) else state.prepared
        self.meta, self.arguments = known.meta, known.arguments
        self.outcome = state.outcome if isinstance(state, ExecutedCall) else None

    def number_hook_use(self, name: str) -> int:
        """Count a use of a hook, and return its number, from 1."""
        self.hook_uses[name] += 1
        return self.hook_uses[name]


@dataclass
class Turn:
    """The calls of one answer, in source order; people decide on all calls of a plan at once."""

    number: int
    calls: list[ToolCall]
    is_plan: bool = False

    @property
    def executed_calls(self) -> list[ToolCall]:
        """List the calls that are executed: of a loop, those for its items."""
        return [one for call in self.calls for one in call.items or (call,)]

    @property
    def is_sequential(self) -> bool:
        """Return whether the calls run one at a time: one sequential tool makes the turn so."""
        return any(call.proposed.tool and call.proposed.tool.sequential for call in self.calls)

    @property
    def decisive_call(self) -> ToolCall:
        """Return the call whose outcome is that of a run without a model.

        The first that stopped the run, or that failed other than by the failure of another one; or
        else the last.
        """
        stopped = [call for call in self.calls if isinstance(call.outcome, outcomes.Stopped)]
        failed = [call for call in self.calls if outcomes.error_of(call.outcome) is not None]
        causes = [
            call for call in failed if not any(one in failed for one in call.dependencies.sources)
        ]
        return next(iter((*stopped, *causes, *failed)), self.calls[-1])

    @property
    def requests_stop(self) -> bool:
        """Return whether every call succeeded and every result requests the end of the run."""
        return outcomes.all_request_stop([call.outcome for call in self.calls])

    @property
    def stop_message(self) -> str | None:
        """Return the message of the first activity that stopped the run, if any did."""
        for call in self.executed_calls:
            if isinstance(call.outcome, outcomes.Stopped):
                return call.outcome.message or f"{call.name} stopped the run"
        return None

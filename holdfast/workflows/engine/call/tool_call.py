"""One tool call: its stages, what each phase adds to it, and its outcome.

    proposed ─► pending ─► waiting ─► queued ─► running ─► ended
        │          │          │         │          │
        │          │          │         │          └─► unsure ─► running again, or ended
        └──────────┴──────────┴─────────┴─► ended (refused before it ran)

A call is pending while it needs the result of another call of its turn, waiting while people
decide, and queued while an earlier call has yet to write to the same place. Just before it starts,
it goes (back) to waiting if the token of the run's principal has expired; so does a running call
whose MCP server requires a person's input. Results are logged in
source order: when the whole turn has ended, or, in a sequential turn, before the next call starts.
Every expected ending is an outcome and a value, not an exception.
"""

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any

from holdfast.schemas.internal.mcp_input import McpContinuation, McpInputRequired, McpTask
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
    error_of,
)
from holdfast.workflows.engine.state.data import MISSING, Data

MAX_STANDING_CALLS = 256


class CallStage(Enum):
    """The stage of a call."""

    PROPOSED = "proposed"
    PENDING = "pending"
    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    UNSURE = "unsure"
    ENDED = "ended"


_FROM_DECIDED = (CallStage.QUEUED, CallStage.RUNNING, CallStage.ENDED)
TRANSITIONS = {
    CallStage.PROPOSED: (CallStage.PENDING, CallStage.WAITING, *_FROM_DECIDED),
    CallStage.PENDING: (CallStage.WAITING, *_FROM_DECIDED),
    CallStage.WAITING: (CallStage.PENDING, CallStage.WAITING, *_FROM_DECIDED),
    CallStage.QUEUED: (CallStage.WAITING, CallStage.RUNNING, CallStage.ENDED),
    CallStage.RUNNING: (CallStage.WAITING, CallStage.UNSURE, CallStage.ENDED),
    CallStage.UNSURE: (CallStage.WAITING, CallStage.RUNNING, CallStage.ENDED),
    CallStage.ENDED: (),
}


class IllegalTransition(RuntimeError):
    """A call was used in a way that its stage does not allow."""


class ResultStage(IntEnum):
    """The progress of a result: reviewed by hooks, published to calls that need it, logged."""

    ENDED = 0
    REVIEWED = 1
    PUBLISHED = 2
    CLOSED = 3


@dataclass(frozen=True)
class MetaProperties:
    """The properties of a call besides the arguments of its tool."""

    reasoning: str | None = None
    instance: str | None = None
    output_path: OutputPath | None = None
    output_method: OutputMethod = "set"
    scopes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Dependencies:
    """The calls of its turn that a call needs, and whether another one needs it.

    `sources` write what its references name; `earlier_writers` write to its places before it, or
    use the memory before it.
    """

    sources: list["ToolCall"] = field(default_factory=list, repr=False)
    earlier_writers: list["ToolCall"] = field(default_factory=list, repr=False)
    has_dependents: bool = False

    @property
    def needed(self) -> list["ToolCall"]:
        """Return every call that has to end before it can start, once."""
        return list(dict.fromkeys((*self.sources, *self.earlier_writers)))


@dataclass(eq=False)
class ToolCall:
    """One use of a tool, from a model's proposal to its result.

    `unreadable` is the reason why the arguments are not a JSON object. `raw_arguments` hold
    references, unless the call `is_literal`; `arguments` hold their values. A call is
    `resolved_late` if its arguments were resolved after it was pending and no person has
    seen them since; it is `is_approved` if the approval of its plan, or of an edit, covers it. Its
    `approver` has approved these arguments. It `is_counted` if it counts against its tool's limits.
    It `has_run` once it was started.
    `required` are the forms that its MCP server returned last, of `forms_required` in all.
    `unknown_attempts` has the start of each attempt whose outcome is unknown.
    """

    proposal: AskedCall
    found_tool: ResolvedTool | None = None
    unreadable: InvalidArguments | None = None
    is_literal: bool = False
    meta: MetaProperties = field(default_factory=MetaProperties)
    raw_arguments: dict[str, Any] = field(default_factory=dict)
    reference_count: int = 0
    model_result: Any = MISSING
    dependencies: Dependencies = field(default_factory=Dependencies, repr=False)
    arguments: dict[str, Any] = field(default_factory=dict)
    visible_data: Data | None = field(default=None, repr=False)
    hook_uses: dict[str, int] = field(default_factory=dict)
    edited_by: str | None = None
    is_counted: bool = False
    is_approved: bool = False
    approver: CallApprover | None = None
    bound: dict[str, Any] | None = None
    stage: CallStage = CallStage.PROPOSED
    has_run: bool = False
    resolved_late: bool = False
    started_at: str = ""
    unknown_attempts: list[str] = field(default_factory=list)
    forms_required: int = 0
    required: McpInputRequired | None = None
    continuation: McpContinuation | None = None
    task: McpTask | None = None
    outcome: Final | None = None
    result_stage: ResultStage = ResultStage.ENDED

    @property
    def id(self) -> str:
        return self.proposal.id

    @property
    def name(self) -> str:
        """Return the tool's name as the model wrote it."""
        return self.proposal.tool

    @property
    def tool(self) -> ResolvedTool:
        """Return the tool, or raise `IllegalTransition` if the run has no such tool."""
        if self.found_tool is None:
            raise IllegalTransition(f"call {self.id}: there is no tool {self.name}")
        return self.found_tool

    @property
    def label(self) -> str:
        return (self.found_tool and self.found_tool.label) or self.name

    @property
    def ended(self) -> Final:
        """Return the outcome, or raise `IllegalTransition` if the call has not ended."""
        if self.outcome is None:
            raise IllegalTransition(f"call {self.id} has no outcome: {self.stage.value}")
        return self.outcome

    @property
    def result_published(self) -> bool:
        """Return whether calls that depend on it may read its result."""
        has_none = isinstance(self.outcome, Refused | Stopped)
        return has_none or self.result_stage >= ResultStage.PUBLISHED

    @property
    def is_closed(self) -> bool:
        return self.result_stage is ResultStage.CLOSED

    @property
    def is_decidable(self) -> bool:
        """Return whether every call that it reads a result of has ended."""
        return all(other.result_published for other in self.dependencies.sources)

    @property
    def open_dependencies(self) -> list["ToolCall"]:
        return [other for other in self.dependencies.needed if not other.result_published]

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

    def move(self, stage: CallStage) -> None:
        """Move to another stage, or raise `IllegalTransition`."""
        if stage not in TRANSITIONS[self.stage]:
            raise IllegalTransition(f"call {self.id}: {self.stage.value} -> {stage.value}")
        self.stage = stage
        self.has_run |= stage is CallStage.RUNNING
        if stage in (CallStage.PENDING, CallStage.WAITING):
            self.resolved_late = stage is CallStage.PENDING
        elif stage is CallStage.UNSURE:
            self.unknown_attempts.append(self.started_at)
            self.continuation = self.task = None

    def start(self, at: str) -> None:
        self.move(CallStage.RUNNING)
        self.started_at = at

    def require(self, required: McpInputRequired) -> None:
        """Wait for a person's answer to forms, and count these."""
        self.move(CallStage.WAITING)
        self.required, self.continuation = required, None
        self.forms_required += 1

    def answer(self, answer: Any) -> None:
        """Set the answer that continues the call."""
        assert self.required is not None  # the question was on it
        given = self.required.answered(answer, may_repeat=not self.tool.once)
        self.continuation = given
        if self.task is not None:
            answered = [*self.task.answered, *given.responses]
            update = {"responses": given.responses, "answered": answered}
            self.task = self.task.model_copy(update=update)

    def follow(self, task: McpTask | None) -> None:
        self.task = task

    def end(self, outcome: Final) -> None:
        self.move(CallStage.ENDED)
        self.outcome = outcome

    def annotate(self, meta: MetaProperties, model_result: Any = MISSING) -> None:
        self.meta, self.model_result = meta, model_result

    def drop_model_result(self) -> None:
        """Forget the result that the model proposed, because the arguments changed since."""
        self.model_result = MISSING

    def set_raw_arguments(self, arguments: dict[str, Any], reference_count: int) -> None:
        """Set the arguments before their references are resolved, and count these."""
        self.raw_arguments, self.reference_count = arguments, reference_count

    def set_arguments(self, arguments: dict[str, Any], visible_data: Data | None = None) -> None:
        """Set the arguments that the tool receives, and the data that they were resolved in."""
        self.arguments, self.visible_data = arguments, visible_data or self.visible_data

    def edit(self, arguments: dict[str, Any], edited_by: str | None) -> None:
        """Replace the arguments by a person's; they are literal if the person saw no reference."""
        self.is_literal = self.is_literal or self.stage is not CallStage.PENDING
        self.raw_arguments = self.arguments = arguments
        self.edited_by = edited_by

    def depend(self, on: Dependencies) -> None:
        self.dependencies = on

    def number_hook_use(self, name: str) -> int:
        """Count a use of a hook, and return its number, from 1."""
        self.hook_uses[name] = self.hook_uses.get(name, 0) + 1
        return self.hook_uses[name]

    def set_bound(self, bound: dict[str, Any] | None) -> None:
        """Set the schema that resolved arguments have to fit, for the plan's approval to hold."""
        self.bound = bound

    def set_approver(self, approver: CallApprover) -> None:
        self.approver = approver

    def cover(self, *, is_approved: bool, approver: CallApprover | None = None) -> None:
        """Set whether an approval of its plan, or of a person's edit, covers the call."""
        self.is_approved = is_approved
        self.approver = (approver or self.approver) if is_approved else None

    def mark_counted(self, *, is_counted: bool) -> None:
        self.is_counted = is_counted

    def advance_result(self, stage: ResultStage, outcome: Final | None = None) -> None:
        """Record the progress of the result, and the outcome that replaces it, if any."""
        self.result_stage = max(self.result_stage, stage)
        self.outcome = outcome or self.outcome
        if self.is_closed:
            self.visible_data = None


@dataclass
class Turn:
    """The calls of one answer, in source order; people decide on all calls of a plan at once."""

    number: int
    calls: list[ToolCall]
    is_plan: bool = False

    @property
    def is_sequential(self) -> bool:
        """Return whether the calls run one at a time: one sequential tool makes the turn so."""
        return any(call.found_tool and call.found_tool.sequential for call in self.calls)

    def describe_calls(self) -> list[dict[str, str]]:
        """List the stage of each call as JSON, at most `MAX_STANDING_CALLS`."""
        return [
            {"callId": call.id, "tool": call.name, "stage": call.stage.value}
            for call in self.calls[:MAX_STANDING_CALLS]
        ]

    @property
    def decisive_call(self) -> ToolCall:
        """Return the call whose outcome is that of a run without a model.

        The first that stopped the run, or that failed other than by the failure of another one; or
        else the last.
        """
        stopped = [call for call in self.calls if isinstance(call.outcome, Stopped)]
        failed = [call for call in self.calls if error_of(call.outcome) is not None]
        causes = [
            call for call in failed if not any(one in failed for one in call.dependencies.sources)
        ]
        return next(iter((*stopped, *causes, *failed)), self.calls[-1])

    @property
    def requests_stop(self) -> bool:
        """Return whether every call succeeded and every result requests the end of the run."""
        return bool(self.calls) and all(
            isinstance(call.outcome, Succeeded) and call.outcome.terminate for call in self.calls
        )

    @property
    def stop_message(self) -> str | None:
        """Return the message of the first activity that stopped the run, if any did."""
        for call in self.calls:
            if isinstance(call.outcome, Stopped):
                return call.outcome.message or f"{call.name} stopped the run"
        return None

"""One turn's calls, and where each of them stands.

    proposed ─► pending ─► waiting ─► queued ─► running ─► ended
        │          │          │         │          │
        │          │          │         │          └─► unsure ─► running again, or ended
        └──────────┴──────────┴─────────┴─► ended (refused before it was carried out)

A call is pending while another of its turn has to write what it refers to, waiting while people
decide, and queued while another has to write first where it does; most are none of these. A call
moves along these lines alone; another move is a mistake of ours and raises. Whatever ended first,
ends are told in source order: when the whole turn is done, or, in a sequential turn, each before
the next begins.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from holdfast.schemas.internal.solution import WrittenCall
from holdfast.schemas.message import AskedCall
from holdfast.schemas.reference import OutputPath, Path
from holdfast.schemas.tool import OutputMethod, Tool
from holdfast.workflows.engine.call.outcome import (
    Answered,
    Failed,
    Final,
    Refused,
    Stopped,
    Succeeded,
)
from holdfast.workflows.engine.state.data import MISSING, Data

MAX_STANDING_CALLS = 256


class CallStage(Enum):
    """Where a call stands."""

    PROPOSED = "proposed"
    PENDING = "pending"
    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    UNSURE = "unsure"
    ENDED = "ended"


TRANSITIONS = {
    CallStage.PROPOSED: (
        CallStage.PENDING,
        CallStage.WAITING,
        CallStage.QUEUED,
        CallStage.RUNNING,
        CallStage.ENDED,
    ),
    CallStage.PENDING: (CallStage.WAITING, CallStage.QUEUED, CallStage.RUNNING, CallStage.ENDED),
    CallStage.WAITING: (CallStage.QUEUED, CallStage.RUNNING, CallStage.ENDED),
    CallStage.QUEUED: (CallStage.RUNNING, CallStage.ENDED),
    CallStage.RUNNING: (CallStage.UNSURE, CallStage.ENDED),
    CallStage.UNSURE: (CallStage.RUNNING, CallStage.ENDED),
    CallStage.ENDED: (),
}


class IllegalTransition(RuntimeError):
    """A call was moved where it cannot go from where it stands."""


@dataclass(eq=False)
class ToolCall:
    """One use of a tool: as it was written, as it would be carried out, and how it ended.

    `given` are its arguments with the `references` in them, so many (`literal`: as they are, with
    no reference or meta-property in them), `arguments` what they stand for, `answer` what the model
    itself gave as the result. They are known `late` where it had to wait for them. `sources` are
    the calls of its turn whose writes it reads, `earlier` those that write where it does and
    come first; `sees` is the data that it reads, once all these have ended. `awaited` says that
    another call waits for this one, which is `handed_on` to it when its hooks have `reviewed` the
    result. One that is `planned` was checked and told as a part of its turn's plan; it is `covered`
    where the approval of the plan is its own as well.
    """

    id: str
    proposal: AskedCall
    written: WrittenCall
    tool: Tool | None = None
    raw_arguments: dict[str, Any] = field(default_factory=dict)
    reference_count: int = 0
    is_literal: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)
    model_result: Any = MISSING
    instance: str | None = None
    reasoning: str | None = None
    output_path: OutputPath | None = None
    output_method: OutputMethod = "set"
    scopes: list[str] = field(default_factory=list)
    edited_by: str | None = None
    sources: list["ToolCall"] = field(default_factory=list, repr=False)
    earlier_writers: list["ToolCall"] = field(default_factory=list, repr=False)
    visible_data: Data | None = field(default=None, repr=False)
    hook_uses: dict[str, int] = field(default_factory=dict)
    stage: CallStage = CallStage.PROPOSED
    outcome: Final | None = None
    is_counted: bool = False
    resolved_late: bool = False
    is_planned: bool = False
    covered_by_plan: bool = False
    has_dependents: bool = False
    is_reviewed: bool = False
    result_published: bool = False
    is_closed: bool = False
    unknown_outcomes: int = 0

    def move(self, stage: CallStage) -> None:
        """Go on to another stage.

        Raises:
            IllegalMove: there is no line to it.
        """
        if stage not in TRANSITIONS[self.stage]:
            raise IllegalTransition(f"call {self.id}: {self.stage.value} -> {stage.value}")
        self.stage = stage

    def end(self, outcome: Final) -> None:
        """Give the call its one result."""
        self.move(CallStage.ENDED)
        self.outcome = outcome
        self.result_published = isinstance(outcome, Refused | Stopped)

    @property
    def is_decidable(self) -> bool:
        """Whether no other call has to end before it is decided on."""
        return all(other.result_published for other in self.sources)

    @property
    def is_startable(self) -> bool:
        """Whether no other call has to end before it is carried out."""
        return self.is_decidable and all(other.result_published for other in self.earlier_writers)

    @property
    def open_dependencies(self) -> list["ToolCall"]:
        """The calls that have to end before it is carried out."""
        both = dict.fromkeys((*self.sources, *self.earlier_writers))
        return [other for other in both if not other.result_published]

    @property
    def name(self) -> str:
        """The tool's name, as it was written: the tool may not exist."""
        return self.written.tool


@dataclass
class Turn:
    """The calls of one answer, in source order. Where the turn is `lazy`, they are a plan: people
    decide on all of them before any is begun."""

    number: int
    calls: list[ToolCall]
    is_plan: bool = False

    @property
    def is_sequential(self) -> bool:
        """Whether the calls are carried out one at a time: one such tool makes the turn so."""
        return any(call.tool is not None and call.tool.sequential for call in self.calls)

    def describe_calls(self) -> list[dict[str, str]]:
        """Where each call stands, for people: its result is told when all have ended."""
        return [
            {"callId": call.id, "tool": call.name, "stage": call.stage.value}
            for call in self.calls[:MAX_STANDING_CALLS]
        ]

    @property
    def requests_stop(self) -> bool:
        """Whether every call was carried out and every result asks for the run to stop."""
        return bool(self.calls) and all(
            isinstance(call.outcome, Succeeded) and call.outcome.terminate for call in self.calls
        )

    @property
    def stop_message(self) -> str | None:
        """What the first activity that ended the run said, where one did."""
        for call in self.calls:
            if isinstance(call.outcome, Stopped):
                return call.outcome.message or f"{call.name} stopped the run"
        return None


def writes_of(call: ToolCall, outcome: Final | None) -> tuple[tuple[Path, ...], Any]:
    """The places that a call's end is written to, and what is written there."""
    if call.output_path is None:
        return (), None
    match outcome:
        case Succeeded(value, _, _, None) | Answered(value):
            return call.output_path.result, value
        case Refused(error) | Failed(error, _):
            return call.output_path.error, error.to_json()
        case _:
            return (), None


def error_of(outcome: Final) -> Any:
    """The error of an outcome, where it is one."""
    match outcome:
        case Refused(error) | Failed(error, _):
            return error
        case Succeeded() | Answered() | Stopped():
            return None

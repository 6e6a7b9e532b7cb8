"""The phases of a run: what it does now, and which event moves it to which phase.

    ready ─► requesting ─► ready       the model, or a hook around a request to it, answers
      ├────► calling ────► ready       the calls of an answer run, each to its one result
      ├────► extending ──► ready       people extend a budget, or do not
      └────► answered ───► ready       a message came before the end
                 ├─► idle ─► answered  a conversation waits for its next message
                 └─► ended             with a result; with an error from every phase

`TRANSITIONS` is the whole machine. Each module whose events move a run lists them in its header
under `Events`; no other module knows phases. A phase has one step, of a type in `STEPS`, which the
workflow executes; in `ready` and `answered` it has none, and `AgentRun.proceed` moves on. A single
call is `ready`, `calling`, and `ended`.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from types import NoneType

from holdfast.schemas.base import Duration
from holdfast.schemas.internal.model_request import ConversationPointer
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import Ended, RunResult, RunStatus
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.call.activities import Hook
from holdfast.workflows.engine.call.states import IllegalTransition, Turn
from holdfast.workflows.engine.model.answer import ParsedAnswer


class RunPhase(StrEnum):
    """What a run does now."""

    READY = "ready"
    REQUESTING = "requesting"
    CALLING = "calling"
    EXTENDING = "extending"
    ANSWERED = "answered"
    IDLE = "idle"
    ENDED = "ended"


class RunEvent(StrEnum):
    """What moves a run to another phase."""

    REQUESTED = "requested"
    REQUEST_CLOSED = "request closed"
    CALLS_PROPOSED = "calls proposed"
    CALLS_CLOSED = "calls closed"
    EXTENSION_REQUESTED = "extension requested"
    EXTENSION_DECIDED = "extension decided"
    CONCLUDED = "concluded"
    CONTINUED = "continued"
    MESSAGE_AWAITED = "message awaited"
    MESSAGE_ARRIVED = "message arrived"
    FINISHED = "finished"
    FAILED = "failed"


TRANSITIONS: dict[tuple[RunPhase, RunEvent], RunPhase] = {
    (RunPhase.READY, RunEvent.REQUESTED): RunPhase.REQUESTING,
    (RunPhase.REQUESTING, RunEvent.REQUEST_CLOSED): RunPhase.READY,
    (RunPhase.READY, RunEvent.CALLS_PROPOSED): RunPhase.CALLING,
    (RunPhase.CALLING, RunEvent.CALLS_CLOSED): RunPhase.READY,
    (RunPhase.READY, RunEvent.EXTENSION_REQUESTED): RunPhase.EXTENDING,
    (RunPhase.EXTENDING, RunEvent.EXTENSION_DECIDED): RunPhase.READY,
    (RunPhase.READY, RunEvent.CONCLUDED): RunPhase.ANSWERED,
    (RunPhase.ANSWERED, RunEvent.CONTINUED): RunPhase.READY,
    (RunPhase.ANSWERED, RunEvent.MESSAGE_AWAITED): RunPhase.IDLE,
    (RunPhase.IDLE, RunEvent.MESSAGE_ARRIVED): RunPhase.ANSWERED,
    # Without a model, the result of the last call is the end.
    (RunPhase.READY, RunEvent.FINISHED): RunPhase.ENDED,
    (RunPhase.ANSWERED, RunEvent.FINISHED): RunPhase.ENDED,
    # A run can be cancelled in each phase.
    **{(phase, RunEvent.FAILED): RunPhase.ENDED for phase in RunPhase if phase != RunPhase.ENDED},
}


@dataclass(frozen=True)
class AskModel:
    """Make one request to the model, with the log up to the pointer, after a pause if any."""

    pointer: ConversationPointer
    pause: timedelta | None = None


@dataclass(frozen=True)
class RunCalls:
    """Run the calls of a turn; `answer` has the output that the model gave beside them, if any."""

    turn: Turn
    answer: ParsedAnswer | None = None


@dataclass(frozen=True)
class AskPeople:
    """Wait until people have extended a budget or ended the run; `budget` is its label."""

    question: Question
    budget: str


@dataclass(frozen=True)
class AwaitMessage:
    """Wait for the next message of a conversation, or until it is closed."""

    idle_timeout: Duration | None


@dataclass(frozen=True)
class Finish:
    """The run ends with a result."""

    result: RunResult

    @property
    def status(self) -> RunStatus:
        return self.result.status


@dataclass(frozen=True)
class Fail:
    """The run ends with an error."""

    code: str
    message: str

    @property
    def status(self) -> RunStatus:
        return "cancelled" if self.code == ErrorCode.CANCELLED else "failed"


Step = AskModel | Hook | RunCalls | AskPeople | AwaitMessage | Finish | Fail


# The step of each phase.
STEPS: dict[RunPhase, tuple[type, ...]] = {
    RunPhase.READY: (NoneType,),
    RunPhase.REQUESTING: (AskModel, Hook),
    RunPhase.CALLING: (RunCalls,),
    RunPhase.EXTENDING: (AskPeople,),
    RunPhase.ANSWERED: (NoneType,),
    RunPhase.IDLE: (AwaitMessage,),
    RunPhase.ENDED: (Finish, Fail),
}


class RunPhases:
    """The phase of one run.

    `step` is its step, or None if the run has to proceed first; `turn` the turn whose calls run
    now; `end` the step that ended the run. `conclusion` is how the run ends, unless a message comes
    before.
    """

    def __init__(self, conclusion: Ended | None = None) -> None:
        self._phase = RunPhase.READY if conclusion is None else RunPhase.ANSWERED
        self.conclusion = conclusion
        self.step: Step | None = None
        self.turn: Turn | None = None
        self.end: Finish | Fail | None = None

    @property
    def is_at_rest(self) -> bool:
        """Return whether nothing is executed: no request, call or question is open."""
        return self.step is None or isinstance(self.step, AwaitMessage)

    def move(
        self, event: RunEvent, step: Step | None = None, *, conclusion: Ended | None = None
    ) -> None:
        """Move to the phase that follows from an event, or raise `IllegalTransition`.

        A `conclusion` lasts until the run continues.
        """
        phase = TRANSITIONS.get((self._phase, event))
        if phase is None or type(step) not in STEPS[phase]:
            raise IllegalTransition(f"the run is {self._phase.value}: {event.value}")
        self._phase, self.step = phase, step
        self.turn = step.turn if isinstance(step, RunCalls) else None
        self.end = step if isinstance(step, Finish | Fail) else None
        self.conclusion = None if phase is RunPhase.READY else conclusion or self.conclusion

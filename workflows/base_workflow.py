"""What the durable shells share: how people decide, look, and see how things end.

A shell asks the engine what is next, has it done, and tells the engine what came of it. Nothing is
decided here. State is built before a workflow runs, since a signal or an update may arrive first;
validators refuse without a trace; handlers are finished before a run is left.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Generic, Literal, TypeVar

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.base import parse_duration
    from holdfast.schemas.decision import Decision
    from holdfast.schemas.errors import ErrorCode
    from holdfast.schemas.internal.delegate import DelegateNews
    from holdfast.schemas.log_entry import NoticeEntry
    from holdfast.schemas.phrases import nearest, quoted
    from holdfast.schemas.run import PageRequest

from holdfast.workflows.commands import failures, token_verification
from holdfast.workflows.commands.step_executor import StepExecutor
from holdfast.workflows.engine import tool_view
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.question import DecisionRejected
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.log.spans import SpansProgress
from holdfast.workflows.engine.state.data import Data
from holdfast.workflows.engine.state.instances import known
from holdfast.workflows.engine.steps import Fail, Finish, Step
from holdfast.workflows.engine.tool_view import NoSuchTool
from holdfast.workflows.handler_input import (
    MISSING_PAYLOAD,
    NotUnderstoodError,
    fail,
    raw_payload_handler,
    received,
    understood,
)
from holdfast.workflows.publishing.publisher import Publisher
from holdfast.workflows.publishing.trace import Trace
from holdfast.workflows.task_budget import TaskBudget

MAX_UNHEARD = 256
MAX_NOTES = 256

# What a bug or an absurd input can raise ends the run, visibly. Not among them: Temporal's own
# NondeterminismError. A wrong deployment is rolled back, and its runs go on.
FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
)

WorkT = TypeVar("WorkT", bound=ExecutionBase)


class BaseWorkflow(ABC, Generic[WorkT]):
    """One workflow around one `ExecutionBase`: how that begins and goes on, each workflow says
    itself.

    `signals` are those that it listens to.
    """

    signals: ClassVar[Sequence[str]] = (names.APPROVE,)

    def __init__(self) -> None:
        self._desk = PendingApprovals()
        self._thinking = TaskBudget()
        self.trace = Trace()
        # What came before the work was made: decisions, and notes on what was no good.
        self._unheard: list[RawValue] = []
        self._unnoted: list[str] = []
        self._notes = 0
        # How long the history was when people last said something.
        self._heard_at = 0
        self._work: WorkT | None = None
        # Why there is no work, where there will be none: a code, and words.
        self._unbegun: tuple[str, str] | None = None
        self._facts: WorkerFacts | None = None
        self._beginning = ""
        self._reset = False
        # Temporal has no other word for it: one that goes on from an earlier point is to have other
        # random numbers than the one that was there before.
        workflow.register_random_seed_callback(self._was_reset)
        self._showing: Publisher | None = None
        # How far the run before this one has been told as spans.
        self._spans_left: SpansProgress | None = None

    @abstractmethod
    async def _begin(self) -> WorkT:
        """Make the work; `_facts` are set then."""

    @abstractmethod
    async def _take(self, work: WorkT, hands: StepExecutor, step: Step) -> None:
        """Have a step done that is not the end, and tell the work what came of it."""

    async def _next(self, work: WorkT) -> Step:
        """The next step, once nothing stands in its way."""
        return work.next()

    # What people say.

    @workflow.signal(
        name=names.APPROVE,
        description="Decide on a waiting call: what does not fit is ignored. See User Metadata.",
    )
    @raw_payload_handler
    async def approve(self, decision: RawValue = MISSING_PAYLOAD, *_: Any) -> None:
        """Record a decision; one that does not count is noted and ignored."""
        self._listen()
        if self._work is not None:
            await self._hear(self._work, decision)
        elif len(self._unheard) < MAX_UNHEARD:
            self._unheard.append(decision)
        else:
            self._note("a decision was ignored: too many came before the run began")

    @workflow.signal(
        name=names.DELEGATE_WAITS, description="A delegate's own: what waits in it for people"
    )
    @raw_payload_handler
    def delegate_waits(self, news: RawValue = MISSING_PAYLOAD, *_: Any) -> None:
        """Take in what waits in a delegate; what does not fit is nobody's loss, and is ignored."""
        with suppress(ValueError):
            heard = DelegateNews.read(received(news))
            if self._work is not None:
                self._work.delegates.update_pending(heard)
                self._show()

    @workflow.signal(dynamic=True, description="Any other name: it is noted, and ignored")
    def unknown(self, signal: str, _: Sequence[RawValue]) -> None:
        """Note a signal that nobody listens to: who sent it does not learn of it otherwise."""
        mend = nearest(signal, self.signals)
        self._note(f"the signal {quoted(signal)} was ignored: there is none of this name; {mend}")

    @workflow.update(
        name=names.DECIDE,
        description="Decide on a waiting call: what does not fit is refused. See User Metadata.",
    )
    @raw_payload_handler
    async def decide(self, decision: RawValue = MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Count a decision; `schemas.decision.Receipt` says what it came to."""
        self._listen()
        assert self._work is not None  # the validator found the call
        try:
            meant = await token_verification.checked(self._desk, _decision(decision))
            receipt = self._work.decide(meant)
        except token_verification.TokenRejected as error:
            fail(names.INVALID_DECISION, str(error))
        except DecisionRejected as error:
            fail(error.code, str(error))
        self._show()
        return receipt.to_json()

    @decide.validator
    @raw_payload_handler
    def _check_decide(self, decision: RawValue = MISSING_PAYLOAD, *_: Any) -> None:
        self._thinking.refuse()
        try:
            self._thinking.admit(decision, trace=False)
            meant = _decision(decision)
            self._desk.check(meant if meant.token is None else token_verification.as_signed(meant))
        except (NotUnderstoodError, token_verification.TokenRejected) as error:
            fail(names.INVALID_DECISION, str(error))
        except DecisionRejected as error:
            fail(error.code, str(error))

    # What people and the worker ask.

    @workflow.query(
        name=names.STATUS, description="How the run stands: turn, usage, budget, what waits"
    )
    def status(self) -> dict[str, Any]:
        """The run in short."""
        if self._work is None:
            return {
                "status": "running",
                "turn": 0,
                "skill": None,
                "instances": [],
                "pending": [],
                "calls": [],
                "usage": {},
                "budget": {},
                "delegates": [],
            }
        work, meter, turn = self._work, self._work.state.meter, self._work.open_turn
        waiting = [question.to_pending_approval().to_json() for question in self._desk.list_open()]
        return {
            "status": work.status,
            "turn": work.turn_number,
            "skill": work.state.skill,
            "instances": work.state.data.instances(),
            "pending": [
                {key: one[key] for key in ("callId", "kind", "tool", "label")} for one in waiting
            ],
            "calls": [] if turn is None else turn.describe_calls(),
            "usage": meter.usage().model_dump(mode="json", by_alias=True),
            "budget": meter.view(workflow.now()),
            "delegates": [delegate.to_json() for delegate in work.delegates.to_views()],
            "log": {"entries": len(work.state.log), "digest": work.state.log.digest},
        }

    @workflow.query(name=names.APPROVALS, description="The calls that wait for a person's decision")
    def approvals(self) -> list[dict[str, Any]]:
        """Each waiting call, whole; see `schemas.decision.Waiting`."""
        return self._desk.describe_open()

    @workflow.query(name=names.STATE, description="The value that †state reads from")
    @raw_payload_handler
    def state(self, instance: RawValue = MISSING_PAYLOAD, *_: Any) -> Any:
        """The state that is for all, or what `†state` reads in an instance."""
        name, data = received(instance), Data() if self._work is None else self._work.state.data
        if name is not None:
            known(name, data)
        return data.seen("state", name) or {}

    @workflow.query(name=names.TOOL, description="A tool of the run, by its name")
    @raw_payload_handler
    def tool(self, name: RawValue = MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """What a person has to know of a tool whose call waits; see `schemas.tool.ShownTool`."""
        if self._work is None:
            raise NoSuchTool("the run has not begun; ask again in a moment")
        return tool_view.show_tool(received(name), self._work.state).to_json()

    @workflow.query(name=names.CONTEXT, description="The run's log, page by page: {after, limit}")
    @raw_payload_handler
    def context(self, page: RawValue = MISSING_PAYLOAD, *_: Any) -> list[dict[str, Any]]:
        """Entries of the log."""
        want = _page(page)
        return [] if self._work is None else self._work.state.log.records(want.after, want.limit)

    @workflow.query(name=names.EVENTS, description="What happened, by number: {after, limit}")
    @raw_payload_handler
    def events(self, page: RawValue = MISSING_PAYLOAD, *_: Any) -> list[dict[str, Any]]:
        """Events of the log."""
        want = _page(page)
        return [] if self._work is None else self._work.state.log.events(want.after, want.limit)

    def details(self) -> str:
        """What Temporal's UI shows as current details."""
        return self._beginning if self._showing is None else self._showing.details()

    @property
    def turn(self) -> int:
        """The turn that the run is at, for what is logged in it; 0 before its first."""
        return 0 if self._work is None else self._work.turn_number

    # From step to step.

    async def _see_through(self) -> dict[str, Any]:
        """Carry the work from its first step to its end."""
        self._thinking.begin()
        work = await self._started()
        try:
            return await self._live(work)
        except asyncio.CancelledError:
            over = work.last_step
            work.cancel()
            await self._leave()
            if over is not None:  # it comes too late: what is told of the end is how it was
                return _result(over, work)
            raise

    async def _started(self) -> WorkT:
        """The work, with all that came before it; where there is none, who waits for it is told."""
        try:
            work = self._work = await self._begin()
        except (ApplicationError, asyncio.CancelledError, *FAILURES) as error:
            self._unbegun = _why(error)
            await workflow.wait_condition(workflow.all_handlers_finished)
            raise
        assert self._facts is not None  # the work was made
        work.state.was_reset |= self._reset
        self.trace.begin(work, self._facts, self._spans_left)
        self._showing = Publisher(work, self._facts)
        for text in self._unnoted:
            work.state.log.append(NoticeEntry(text=text))
        for decision in self._unheard:
            await self._hear(work, decision)
        return work

    async def _resolve(self, activity: str, request: Any, what: Literal["agent", "tool"]) -> Any:
        """What the worker answers of itself and of the definition that a request asks for."""
        self._beginning = (
            f"The run begins: its {what}'s definition is read. If it has ended so, the tab"
            " **Timeline** says why."
        )
        try:
            return await workflow.execute_local_activity(
                activity,
                request,
                schedule_to_close_timeout=parse_duration("1m"),
                summary=f"Reads the {what}'s definition",
            )
        except FailureError as error:
            if workflow.cancellation_reason() is not None:
                raise asyncio.CancelledError from error
            fail(names.INVALID_REQUEST, failures.failure_of(error).message)

    async def _live(self, work: WorkT) -> dict[str, Any]:
        assert self._facts is not None  # the work has begun
        assert self._showing is not None
        hands = StepExecutor(work, self._facts, self._showing, self.trace)
        while True:
            self._show()
            await self.trace.tell(work)
            step = await self._next(work)
            if isinstance(step, Finish | Fail):
                await self._leave()
                return _result(step, work)
            await self._take(work, hands, step)

    async def _leave(self) -> None:
        """Nothing is left behind: lists and traces show the run as ended, what people are being
        told has a moment to reach them, and handlers finish."""
        self._show()
        assert self._work is not None  # it has begun
        assert self._showing is not None
        await self.trace.tell(self._work)
        await self._showing.last_word()
        await workflow.wait_condition(workflow.all_handlers_finished)

    def _was_reset(self, _: int) -> None:
        """Somebody has had the run go on from here, though it had gone further."""
        self._reset = True
        if self._work is not None:
            self._work.state.was_reset = True

    # Telling.

    def _listen(self) -> None:
        """Remember in which workflow task people say something."""
        self._thinking.hear()
        self._heard_at = workflow.info().get_current_history_length()

    async def _hear(self, work: WorkT, raw: Any) -> None:
        try:
            self._thinking.admit(raw)
            decision = _decision(raw)
        except NotUnderstoodError as error:
            self._note(f"a decision was ignored: {error}")
            return
        if not self._desk.add_early(decision):
            await token_verification.hear(work, decision)
            self._show()

    def _note(self, text: str) -> None:
        """Write down that something was ignored: now, or as soon as there is a log."""
        self._notes += 1
        if self._notes > MAX_NOTES:
            return
        if self._notes == MAX_NOTES:
            text = "something was ignored; what else is, is not noted any more"
        if self._work is not None:
            self._work.state.log.append(NoticeEntry(text=text))
        else:
            self._unnoted.append(text)

    def _show(self) -> None:
        assert self._showing is not None  # the work has begun
        self._showing.update()


def _decision(given: Any) -> Decision:
    return understood(received(given), Decision, '{"callId": …, "decision": "approve"}')


def _page(given: Any) -> PageRequest:
    return understood(received(given) or {}, PageRequest, '{"after": 0, "limit": 100}')


def _why(error: BaseException) -> tuple[str, str]:
    match error:
        case ApplicationError(type=str(code)):
            return code, error.message
        case asyncio.CancelledError():
            return ErrorCode.CANCELLED, "the run was cancelled before it began"
        case _:
            return names.INVALID_REQUEST, str(error)


def _result(step: Finish | Fail, work: ExecutionBase) -> dict[str, Any]:
    if isinstance(step, Fail):
        fail(step.code, step.message, work.get_spent())
    return step.result.to_json()

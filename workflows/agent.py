"""`AgentWorkflow`: the durable shell around a run.

It asks the engine what is next, has it done, and tells the engine what came of it. Nothing is
decided here. State is built before `run` begins, since a signal or an update may arrive first;
validators refuse without a trace; handlers are finished before the run is left.
"""

import asyncio
from datetime import timedelta
from typing import Any, NoReturn, assert_never

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from schemas import names
    from schemas.agent import Snapshot, WorkerFacts
    from schemas.base import parse_duration
    from schemas.decision import Decision
    from schemas.entry import NoticeEntry
    from schemas.errors import ErrorCode
    from schemas.generate import PageOf
    from schemas.message import Delivered
    from schemas.run import PageRequest, RunRequest

from workflows import carrying, screen
from workflows.details import Details
from workflows.engine.approval import Desk, Unacceptable
from workflows.engine.mailbox import Mailbox
from workflows.engine.opening import InvalidRequest
from workflows.engine.run import (
    AskModel,
    AskPeople,
    AwaitMessage,
    CarryOut,
    Fail,
    Finish,
    Run,
    Step,
)
from workflows.hands import Hands, in_time

MAX_UNHEARD_DECISIONS = 256
# What a run is started with that is started with nothing.
NOTHING = RawValue(Payload())

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


@workflow.defn(name=names.AGENT_WORKFLOW, failure_exception_types=FAILURES)
class AgentWorkflow:
    """One run of one agent, from a `schemas.run.RunRequest` to a `RunResult`."""

    @workflow.init
    def __init__(self, request: RawValue = NOTHING) -> None:
        self._request, self._asked, self._wrong = _read(request)
        self._desk = Desk()
        self._mailbox = Mailbox()
        self._unheard: list[Any] = []
        self._senders: list[int] = []
        self._run: Run | None = None
        self._snapshot: Snapshot | None = None
        self._shown: dict[str, Any] = {}
        self._told: dict[str, int] = {}
        self._details: Details | None = None

    @workflow.run
    async def run(self, request: RawValue = NOTHING) -> dict[str, Any]:
        """Carry the run from its first step to its end."""
        try:
            run = self._run = await self._begin()
            self._details = Details(run, workflow.info().workflow_id)
            for decision in self._unheard:
                self._hear(run, decision)
            return await self._live(run)
        except asyncio.CancelledError:
            if self._run is not None:
                self._run.cancelled()
                await self._leave(self._run)
            raise

    # What people say.

    @workflow.signal(
        name=names.APPROVE,
        description="Decide on a waiting call: what does not fit is ignored. See User Metadata.",
    )
    def approve(self, decision: Any = None, *_: Any) -> None:
        """Record a decision; one that does not count is noted and ignored."""
        if self._run is None:
            self._unheard = [*self._unheard, decision][:MAX_UNHEARD_DECISIONS]
        else:
            self._hear(self._run, decision)

    @workflow.signal(
        name=names.MESSAGE, description="Say something to the run: {content, delivery}"
    )
    def message(self, message: Any = None, *_: Any) -> None:
        """Put a message in the mailbox; one that is none is noted and ignored."""
        try:
            self._mailbox.put(_delivered(message))
        except ValidationError as error:
            self._note(f"a message was ignored: {_first(error)}")

    @workflow.signal(name=names.CLOSE, description="End a conversation after its last answer")
    def close(self, *_: Any) -> None:
        """Wait for no further message."""
        self._mailbox.closed = True

    @workflow.update(
        name=names.DECIDE,
        description="Decide on a waiting call: what does not fit is refused. See User Metadata.",
    )
    def decide(self, decision: Any = None) -> dict[str, Any]:
        """Count a decision; `schemas.decision.Receipt` says what it came to."""
        assert self._run is not None  # the validator found the call
        receipt = self._run.decide(Decision.model_validate(decision))
        self._show(self._run)
        return receipt.to_json()

    @decide.validator
    def _check_decide(self, decision: Any = None) -> None:
        try:
            self._desk.check(Decision.model_validate(decision))
        except ValidationError as error:
            _refuse(names.INVALID_DECISION, _first(error))
        except Unacceptable as error:
            _refuse(error.code, str(error))

    @workflow.update(
        name=names.SEND, description="Say something to a conversation, and get the answer"
    )
    async def send(self, message: Any = None) -> Any:
        """The answer to a message of a conversation."""
        number = self._mailbox.put(_delivered(message))
        self._senders.append(number)
        await workflow.wait_condition(lambda: self._has_answered(number))
        self._senders.remove(number)
        assert self._run is not None  # it has answered
        if self._run.answered_up_to < number:
            _refuse(
                ErrorCode.CANCELLED, "the run ended before it answered; what was said is in its log"
            )
        return self._run.output

    @send.validator
    def _check_send(self, message: Any = None) -> None:
        if not self._is_open:
            _refuse(
                names.NOT_A_CONVERSATION,
                "the run is no open conversation: signal `message` instead",
            )
        try:
            _delivered(message)
        except ValidationError as error:
            _refuse(names.INVALID_REQUEST, _first(error))

    # What people and the worker ask.

    @workflow.query(
        name=names.STATUS, description="How the run stands: turn, usage, budget, what waits"
    )
    def status(self) -> dict[str, Any]:
        """The run in short."""
        if self._run is None:
            return {
                "status": "running",
                "turn": 0,
                "skill": None,
                "pending": [],
                "usage": {},
                "budget": {},
            }
        run, meter = self._run, self._run.kept.meter
        waiting = [question.waiting().to_json() for question in self._desk.open()]
        return {
            "status": run.status,
            "turn": run.turn,
            "skill": None,
            "pending": [
                {key: one[key] for key in ("callId", "kind", "tool", "label")} for one in waiting
            ],
            "usage": meter.usage().model_dump(mode="json", by_alias=True),
            "budget": meter.view(workflow.now()),
            "log": {"entries": len(run.kept.log), "digest": run.kept.log.digest},
        }

    @workflow.query(name=names.APPROVALS, description="The calls that wait for a person's decision")
    def approvals(self) -> list[dict[str, Any]]:
        """Each waiting call, whole; see `schemas.decision.Waiting`."""
        return self._desk.shown()

    @workflow.query(name=names.STATE, description="The value that †state reads from")
    def state(self, instance: Any = None) -> Any:
        """The run's state."""
        if instance is not None:
            raise ValueError("this run has no instances: ask for its state without one")
        return {} if self._run is None else self._run.kept.data["state"]

    @workflow.query(name=names.CONTEXT, description="The run's log, page by page: {after, limit}")
    def context(self, page: Any = None) -> list[dict[str, Any]]:
        """Entries of the log."""
        want = PageRequest.model_validate(page or {})
        return [] if self._run is None else self._run.kept.log.records(want.after, want.limit)

    @workflow.query(name=names.EVENTS, description="What happened, by number: {after, limit}")
    def events(self, page: Any = None) -> list[dict[str, Any]]:
        """Events of the log."""
        want = PageRequest.model_validate(page or {})
        return [] if self._run is None else self._run.kept.log.events(want.after, want.limit)

    @workflow.query(
        name=names.REQUEST, description="The worker's own: the conversation, page by page"
    )
    def request(self, page: Any = None) -> dict[str, Any]:
        """A part of the conversation, for `generate`; see `schemas.generate`."""
        if self._run is None:
            raise ValueError("the run has not begun")
        return self._run.page(PageOf.read(page)).to_json()

    # From step to step.

    async def _begin(self) -> Run:
        if self._asked is None:
            _fail(names.INVALID_REQUEST, self._wrong)
        workflow.set_current_details(
            "The run begins: its agent's definition is read. If it has ended so, the tab"
            " **Timeline** says why."
        )
        self._snapshot = await self._resolve()
        try:
            return Run(self._asked, self._snapshot.agent, self._mailbox, self._desk, workflow.now)
        except InvalidRequest as error:
            _fail(error.code, str(error))

    async def _resolve(self) -> Snapshot:
        try:
            snapshot = await workflow.execute_local_activity(
                names.RESOLVE_AGENT,
                self._request,
                schedule_to_close_timeout=parse_duration("1m"),
                summary="Reads the agent's definition",
            )
        except FailureError as error:
            if workflow.cancellation_reason() is not None:
                raise asyncio.CancelledError from error
            _fail(names.INVALID_REQUEST, carrying.failure_of(error).message)
        return Snapshot.read(snapshot)

    async def _live(self, run: Run) -> dict[str, Any]:
        assert self._details is not None  # the run has begun
        hands = Hands(run, self._facts, self._details.story, lambda: self._show(run))
        while True:
            self._show(run)
            await workflow.wait_condition(lambda: not self._answered_senders(run))
            step = run.next()
            if isinstance(step, Finish | Fail):
                await self._leave(run)
                return _result(step)
            await self._take(run, hands, step)

    async def _take(self, run: Run, hands: Hands, step: Step) -> None:
        match step:
            case AskModel(pointer):
                await hands.ask_model(pointer)
            case CarryOut(turn):
                await hands.carry_out(turn)
                run.closed()
            case AskPeople(question):
                await hands.until_ruled(question)
                run.extended()
            case AwaitMessage(idle):
                await self._until_message(run, idle)
            case Finish() | Fail():
                raise AssertionError("the end is not a step to take")
            case _:
                assert_never(step)

    async def _leave(self, run: Run) -> None:
        """Nothing is left behind: handlers finish, and lists show the run as ended."""
        self._show(run)
        await workflow.wait_condition(workflow.all_handlers_finished)

    # Waiting.

    async def _until_message(self, run: Run, idle: timedelta | None) -> None:
        line = "Waits for the next message (see User Metadata)"
        if not await in_time(lambda: self._mailbox.closed or len(self._mailbox) > 0, idle, line):
            run.close()

    @property
    def _is_open(self) -> bool:
        """Whether a further message would be answered, also before the run has begun."""
        talks = self._asked is not None and self._asked.conversation is not False
        over = self._run is not None and self._run.over is not None
        return talks and not over and not self._mailbox.closed

    def _has_answered(self, number: int) -> bool:
        return self._run is not None and (
            self._run.answered_up_to >= number or self._run.over is not None
        )

    def _answered_senders(self, run: Run) -> list[int]:
        """The senders whose answer is there and who have not been given it yet."""
        return [number for number in self._senders if run.answered_up_to >= number]

    # Telling.

    def _hear(self, run: Run, raw: Any) -> None:
        try:
            decision = Decision.model_validate(raw)
        except ValidationError as error:
            self._note(f"a decision was ignored: {_first(error)}")
            return
        if not self._desk.keep(decision):
            run.calls.hear(decision)
            self._show(run)

    def _note(self, text: str) -> None:
        if self._run is not None:
            self._run.kept.log.append(NoticeEntry(text=text))

    def _show(self, run: Run) -> None:
        """Bring what lists, the UI and people's notifier show up to date."""
        assert self._details is not None  # the run has begun
        workflow.set_current_details(self._details.read())
        attributes = screen.attributes(run)
        changed = screen.updates(self._shown, attributes, self._facts.search_attributes)
        if changed:
            workflow.upsert_search_attributes(changed)
        self._shown = attributes
        self._notify()

    def _notify(self) -> None:
        if self._facts.notify is None:
            return
        for question, told in zip(self._desk.open(), self._desk.shown(), strict=True):
            key = f"{question.call_id} {question.kind} {question.round}"
            if self._told.get(key) == question.reminders:
                continue
            self._told[key] = question.reminders
            line = screen.summary(f"Tells people that {question.label} waits")
            workflow.start_activity(
                self._facts.notify,
                told | {"workflowId": workflow.info().workflow_id},
                **carrying.notify(line),
            )

    @property
    def _facts(self) -> WorkerFacts:
        assert self._snapshot is not None  # the run has begun
        return self._snapshot.worker


def _read(request: RawValue) -> tuple[Any, RunRequest | None, str]:
    """The request as it was given and as it is understood, or what is wrong with it.

    What is raised while a run is made, before it runs, would not be its failure.
    """
    if not request.payload.metadata:
        return None, None, 'start a run with one JSON object: {"agent": …, "input": …}'
    try:
        given = carrying.value_of(request)
        return given, RunRequest.model_validate(given), ""
    except ValidationError as error:
        return None, None, _first(error)
    except ValueError as error:
        return None, None, f"the input is to be one JSON object: {error}"


def _delivered(message: Any) -> Delivered:
    return Delivered.model_validate({"content": message} if isinstance(message, str) else message)


def _result(step: Finish | Fail) -> dict[str, Any]:
    if isinstance(step, Fail):
        _fail(step.code, step.message)
    return step.result.to_json()


def _first(error: ValidationError) -> str:
    """What is wrong, field by field, in one line."""
    lines = [f"{'.'.join(map(str, e['loc'])) or 'input'}: {e['msg']}" for e in error.errors()[:5]]
    return "; ".join(lines)[:2_000]


def _fail(code: str, message: str) -> NoReturn:
    raise ApplicationError(message, type=code, non_retryable=True)


_refuse = _fail

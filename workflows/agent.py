"""`AgentWorkflow`: the durable shell around a run.

Besides what every shell does, it asks a model, and hears what people say to it.
"""

from datetime import timedelta
from typing import Any, assert_never

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import AgentSnapshot
    from holdfast.schemas.errors import ErrorCode
    from holdfast.schemas.internal.model_request import ConversationPageRequest
    from holdfast.schemas.message import Delivered

from holdfast.workflows.authorization import admitted
from holdfast.workflows.base_workflow import FAILURES, BaseWorkflow
from holdfast.workflows.commands.step_executor import StepExecutor, in_time
from holdfast.workflows.continue_as_new import begun_with, is_to_go_on, leave, length
from holdfast.workflows.engine.conversation.initial_context import InvalidRequest
from holdfast.workflows.engine.conversation.mailbox import Mailbox
from holdfast.workflows.engine.run import Run
from holdfast.workflows.engine.steps import (
    AskModel,
    AskPeople,
    AwaitMessage,
    Fail,
    Finish,
    RunCalls,
    Step,
)
from holdfast.workflows.handler_input import (
    MISSING_PAYLOAD,
    NotUnderstoodError,
    ParsedRequest,
    fail,
    raw_payload_handler,
    received,
    understood,
    update_id,
)


@workflow.defn(name=names.AGENT_WORKFLOW, failure_exception_types=FAILURES)
class AgentWorkflow(BaseWorkflow[Run]):
    """One run of one agent, from a `schemas.run.RunRequest` to a `RunResult`."""

    signals = (names.APPROVE, names.MESSAGE, names.CLOSE)

    @workflow.init
    @raw_payload_handler
    def __init__(self, request: RawValue = MISSING_PAYLOAD, *more: Any) -> None:
        super().__init__()
        self._mailbox = Mailbox()
        self._senders: list[int] = []
        self._leaving = False
        self._snapshot: AgentSnapshot | None = None
        self._asked, self._left = begun_with(request, more)
        if self._left is not None:
            carried = self._left.carried
            self._mailbox = carried.run.mailbox
            self._desk, self._notes = carried.run.kept.desk, carried.notes
            self._spans_left = carried.spans

    @workflow.run
    @raw_payload_handler
    async def run(self, request: RawValue = MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Carry the run from its first step to its end."""
        return await self._see_through()

    # What people say.

    @workflow.signal(
        name=names.MESSAGE, description="Say something to the run: {content, delivery}"
    )
    @raw_payload_handler
    def message(self, message: RawValue = MISSING_PAYLOAD, *_: Any) -> None:
        """Put a message in the mailbox; one that is none is noted and ignored."""
        self._listen()
        try:
            self._thinking.admit(message)
            self._mailbox.put(_delivered(message))
        except NotUnderstoodError as error:
            self._note(f"a message was ignored: {error}")

    @workflow.signal(name=names.CLOSE, description="End a conversation after its last answer")
    @raw_payload_handler
    def close(self, anything: RawValue = MISSING_PAYLOAD, *_: Any) -> None:
        """Wait for no further message; what is sent along does not matter."""
        self._listen()
        self._mailbox.close()

    @workflow.update(
        name=names.SEND, description="Say something to a conversation, and get the answer"
    )
    @raw_payload_handler
    async def send(self, message: RawValue = MISSING_PAYLOAD, *_: Any) -> Any:
        """The answer to a message of a conversation."""
        again = self._mailbox.knows(update_id())
        number = self._mailbox.put(_delivered(message), update_id())
        self._senders.append(number)
        await workflow.wait_condition(lambda: self._has_answered(number) or self._leaving)
        self._senders.remove(number)
        if self._leaving and not self._has_answered(number):
            fail(names.CONTINUED, _CONTINUED)
        if self._unbegun is not None:
            fail(*self._unbegun)
        assert self._work is not None  # it has answered
        if again and self._work.answered_up_to > number:
            fail(names.CONTINUED, _ANSWERED)
        if self._work.answered_up_to < number:
            fail(
                ErrorCode.CANCELLED, "the run ended before it answered; what was said is in its log"
            )
        return self._work.output

    @send.validator
    @raw_payload_handler
    def _check_send(self, message: RawValue = MISSING_PAYLOAD, *_: Any) -> None:
        if not self._is_open:
            fail(
                names.NOT_A_CONVERSATION,
                "the run is no open conversation: signal `message` instead",
            )
        try:
            self._thinking.admit(message, trace=False)
            _delivered(message)
        except NotUnderstoodError as error:
            fail(names.INVALID_REQUEST, str(error))

    # What the worker asks.

    @workflow.query(
        name=names.REQUEST, description="The worker's own: the conversation, page by page"
    )
    def request(self, page: Any = None) -> dict[str, Any]:
        """A part of the conversation, for `generate`; see `schemas.internal.model_request`."""
        if self._work is None:
            raise ValueError("the run has not begun")
        return self._work.pages.page(ConversationPageRequest.read(page)).to_json()

    # From step to step.

    async def _begin(self) -> Run:
        if self._left is not None:
            self._snapshot, left = self._left.carried.snapshot, self._left
            self._facts, self._left = self._snapshot.worker, None
            return left.resumed()
        if self._asked.request is None:
            fail(names.INVALID_REQUEST, self._asked.wrong)
        resolved = await self._resolve(names.RESOLVE_AGENT, self._asked.given, "agent")
        self._snapshot = AgentSnapshot.read(resolved)
        self._facts, agent = self._snapshot.worker, self._snapshot.agent
        request = await admitted(self._asked.request, self._facts)
        # What it takes along one day is the principal, and no token.
        self._asked = ParsedRequest(request=request)
        try:
            return Run.begun(request, agent, self._mailbox, self._desk, workflow.now)
        except InvalidRequest as error:
            fail(error.code, str(error))

    async def _next(self, work: Run) -> Step:
        """The next step, once everybody has been given the answer that is there; before it is the
        end, people have a moment to be told, and to say more."""
        await workflow.wait_condition(lambda: not self._answered_senders(work))
        await self._go_on_as_new(work)
        assert self._showing is not None  # the run has begun
        if work.is_ending:
            await self._showing.last_word(unless=lambda: not work.is_ending)
        return work.next()

    async def _go_on_as_new(self, work: Run) -> None:
        """Leave a history that is long, as soon as nobody waits for an answer: the next run would
        not know whom to give it to. Where there is no time for that, they are told so."""
        assert self._facts is not None  # the run has begun
        assert self._snapshot is not None
        assert self._asked.request is not None
        if not is_to_go_on(work, self._facts):
            return
        if length(self._facts).pressing:
            self._leaving = True
            await workflow.wait_condition(workflow.all_handlers_finished)
            self._leaving = False
        if workflow.all_handlers_finished():
            await self._settle()
        if workflow.all_handlers_finished():
            leave(work, self._asked.request, self._snapshot, self._notes, self.trace)

    async def _settle(self) -> None:
        """See that nothing stays behind that is on its way: what a parent is told, and for a moment
        what people are; and, where people said something in this very workflow task, a cancellation
        that came with it. The SDK hands that on only when what was said has had its effect."""
        showing = self._showing
        assert showing is not None  # the run has begun
        await workflow.wait_condition(lambda: showing.settled)
        await showing.last_word()
        if self._heard_at == workflow.info().get_current_history_length():
            await workflow.sleep(_A_MOMENT, summary="Sees whether it is cancelled as well")
            await workflow.wait_condition(lambda: True)

    async def _take(self, work: Run, hands: StepExecutor, step: Step) -> None:
        match step:
            case AskModel(pointer):
                await hands.ask_model(work, pointer)
            case RunCalls(turn):
                await hands.carry_out(turn)
                work.closed()
            case AskPeople(question):
                self._show()  # the question was put when the step was sought
                await hands.until_ruled(question)
                work.extended()
            case AwaitMessage(idle):
                await self._until_message(work, idle)
            case Finish() | Fail():
                raise AssertionError("the end is not a step to take")
            case _:
                assert_never(step)

    # Waiting.

    async def _until_message(self, run: Run, idle: timedelta | None) -> None:
        line = "Waits for the next message (see User Metadata)"
        if not await in_time(lambda: self._mailbox.closed or len(self._mailbox) > 0, idle, line):
            run.close()

    @property
    def _is_open(self) -> bool:
        """Whether a further message would be answered, also before the run has begun."""
        request = self._asked.request
        talks = request is not None and request.conversation is not False
        over = self._work is not None and self._work.last_step is not None
        return talks and not over and not self._mailbox.closed

    def _has_answered(self, number: int) -> bool:
        if self._work is None:
            return self._unbegun is not None
        return self._work.answered_up_to >= number or self._work.last_step is not None

    def _answered_senders(self, run: Run) -> list[int]:
        """The senders whose answer is there and who have not been given it yet."""
        return [number for number in self._senders if run.answered_up_to >= number]


_A_MOMENT = timedelta(milliseconds=1)
# What a sender is told whose answer the run that it asked does not live to see.
_CONTINUED = (
    "the run went on as a new one before it answered: what was said is kept, and its answer will"
    " stand in the run's context"
)
# What a sender is told who says again what the run was told, and answered, before it went on.
_ANSWERED = "it was said and answered already: the answer stands in the run's context"


def _delivered(message: Any) -> Delivered:
    said = received(message)
    said = {"content": said} if isinstance(said, str) else said
    return understood(said, Delivered, '{"content": …}')

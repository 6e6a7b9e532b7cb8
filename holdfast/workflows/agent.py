"""`AgentWorkflow`: one durable run of one agent.

A run resolves its agent, then alternates between requests to the model and the calls that the model
makes, until the engine returns the end. Between two turns it may continue as new. People send it
messages (signal `message`, update `send`) and decisions (see `base_workflow`).
"""

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from temporalio import workflow
from temporalio.common import RawValue, TypedSearchAttributes

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import AgentSnapshot, WorkerFacts
    from holdfast.schemas.base import rfc3339
    from holdfast.schemas.internal.model_request import ConversationPageRequest
    from holdfast.schemas.log_entry import RemarkEntry
    from holdfast.schemas.message import Delivered, Withdrawal
    from holdfast.schemas.names import ErrorCode
    from holdfast.schemas.run import RunRequest

from holdfast.workflows import input
from holdfast.workflows.base_workflow import BaseWorkflow
from holdfast.workflows.commands import publisher
from holdfast.workflows.commands.base_executor import wait_in_time
from holdfast.workflows.commands.step_executor import StepExecutor
from holdfast.workflows.engine import continue_as_new, phases
from holdfast.workflows.engine.call.activities import Hook
from holdfast.workflows.engine.conversation.initial_context import InvalidRequest
from holdfast.workflows.engine.log.spans import SpansProgress
from holdfast.workflows.engine.run import AgentRun
from holdfast.workflows.engine.run_messages import Mailbox
from holdfast.workflows.fork import read_prefix
from holdfast.workflows.permits import is_delegate, is_foreign_state

_EXAMPLE = '{"agent": …, "input": …}'
# A run that moves to another build starts on the current one.
_BUILD = workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE

_ONE_MILLISECOND = timedelta(milliseconds=1)
_CONTINUED = (
    "the run continued as new before it answered: the message is kept, and its answer will"
    " be in the run's context"
)
_FOREIGN_STATE = (
    "the state that the run continues from has no valid permit: start it with a request of its own;"
    " if one of your workers passed on the state, give each worker the same `--permits`"
)
_ANSWERED = "the message is answered already: the answer is in the run's context"
# The state that the previous run of the chain has passed on, and the pages of its log.
PreviousRun = tuple[continue_as_new.WorkflowSnapshot, list[bytes]]


@workflow.defn(name=names.AGENT_WORKFLOW, failure_exception_types=input.FAILURES)
class AgentWorkflow(BaseWorkflow[AgentRun]):
    """One run of one agent, from a `schemas.run.RunRequest` to a `RunResult`."""

    signals = (names.APPROVE, names.MESSAGE, names.CLOSE)

    @workflow.init
    @input.raw_payload_handler
    def __init__(self, request: RawValue = input.MISSING_PAYLOAD, *more: Any) -> None:
        super().__init__()
        self._mailbox = Mailbox()
        # The numbers of the messages with a sender that waits for the answer.
        self._senders: list[int] = []
        self._releases_senders = False
        # When the conversation ends without a message, while the run waits for one.
        self._idle_until: datetime | None = None
        # The request and the agent of the run, which each run of its chain receives.
        self._origin: tuple[RunRequest, AgentSnapshot] | None = None
        self._request, self._previous_run = read_start(request, more)
        if self._previous_run is not None:
            snapshot, _ = self._previous_run
            self._mailbox = snapshot.run.mailbox
            self._pending = snapshot.run.kept.desk
            self._note_count = snapshot.notes
            self._previous_spans = snapshot.spans

    @workflow.run
    @input.raw_payload_handler
    async def run(self, request: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Run the agent from its first step to its end."""
        result = await self._run()
        if unread := self._mailbox.unread_in_order():
            result["undelivered"] = [message.to_json() for message in unread]
        return result

    async def _finish(self, executor: StepExecutor) -> None:
        """Log what has arrived while the end was published, too."""
        await super()._finish(executor)
        assert isinstance(executor.work, AgentRun)
        executor.work.messages.read(ending=True, is_over=True)

    # From step to step.

    async def _begin(self) -> tuple[AgentRun, WorkerFacts]:
        limits = self._task_budget.run
        if self._previous_run is not None:
            previous, pages = self._previous_run
            self._previous_run = None
            request, snapshot = previous.request, previous.snapshot
            self._origin = request, snapshot
            self._search_attributes = snapshot.worker.search_attributes
            # With its state, and the input that has arrived since.
            run = AgentRun(previous.run, request, snapshot.agent, self.clock, pages, limits)
            return run, snapshot.worker
        # The next run of the chain receives the verified principal, and no token.
        request, snapshot = await self._admit(self._request, "agent", AgentSnapshot)
        prefix = await read_prefix(request, snapshot.worker)
        agent = snapshot.agent
        try:
            run = AgentRun.start(
                request, agent, self._mailbox, self._pending, self.clock, limits, prefix
            )
        except InvalidRequest as error:
            input.fail(names.INVALID_REQUEST, str(error))
        if prefix is not None:
            # What the other run did is in its own trace.
            began = rfc3339(workflow.info().workflow_start_time)
            self._previous_spans = SpansProgress(upto=prefix.entries, began=began)
        kept = continue_as_new.without_values(request, agent)
        self._origin, self._request = (kept, snapshot), input.ParsedRequest(request=kept)
        return run, snapshot.worker

    async def _proceed(self, run: AgentRun, executor: StepExecutor) -> None:
        """Move on to the next step, once every sender has received the answer that is available.

        Before the end, pending notifications get a moment for delivery, and people for more
        messages.
        """
        await workflow.wait_condition(
            lambda: all(run.progress.answered_up_to < number for number in self._senders)
        )
        await self._continue_as_new_if_due(run, executor)
        if run.is_ending:
            await executor.publisher.notifier.wait_for_delivery(unless=lambda: not run.is_ending)
        run.proceed()

    async def _execute(self, run: AgentRun, executor: StepExecutor, step: phases.Step) -> None:
        match step:
            case phases.AskModel() as request:
                await executor.ask_model(run, request)
            case Hook() as hook:
                await executor.ask_hook(run, hook)
            case phases.RunCalls(turn) as calls:
                await executor.execute_turn(turn)
                run.closed(calls)
            case phases.AskPeople(question) as extension:
                executor.publisher.update()  # choosing the step opened the question
                await executor.wait_for_ruling(question)
                run.budget_decided(extension)
            case phases.AwaitMessage(idle):
                line = "Waits for the next message (see User Metadata)"
                mailbox = self._mailbox
                self._idle_until = None if idle is None else workflow.now() + idle
                if not await wait_in_time(lambda: mailbox.closed or len(mailbox) > 0, idle, line):
                    run.mailbox.close()
                self._idle_until = None
            case phases.Finish() | phases.Fail():
                raise AssertionError("the end is not a step to execute")
            case _:
                assert_never(step)

    async def _continue_as_new_if_due(self, run: AgentRun, executor: StepExecutor) -> None:
        """Continue as new when the history is long and no sender waits for an answer.

        The next run could not answer those senders. If the history leaves no time to wait, their
        updates fail with `CONTINUED`.
        """
        if not run.is_between_turns:
            return
        now = history_length(executor.facts)
        if not continue_as_new.is_due(now, run, stored=executor.facts.store):
            return
        if now.is_pressing:
            self._releases_senders = True
            await workflow.wait_condition(workflow.all_handlers_finished)
            self._releases_senders = False
        if workflow.all_handlers_finished():
            # Wait until the parent's signals are sent, and for a moment until notifications are.
            await workflow.wait_condition(lambda: executor.publisher.parent.is_settled)
            await executor.publisher.notifier.wait_for_delivery()
            # The SDK delivers a cancellation in the same workflow task as input only after the
            # input has been processed, so one more workflow task has to pass.
            if self._input_at == workflow.info().get_current_history_length():
                await workflow.sleep(_ONE_MILLISECOND, summary="Checks for a cancellation")
                await workflow.wait_condition(lambda: True)
        if workflow.all_handlers_finished():
            self._continue_as_new(run)

    def _continue_as_new(self, run: AgentRun) -> None:
        """Continue as a new run, unless the state is too large to pass on.

        Awaits nothing: input that arrived meanwhile would be lost.

        Raises:
            ContinueAsNewError: The run continues.
        """
        assert self._origin is not None  # `_begin` has set it
        request, snapshot = self._origin
        facts, spans = snapshot.worker, self.trace.progress
        carried = continue_as_new.snapshot_of(run, request, snapshot, self._note_count, spans)
        since = run.summaries.progress.since
        values = continue_as_new.start_arguments(
            carried, run.state.log, stored=facts.store, forgettable=since
        )
        now = history_length(facts)
        if values is None:
            continue_as_new.stay_in_history(run, now)
            return
        # A copy, since the update below is for this history and not for the next run.
        attributes = TypedSearchAttributes(list(workflow.info().typed_search_attributes))
        run.continued_as_new = True
        status = {names.AGENT_STATUS: names.CONTINUED}
        if left := publisher.updates({}, status, facts.search_attributes):
            workflow.upsert_search_attributes(left)
        workflow.continue_as_new(
            args=values,
            search_attributes=attributes,
            initial_versioning_behavior=_BUILD if now.build_changed else None,
        )

    # Messages.

    @workflow.signal(
        name=names.MESSAGE,
        description="Send a message to the run, or to people: {content, delivery, audience, skill}",
    )
    @input.raw_payload_handler
    def message(self, message: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        """Put a message into the mailbox, or one for people into the log; note an invalid one."""
        self._accept_input()
        try:
            self._task_budget.admit(message)
            delivered = _delivered(input.exact_value(message))
        except input.InvalidInputError as error:
            self._note(f"a message was ignored: {error}")
            return
        if delivered.audience == "model":
            self._mailbox.put(delivered)
        else:
            self._log(RemarkEntry(role=delivered.role, content=delivered.content))

    @workflow.signal(name=names.CLOSE, description="End a conversation after its last answer")
    @input.raw_payload_handler
    def close(self, anything: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        """Close the mailbox; a payload is ignored."""
        self._accept_input()
        self._mailbox.close()

    @workflow.update(
        name=names.SEND, description="Send a message to a conversation, and get the answer"
    )
    @input.raw_payload_handler
    async def send(self, message: RawValue = input.MISSING_PAYLOAD, *_: Any) -> Any:
        """Put a message into the mailbox, and return the answer to it."""
        is_repeated = input.update_id() in self._mailbox.known
        number = self._mailbox.put(_delivered(input.payload_value(message)), input.update_id())
        self._senders.append(number)
        await workflow.wait_condition(
            lambda: (
                self._has_answered(number)
                or self._releases_senders
                or number in self._mailbox.withdrawn
            )
        )
        self._senders.remove(number)
        if number in self._mailbox.withdrawn:
            input.fail(names.WITHDRAWN, "the message was withdrawn before the run read it")
        if self._releases_senders and not self._has_answered(number):
            input.fail(names.CONTINUED, _CONTINUED)
        if self._start_failure is not None:
            input.fail(self._start_failure.code, self._start_failure.message)
        assert self._work is not None  # it has answered
        if is_repeated and self._work.progress.answered_up_to > number:
            input.fail(names.CONTINUED, _ANSWERED)
        if (problem := self._work.messages.budget_problem(number)) is not None:
            input.fail(names.BUDGET_EXCEEDED, problem)
        if self._work.progress.answered_up_to < number:
            input.fail(
                ErrorCode.CANCELLED, "the run ended before it answered; the message is in its log"
            )
        return self._work.progress.output

    @send.validator
    @input.raw_payload_handler
    def _check_send(self, message: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        request = self._request.request
        takes_messages = request is not None and request.conversation is not False
        is_over = self._work is not None and self._work.phases.end is not None
        until = self._idle_until
        has_idled = until is not None and until <= workflow.now() and len(self._mailbox) == 0
        if not takes_messages or is_over or has_idled or self._mailbox.closed:
            problem = "the run is no open conversation: signal `message` instead"
            input.fail(names.NOT_A_CONVERSATION, problem)
        with self._validating(message, names.INVALID_REQUEST):
            delivered = _delivered(input.exact_value(message))
        if delivered.audience == "people":
            problem = "`audience`: a message for people gets no answer: signal `message` instead"
            input.fail(names.INVALID_REQUEST, problem)
        if delivered.skill is not None and self._work is not None:
            unfit = self._work.messages.skill_problem(delivered.skill)
            if unfit is not None:
                input.fail(names.INVALID_REQUEST, unfit)

    @workflow.update(
        name=names.WITHDRAW, description="Take back a message that is not read yet: {message}"
    )
    @input.raw_payload_handler
    async def withdraw(self, which: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Remove a queued message, and return which one; its `send` fails with `WITHDRAWN`."""
        self._accept_input()
        withdrawal = _withdrawal(which)
        self._mailbox.withdraw(withdrawal.message)
        self._note(f"message {withdrawal.message} was withdrawn before the run read it")
        return withdrawal.to_json()

    @withdraw.validator
    @input.raw_payload_handler
    def _check_withdraw(self, which: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        with self._validating(which, names.INVALID_REQUEST):
            number = _withdrawal(which).message
        if not self._mailbox.is_queued(number):
            problem = f"message {number} is not queued: the query `status` lists those that are"
            input.fail(names.NO_SUCH_MESSAGE, problem)

    def _queued(self) -> list[dict[str, Any]]:
        return [message.to_json() for message in self._mailbox.queued()]

    def _has_answered(self, number: int) -> bool:
        if self._work is None:
            return self._start_failure is not None
        return self._work.progress.answered_up_to >= number or self._work.phases.end is not None

    # Queries of the worker.

    @workflow.query(name=names.PAGES, description="Internal: the compressed log, in pieces")
    @input.raw_payload_handler
    def pages(self, offset: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Return the piece of the log from this byte on, as `log.LogPiece`."""
        return self._shown_log.piece(int(input.payload_value(offset))).to_json()

    @workflow.query(name=names.REQUEST, description="Internal: the conversation, page by page")
    def request(self, page: Any = None) -> dict[str, Any]:
        """Return a part of the conversation for `generate`.

        See `schemas.internal.model_request`.
        """
        if self._work is None:
            raise ValueError("the run has not started")
        return self._work.settings.page(ConversationPageRequest.read(page)).to_json()


def _withdrawal(which: RawValue) -> Withdrawal:
    return input.parse_model(input.payload_value(which), Withdrawal, '{"message": 1}')


def _delivered(message: Any) -> Delivered:
    value = {"content": message} if isinstance(message, str) else message
    return input.parse_model(value, Delivered, '{"content": …}')


def read_start(
    request: Any, more: tuple[Any, ...]
) -> tuple[input.ParsedRequest[RunRequest], PreviousRun | None]:
    """Return the request of a run, and what the run has left that it continues, if any.

    Only Temporal marks a run as a continuation; no client can. It marks automatic restarts too,
    which have the arguments of the first run: `parse_request` rejects those. But any workflow can
    continue as this one, with any state: permit keys prevent that.
    """
    previous_id, values = workflow.info().continued_run_id, [request, *more]
    if previous_id is None and len(more) == 1 and workflow.info().parent is not None:
        with suppress(input.InvalidInputError):  # reported below
            raw, agents = map(input.payload_value, values)
            if is_delegate(raw, agents):
                parsed = input.parse_request(request, (), RunRequest, _EXAMPLE)
                return replace(parsed, agents=agents), None
    if previous_id is None or not more or input.restart_problem():
        return input.parse_request(request, more, RunRequest, _EXAMPLE), None
    if is_foreign_state(previous_id, values):
        return input.ParsedRequest(problem=_FOREIGN_STATE), None
    try:
        snapshot, pages = continue_as_new.read_start_arguments(values)
    except ValueError as error:
        return input.ParsedRequest(problem=str(error)), None
    return input.ParsedRequest(request=snapshot.request), (snapshot, pages)


def history_length(facts: WorkerFacts) -> continue_as_new.HistoryLength:
    """Measure the history."""
    info = workflow.info()
    return continue_as_new.HistoryLength(
        events=info.get_current_history_length(),
        size_bytes=info.get_current_history_size(),
        is_suggested=info.is_continue_as_new_suggested(),
        build_changed=info.is_target_worker_deployment_version_changed(),
        bound_events=facts.continue_after,
    )

"""Run a workflow's steps, and answer its signals and updates; `CallWorkflow`, one call of one tool.

`BaseWorkflow` holds the common part of runs and single calls. The engine returns the next step, a
`StepExecutor` executes it, and the engine processes its outcome; this module makes no decisions:

    start ─► ( publish ─► next step ─► execute it ) … ─► finish

Signals and updates can arrive before the work exists, so state is built in `__init__`, and early
decisions are counted once the work starts. A validator rejects without an event in the history.
Handlers finish before the workflow returns.
"""

import asyncio
from abc import ABC, abstractmethod
from asyncio import get_running_loop
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import AgentSnapshot, ToolSnapshot, WorkerFacts
    from holdfast.schemas.base import parse_duration
    from holdfast.schemas.decision import ApprovalClaim
    from holdfast.schemas.log_entry import Entry, ErrorEntry, NoticeEntry, RemarkEntry
    from holdfast.schemas.names import ErrorCode
    from holdfast.schemas.phrases import quote_value, suggest_names
    from holdfast.schemas.run import CallRequest, DelegateNews, PrincipalToken

from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows import decisions, input, token_verification
from holdfast.workflows.commands.interceptors import Trace
from holdfast.workflows.commands.publisher import Publisher, sent_attributes, updates
from holdfast.workflows.commands.step_executor import StepExecutor
from holdfast.workflows.engine.approvals.pending import MAX_EARLY_DECISIONS, PendingApprovals
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected
from holdfast.workflows.engine.continue_as_new import with_shared_definition
from holdfast.workflows.engine.execution_base import ExecutionBase, SingleCall
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.log.spans import SpansProgress
from holdfast.workflows.engine.phases import Fail, Finish, RunCalls, Step
from holdfast.workflows.engine.run_state import TokenRejected
from holdfast.workflows.queries import QueryHandlers

MAX_NOTES = 256
_RESET_AT_START = "reset-at-start"
_RESOLVERS = {"agent": names.RESOLVE_AGENT, "tool": names.RESOLVE_TOOL}

WorkT = TypeVar("WorkT", bound=ExecutionBase)
SnapshotT = TypeVar("SnapshotT", AgentSnapshot, ToolSnapshot)


class RunClock:
    """The time of the present activation, which the SDK computes at each question."""

    def __init__(self) -> None:
        self._at: datetime | None = None
        self._seconds = 0.0

    def __call__(self) -> datetime:
        """Return it as `workflow.now` does."""
        # Not `asyncio.get_running_loop`: the sandbox checks each use of a module's attribute.
        seconds = get_running_loop().time()
        if self._at is None or seconds != self._seconds:
            self._at, self._seconds = workflow.now(), seconds
        return self._at


class BaseWorkflow(QueryHandlers, ABC, Generic[WorkT]):
    """A workflow around one `ExecutionBase`, from its start to its end.

    `signals` are the signals that people send to it.
    """

    signals: ClassVar[Sequence[str]] = (names.APPROVE,)

    def __init__(self) -> None:
        self._pending = PendingApprovals()
        self._task_budget = input.TaskBudget()
        self.trace = Trace()
        # Both exist from the start of the work on.
        self._work: WorkT | None = None
        self._executor: StepExecutor | None = None
        # Whether the worker has accepted the request, or the state of the previous run.
        self.is_admitted = False
        self._start_failure: Fail | None = None
        self.clock = RunClock()
        self._start_log = Log(self.clock)
        # The search attributes of the namespace, as soon as the worker has reported them.
        self._search_attributes: list[str] = []
        self._early_decisions: list[RawValue] = []
        self._late = decisions.LateDecisions(self._task_budget.input)
        self._early_entries: list[Entry] = []
        self._note_count = 0
        # The length of the history at the last input from a person.
        self._input_at = 0
        self._start_details = ""
        self._is_reset = False
        # Temporal offers no other sign of a reset: a reset run gets a new random seed.
        workflow.register_random_seed_callback(self._note_reset)
        # How far the previous run of the chain is recorded as spans.
        self._previous_spans: SpansProgress | None = None

    @abstractmethod
    async def _begin(self) -> tuple[WorkT, WorkerFacts]:
        """Build the work from the request, or from the state of the previous run."""

    async def _proceed(self, work: WorkT, executor: StepExecutor) -> None:
        work.proceed()

    @abstractmethod
    async def _execute(self, work: WorkT, executor: StepExecutor, step: Step) -> None:
        """Execute a step that is not the end, and report its outcome to the work."""

    def runs_once(self, activity_id: str) -> bool:
        turn = None if self._work is None else self._work.phases.turn
        calls = [] if turn is None else turn.executed_calls
        return any(call.id == activity_id and call.tool.once for call in calls)

    @property
    def turn(self) -> int:
        """Return the current turn, for the worker's log; 0 before the first."""
        return 0 if self._work is None else self._work.state.meter.turns

    def details(self) -> str:
        """Return the current details that Temporal's UI shows, in Markdown."""
        executor = self._executor
        return self._start_details if executor is None else executor.publisher.page.read()

    # From start to end.

    async def _run(self) -> dict[str, Any]:
        # After a reset to the first task, it may be there before this object. A history from before
        # this was noticed continues as it began.
        first_seed = workflow.extern_functions().get(names.FIRST_SEED, workflow.random_seed)
        if first_seed() != workflow.random_seed() and workflow.patched(_RESET_AT_START):
            self._note_reset()
        work, executor = await self._start()
        try:
            while True:
                executor.publisher.update()
                await self.trace.record_spans(work)
                await self._proceed(work, executor)
                step = work.step
                if isinstance(step, Finish | Fail):
                    await self._finish(executor)
                    return _result(step, work)
                await self._execute(work, executor, step)
        except asyncio.CancelledError:
            end = work.phases.end
            work.cancel()
            await self._finish(executor)
            if end is not None:  # the cancellation came after the end
                return _result(end, work)
            # Temporal passes no details of a cancelled child on to its parent.
            if work.state.is_delegate and (unknown := work.calls_of_unknown_outcome()):
                message = f"it was cancelled; whether {unknown} took effect is unknown"
                input.fail(ErrorCode.OUTCOME_UNKNOWN, message, work.get_spent())
            raise

    async def _start(self) -> tuple[WorkT, StepExecutor]:
        """Build the work, and pass to it all input that arrived before it."""
        try:
            work, facts = await self._begin()
        except (ApplicationError, asyncio.CancelledError, *input.FAILURES) as error:
            match error:
                case ApplicationError(type=str(code)):
                    self._end_before_start(code, error.message)
                case asyncio.CancelledError():
                    message = "the run was cancelled before it began"
                    self._end_before_start(ErrorCode.CANCELLED, message)
                case _:
                    self._end_before_start(names.INVALID_REQUEST, str(error))
            await workflow.wait_condition(workflow.all_handlers_finished)
            raise
        self.is_admitted = True
        work.state.was_reset |= self._is_reset
        work.state.is_delegate = workflow.memo_value(names.DELEGATE_OF, default=None) is not None
        work.state.count_in(token_verification.budget_scopes(work.state.principal, facts))
        self.trace.begin(work, facts, self._previous_spans)
        publisher = Publisher(work, facts)
        executor = StepExecutor(work, facts, publisher, self.trace)
        self._work, self._executor = work, executor
        for entry in self._early_entries:
            work.state.log.append(entry)
        for decision in self._early_decisions:
            await self._count_decision(executor, decision, self._task_budget.run)
        return work, executor

    def _end_before_start(self, code: str, message: str) -> None:
        self._start_failure = end = Fail(code, message)
        for entry in (*self._early_entries, ErrorEntry(code=code, message=message)):
            self._start_log.append(entry)
        # Who the request names was not verified.
        last = {names.AGENT_STATUS: end.status, names.AGENT_PRINCIPAL: None}
        if changed := updates(sent_attributes(), last, self._search_attributes):
            workflow.upsert_search_attributes(changed)

    async def _admit(
        self,
        parsed: input.ParsedRequest[token_verification.RequestT],
        what: str,
        model: type[SnapshotT],
    ) -> tuple[token_verification.RequestT, SnapshotT]:
        """Read the definition (of an agent or a tool) that a request names, and authorize it."""
        self._start_details = (
            f"The run begins: its {what}'s definition is read. If it has ended, the tab"
            " **Timeline** shows why."
        )
        more: dict[str, Any] = {} if parsed.agents is None else {"snapshots": parsed.agents}
        try:
            resolved = await workflow.execute_local_activity(
                _RESOLVERS[what],
                {**(parsed.raw or {}), **more},
                schedule_to_close_timeout=parse_duration("1m"),
                # A pause is a timer, and not a part of the workflow task.
                local_retry_threshold=parse_duration("100ms"),
                summary=f"Reads the {what}'s definition",
            )
        except FailureError as error:
            if workflow.cancellation_reason() is not None:
                raise asyncio.CancelledError from error
            failure = input.activity_failure(error)
            self._search_attributes = [str(name) for name in failure.details]
            input.fail(names.INVALID_REQUEST, parsed.problem or failure.message)
        if parsed.request is None:
            input.fail(names.INVALID_REQUEST, parsed.problem)
        snapshot = model.read(with_shared_definition(resolved))
        self._search_attributes = snapshot.worker.search_attributes
        return await token_verification.authorize(
            parsed.request, what, snapshot.worker, parsed.raw, *more.values()
        ), snapshot

    async def _finish(self, executor: StepExecutor) -> None:
        """Publish the end, give notifications a moment to be delivered, and let handlers finish."""
        executor.publisher.update()
        await self.trace.record_spans(executor.work)
        await executor.publisher.notifier.wait_for_delivery()
        await workflow.wait_condition(workflow.all_handlers_finished)

    def _note_reset(self, _: int = 0) -> None:
        """Mark the run as reset: calls after this point may have run before."""
        self._is_reset = True
        if self._work is not None:
            self._work.state.was_reset = True

    # Decisions, and signals that are not for people.

    @workflow.signal(
        name=names.APPROVE,
        description="Decide on an approval: an invalid decision is ignored. See User Metadata.",
    )
    @input.raw_payload_handler
    async def approve(self, decision: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        """Record a decision; a rejected one is noted in the log."""
        self._accept_input()
        number = self._late.number_signal()
        if self._executor is not None:
            limits = self._task_budget.input
            await self._count_decision(self._executor, decision, limits, number)
        elif len(self._early_decisions) < MAX_EARLY_DECISIONS:
            self._early_decisions.append(decision)
        else:
            self._note("a decision was ignored: too many were sent before the run started")

    @workflow.signal(
        name=names.DELEGATE_WAITS, description="Internal: the pending approvals of a delegate"
    )
    @input.raw_payload_handler
    def delegate_waits(self, news: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        """Record the pending approvals of a delegate; invalid news is ignored."""
        with suppress(ValueError):
            known = DelegateNews.read(input.payload_value(news))
            if self._executor is not None:
                self._executor.work.delegates.update_pending(known)
                self._executor.publisher.update()

    @workflow.signal(dynamic=True, description="Any other name: it is noted, and ignored")
    def unknown(self, signal: str, _: Sequence[RawValue]) -> None:
        """Note a signal of an unknown name, since its sender gets no answer."""
        hint = suggest_names(signal, self.signals)
        self._note(
            f"the signal {quote_value(signal)} was ignored: there is no signal of this name; {hint}"
        )

    @workflow.update(
        name=names.DECIDE,
        description="Decide on an approval: an invalid decision is rejected. See User Metadata.",
    )
    @input.raw_payload_handler
    async def decide(self, decision: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Count a decision, and return a `schemas.decision.Receipt`."""
        self._accept_input()
        assert self._executor is not None  # the validator found the call
        at, limits = workflow.now(), self._task_budget.input
        try:
            with self._pending.hold():
                meant = await decisions.verify_decision(
                    self._pending, input.parse_decision(decision), at, limits
                )
                receipt = self._executor.work.questions.count(meant, at, limits)
        except DecisionRejected as error:
            input.fail(error.code, str(error))
        self._executor.publisher.update()
        return receipt.to_json()

    @decide.validator
    @input.raw_payload_handler
    def _check_decide(self, decision: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        with self._validating(decision, names.INVALID_DECISION):
            meant = decisions.unverified_decision(input.parse_decision(decision))
            limits, run_id = self._task_budget.validation, workflow.info().run_id
            self._pending.check(meant, workflow.now(), limits, run_id)

    @workflow.update(
        name=names.CLAIM,
        description="Show that you look at a pending call: {callId, by, groups, seconds}",
    )
    @input.raw_payload_handler
    def claim(self, claim: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Show or end a claim, and return the `schemas.decision.Claimed`."""
        try:
            return self._pending.claim(_claim(claim), workflow.now()).to_json()
        except DecisionRejected as error:
            input.fail(error.code, str(error))

    @claim.validator
    @input.raw_payload_handler
    def _check_claim(self, claim: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        with self._validating(claim, names.INVALID_REQUEST):
            self._pending.check_claim(_claim(claim), workflow.now())

    @workflow.update(
        name=names.RENEW,
        description="Continue with a new token of the principal, where theirs expires: {token}",
    )
    @input.raw_payload_handler
    async def renew(self, token: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Renew the principal's token, and return the `schemas.run.Principal`.

        A delegate accepts a token for itself, or for the root run.
        """
        self._accept_input()
        assert self._executor is not None  # the validator has checked
        info = workflow.info()
        runs = [info.workflow_id, *([info.root.workflow_id] if info.root else [])]
        at = workflow.now()
        try:
            with self._pending.hold():
                known = await token_verification.verify_principal(_token(token).token, runs)
                self._check_not_ended()
                renewed = self._executor.work.questions.renew(known, at)
        except TokenRejected as error:
            input.fail(names.INVALID_TOKEN, str(error))
        self._executor.publisher.update()
        return renewed.to_json()

    @renew.validator
    @input.raw_payload_handler
    def _check_renew(self, token: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        with self._validating(token, names.INVALID_REQUEST):
            _token(token)
        principal = None if self._work is None else self._work.state.principal
        if principal is None or principal.expires_at is None:
            input.fail(names.INVALID_REQUEST, "the run acts for no principal whose token expires")
        self._check_not_ended()

    def _check_not_ended(self) -> None:
        if self._work is not None and self._work.phases.end is not None:
            input.fail(names.INVALID_REQUEST, "the run has ended: its token is not renewed")

    # Input from people.

    @contextmanager
    def _validating(self, payload: RawValue, code: str) -> Iterator[None]:
        """Reject an update whose payload does not fit, with this code, within its own budget."""
        try:
            self._task_budget.admit(payload, trace=False)
            yield
        except input.InvalidInputError as error:
            input.fail(code, str(error))
        except DecisionRejected as error:
            input.fail(error.code, str(error))

    def _accept_input(self) -> None:
        """Remember the workflow task of the last input from people."""
        self._input_at = workflow.info().get_current_history_length()

    async def _count_decision(
        self,
        executor: StepExecutor,
        raw: RawValue,
        limits: ValidationLimits,
        number: int | None = None,
    ) -> None:
        try:
            self._task_budget.admit(raw)
            decision = input.parse_decision(raw)
        except input.InvalidInputError as error:
            self._note(f"a decision was ignored: {error}")
            return
        if self._pending.add_early(decision):
            return
        question, now = self._pending.find_open(decision.call_id), workflow.now()
        if number is not None and question is not None and question.expires_at <= now:
            await self._late.count(
                executor.work, decisions.LateDecision(decision, raw.payload.data, number)
            )
        else:
            await decisions.count_decision(executor.work, decision, now, limits)
        executor.publisher.update()

    def _note(self, text: str) -> None:
        """Log an ignored input, as soon as there is a log."""
        self._note_count += 1
        if self._note_count > MAX_NOTES:
            return
        if self._note_count == MAX_NOTES:
            text = "something was ignored; further ignored input is not logged"
        self._log(NoticeEntry(text=text))

    def _log(self, entry: Entry) -> None:
        """Log an entry, as soon as there is a log; only a message for people follows its end."""
        if self._work is None:
            self._early_entries.append(entry)
        elif self._work.phases.end is None or isinstance(entry, RemarkEntry):
            self._work.state.log.append(entry)


def _token(raw: Any) -> PrincipalToken:
    return input.parse_model(input.payload_value(raw), PrincipalToken, '{"token": …}')


def _claim(raw: Any) -> ApprovalClaim:
    example = '{"callId": …, "by": …, "groups": […], "seconds": 900}'
    return input.parse_model(input.payload_value(raw), ApprovalClaim, example)


def _result(step: Finish | Fail, work: ExecutionBase) -> dict[str, Any]:
    if isinstance(step, Fail):
        # The failure's type is the code.
        input.fail(step.code, step.message.removeprefix(f"{step.code}: "), work.get_spent())
    return step.result.to_json()


@workflow.defn(name=names.CALL_WORKFLOW, failure_exception_types=input.FAILURES)
class CallWorkflow(BaseWorkflow[SingleCall]):
    """One call of one tool, from a `schemas.run.CallRequest` to a `RunResult`.

    A call that ends in an error fails the workflow with it: its type is the error's code.
    """

    @workflow.init
    @input.raw_payload_handler
    def __init__(self, request: RawValue = input.MISSING_PAYLOAD, *more: Any) -> None:
        super().__init__()
        self._request = input.parse_request(
            request, more, CallRequest, '{"tool": …, "arguments": {…}}'
        )

    @workflow.run
    @input.raw_payload_handler
    async def run(self, request: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Run the call from its request to its end."""
        return await self._run()

    async def _begin(self) -> tuple[SingleCall, WorkerFacts]:
        request, snapshot = await self._admit(self._request, "tool", ToolSnapshot)
        limits = self._task_budget.run
        self._request = input.ParsedRequest()
        call = SingleCall(request, snapshot.tool, self._pending, self.clock, limits)
        return call, snapshot.worker

    async def _execute(self, call: SingleCall, executor: StepExecutor, step: Step) -> None:
        assert isinstance(step, RunCalls)  # a single call has no other step but its end
        await executor.execute_turn(step.turn)
        call.closed(step)

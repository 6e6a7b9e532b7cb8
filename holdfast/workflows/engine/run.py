"""A run: the rules for its next step.

Events: calls proposed, calls closed.

`proceed` moves the run on to a step; the workflow executes the step and reports its outcome:

    AskModel      ─► model_answered, or, for a summary, summary_answered; or failed, or give_up
    Hook          ─► hook_answered, or give_up
    RunCalls      ─► closed
    AskPeople     ─► budget_decided
    AwaitMessage  ─► (the mailbox has a message or is closed)
    Finish, Fail  ─► the end

Between two steps, the log holds every decision.
"""

from collections.abc import Iterable
from typing import Any, Self

from pydantic import Field

from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.internal.continue_as_new import StepSnapshot
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.log_entry import ForkedEntry
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.names import BUDGET_EXCEEDED, CHOOSE_SKILL, ErrorCode
from holdfast.schemas.run import Ended, RunRequest, RunResult, RunStatus
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.rulings import Expired
from holdfast.workflows.engine.budget.meter import Meter
from holdfast.workflows.engine.call.activities import CallRefused
from holdfast.workflows.engine.call.outcomes import Answered, Failed, Succeeded, refuse
from holdfast.workflows.engine.call.states import Turn
from holdfast.workflows.engine.conversation import initial_context
from holdfast.workflows.engine.conversation.recorded_prefix import RecordedPrefix, check_fork
from holdfast.workflows.engine.conversation.summaries import Summaries, SummariesProgress
from holdfast.workflows.engine.execution import results
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.fixed_calls import constant_answer, propose_fixed_calls
from holdfast.workflows.engine.model.answer import (
    InvalidOutput,
    ParsedAnswer,
    parse_answer,
    propose_calls,
)
from holdfast.workflows.engine.model.prompt import FINALIZE
from holdfast.workflows.engine.model_requests import ModelRequests
from holdfast.workflows.engine.phases import AskPeople, Fail, RunCalls, RunEvent, RunPhases
from holdfast.workflows.engine.request_settings import ModelChoice, ModelProgress, RequestSettings
from holdfast.workflows.engine.run_limits import RunLimits
from holdfast.workflows.engine.run_messages import Mailbox, RunMessages
from holdfast.workflows.engine.run_state import Clock, RunProgress, RunState, RunStateSnapshot
from holdfast.workflows.engine.skills import skill_of
from holdfast.workflows.engine.state.data import MISSING


class RunSnapshot(RunProgress):
    """The fields from which a run between two turns is built, when it starts or continues."""

    ending: Ended | None = None
    kept: RunStateSnapshot
    mailbox: Mailbox
    summaries: SummariesProgress = Field(default_factory=SummariesProgress)
    models: ModelProgress = Field(default_factory=ModelProgress)
    plan: list[StepSnapshot] = []


class AgentRun(ExecutionBase):
    """One run: its log, and the state that is a function of it."""

    def __init__(
        self,
        snapshot: RunSnapshot,
        request: RunRequest,
        agent: ResolvedAgent,
        clock: Clock,
        pages: Iterable[bytes] = (),
        limits: ValidationLimits | None = None,
    ) -> None:
        if request.conversation is False:
            agent = agent.model_copy(update={"change_skill": False})
        progress = RunProgress.read(dict(snapshot))
        state = RunState(request, agent, snapshot.kept, clock, pages, progress, limits)
        super().__init__(state, RunPhases(snapshot.ending), agent.name)
        state.meter.set_actions(agent.on_limit, agent.on_threshold)
        self.progress = state.progress
        self.choice = ModelChoice(agent, state.log, snapshot.models)
        self.mailbox = snapshot.mailbox
        self.planning.approved.restore(snapshot.plan)
        model = "" if self.agent.model is None else self.agent.model.name
        self.summaries = Summaries(state, model, snapshot.summaries)
        self.limits = RunLimits(state, self.phases, self.questions)
        self.settings = RequestSettings(state, self.choice, self.planning.approved, self.summaries)
        self.messages = RunMessages(state, self.phases, request, self.mailbox, self.settings)
        self.requests = ModelRequests(
            state, self.phases, self.settings, self.messages, self.limits, self.fail
        )
        # Whether the run makes calls that no model makes, whose outcome ends it.
        self.is_without_model = False
        self.turns_before = state.meter.turns
        # Whether the run has continued as new, under another history.
        self.continued_as_new = False

    @classmethod
    def start(
        cls,
        request: RunRequest,
        agent: ResolvedAgent,
        mailbox: Mailbox,
        desk: PendingApprovals,
        clock: Clock,
        limits: ValidationLimits | None = None,
        prefix: RecordedPrefix | None = None,
    ) -> Self:
        """Return a new run, or raise `InvalidRequest` if the request does not fit the agent.

        A fork begins with a `prefix`, whose turns it counts on and which no budget of it counts.
        """
        budget = agent.budget.bounded(request.budget)
        if request.conversation is False:
            meter = Meter.of(budget.of_run())
        else:
            meter = Meter.of(budget.of_message(), budget.total)
        choice = request.tool_choice or agent.tool_choice
        origin = prefix or RecordedPrefix()
        meter.begin_after(origin.turns)
        known = dict(origin)
        own_skill = origin.skill if skill_of(agent, origin.skill) is not None else None
        kept = RunStateSnapshot.read({**known, "meter": meter, "desk": desk, "skill": own_skill})
        first = origin.turns if request.tool_choice else 0
        own = {"kept": kept, "mailbox": mailbox, "choice": choice, "settled_after": first}
        snapshot = RunSnapshot.read({**known, **own})
        run = cls(snapshot, request, agent, clock, origin.page_data(), limits)
        if request.fork is not None:
            check_fork(request, run.agent, run.state, origin)
            entry = ForkedEntry(forked_from=request.fork.run, turn=origin.turns)
            run.state.log.append(entry)
        initial_context.write_initial_context(request, run.agent, run.state)
        made = (message["message"].get("calls", ()) for message in run.state.log.messages())
        run.progress.record_answer("", (call["providerId"] for calls in made for call in calls))
        run._begin_fixed(turn=0, calls=0)
        return run

    def snapshot(self) -> RunSnapshot:
        """Return all of its state; call it only between two turns."""
        return RunSnapshot(
            **dict(self.progress),
            ending=self.phases.conclusion,
            kept=self.state.snapshot(),
            mailbox=self.mailbox,
            summaries=self.summaries.progress,
            models=self.choice.progress,
            plan=self.planning.approved.to_snapshot(),
        )

    @property
    def agent(self) -> ResolvedAgent:
        """Return the agent, with the model that answers now and the way in which it is called."""
        return self.choice.agent

    @property
    def is_between_turns(self) -> bool:
        """Return whether the run is between two turns: nothing runs, and no question is open."""
        busy = not self.phases.is_at_rest or self.requests.in_turn or self.summaries.is_active
        return not busy and self.state.meter.turns > 0

    @property
    def status(self) -> RunStatus:
        status = super().status
        return "awaiting_message" if status == "running" and self._may_continue else status

    @property
    def failure(self) -> Fail | None:
        """Return why the run failed, or why the last message of a conversation has no answer."""
        is_waiting = self.status == "awaiting_message"
        problem = self.messages.budget_problem(self.mailbox.heard) if is_waiting else None
        return super().failure if problem is None else Fail(BUDGET_EXCEEDED, problem)

    @property
    def is_steered(self) -> bool:
        """Return whether a message must be read before more calls of a plan start."""
        turn = self.phases.turn
        is_plan = turn is not None and turn.is_plan and not self.is_without_model
        return is_plan and self.mailbox.has_steering_message

    @property
    def is_ending(self) -> bool:
        """Return whether the run ends next, unless a message arrives before."""
        ending = self.phases.conclusion
        goes_on = ending == "completed" and (len(self.mailbox) > 0 or self._may_continue)
        return ending is not None and self.phases.is_at_rest and not goes_on

    @property
    def _may_continue(self) -> bool:
        return self.phases.conclusion is not None and self.messages.is_open

    def proceed(self) -> None:
        """Move on to the next request to the model, to a wait for a message, or to the end."""
        self.messages.end_wait()
        while self.phases.step is None:
            if self.phases.conclusion is None:
                self._go_on()
            elif self.phases.conclusion != "completed" or not (
                self.messages.go_on() or self.messages.wait()
            ):
                self._end(self.phases.conclusion)

    def model_answered(self, solution: Solution) -> None:
        """Process the model's answer."""
        meter, tools, progress = self.state.meter, self.state.tools, self.progress
        if not self.requests.turn_answered(solution):
            return
        answer = parse_answer(solution, self.agent, tools, self.state.limits.budget())
        seen = dict.fromkeys(progress.seen_ids)
        calls = propose_calls(answer.solution, meter.turns, tools, seen)
        progress.record_answer(solution.text if answer.said is None else answer.said, seen)
        message = ChatMessage(
            role="assistant",
            content=solution.text,
            calls=[call.proposed.proposal for call in calls],
            said=answer.said,
            provider_data=solution.provider_data,
        )
        self.state.log.add_message(message)
        self.summaries.turn_answered(solution)
        choosing = self.state.is_choosing_skill
        # A server may return calls although the request forbids them.
        may_call = progress.finalizing is None and (choosing or progress.choice != "none")
        if calls and may_call:
            progress.note_rejection(None)
            chooses = self.agent.change_skill and all(one.name == CHOOSE_SKILL for one in calls)
            is_plan = self.agent.plan == "lazy" and not (choosing or chooses)
            given = None if choosing or answer.output is MISSING else answer
            turn = Turn(meter.turns, calls, is_plan)
            self.phases.move(RunEvent.CALLS_PROPOSED, RunCalls(turn, given))
            return
        self.planning.approved.discard()
        why = "this run makes none" if progress.finalizing is None else FINALIZE
        for call in calls:
            meter.refuse_call(call.name)
            call.end(refuse(ErrorCode.BLOCKED, f"no call is run: {why}"))
        results.close(meter.turns, calls, self.state)
        self._conclude(answer, called=bool(calls))
        self.requests.end_turn()

    def closed(self, step: RunCalls) -> None:
        """Process the closed calls of a turn, any of which may end the run."""
        turn = step.turn
        self.phases.move(RunEvent.CALLS_CLOSED)
        if self.is_without_model:
            self._conclude_fixed(turn)
            return
        self.state.meter.count_iteration()
        if self._take_up_skill(turn):
            return
        self.requests.end_turn()
        if self.state.end_reason is not None:
            self.fail(ErrorCode.APPROVAL_TIMEOUT, self.state.end_reason)
        elif turn.stop_message is not None:
            self.messages.stop(turn.stop_message)
        elif turn.requests_stop:
            self.messages.stop(self.progress.said)
        elif step.answer is not None:
            self._conclude(step.answer, called=True)

    def budget_decided(self, step: AskPeople) -> None:
        """Process the ruling on a budget: its extension, or the end of the run."""
        if isinstance(step.question.ruling, Expired):
            self.questions.log_expiry(step.question)
        if not self.limits.extend(step.budget, step.question.ruling):
            self._exceed(step.budget, is_noted=True)

    def fail(self, code: str, message: str) -> None:
        self.messages.read(ending=True, is_over=True)
        super().fail(code, message)

    def cancel(self) -> None:
        """End every open call with its one result, and end as cancelled."""
        turn = self.phases.turn
        if turn is not None:
            self.abandon(turn, "the run was cancelled")
            if turn.number:
                self.requests.end_turn()
        super().cancel()

    def _go_on(self) -> None:
        self.messages.read(ending=False)
        limit, shared = self.limits.reached(), self.limits.refusal
        if shared is not None:
            if self.limits.apply_refusal(shared):
                self._exceed(shared.label)
        elif limit is None:
            self.requests.begin()
        elif self.state.meter.is_total(limit) or self.limits.apply(limit):
            self._exceed(limit)

    def _take_up_skill(self, turn: Turn) -> bool:
        """Activate a turn's chosen skill; return whether the turn continues, with its activity."""
        for call in reversed(turn.calls):  # the last one applies
            if call.name == CHOOSE_SKILL and isinstance(call.outcome, Succeeded):
                break
        else:
            return False
        changes = not self.state.is_choosing_skill
        chosen, sure = str(call.arguments["skill"]), call.arguments.get("confidence")
        self.settings.take_skill(chosen, "model", confidence=sure, reason=call.meta.reasoning)
        return not changes and self._begin_fixed(turn=turn.number, calls=len(turn.calls))

    def _begin_fixed(self, *, turn: int, calls: int) -> bool:
        """Start the calls of a run without a model; return whether there are any."""
        fixed = propose_fixed_calls(self.choice.written, self.state, turn=turn, calls=calls)
        if fixed is not None:
            self.is_without_model = True
            self.phases.move(RunEvent.CALLS_PROPOSED, RunCalls(fixed))
        return fixed is not None

    def _conclude_fixed(self, turn: Turn) -> None:
        call = turn.decisive_call
        if turn.number:
            self.requests.end_turn()
        else:
            for name in self.state.meter.pass_thresholds():
                self.limits.log_threshold(name)
        error = call.ended.error
        was_cut = isinstance(call.outcome, Failed) or (error and error.code == ErrorCode.BLOCKED)
        if was_cut and self.state.meter.out_of_time:
            self._exceed("maxDuration")
            return
        if isinstance(call.outcome, Succeeded | Answered):
            self.messages.answer(call.outcome.value)
        self.messages.read(ending=True)
        if self.state.end_reason is not None:
            self.fail(ErrorCode.APPROVAL_TIMEOUT, self.state.end_reason)
        elif self.agent.calls and isinstance(call.outcome, Succeeded | Answered):
            try:
                output = constant_answer(self.choice.written, self.state, call.outcome.value)
            except CallRefused as refusal:
                self.fail(refusal.error.code, refusal.error.message)
            else:
                self._hand_on(call, "stopped" if turn.requests_stop else "completed", output)
        else:
            self._end_as(call)

    def _conclude(self, answer: ParsedAnswer, *, called: bool) -> None:
        """Set the output, or send the model an error, which costs a turn."""
        if (limit := self.settings.lacks_final_answer(answer)) is not None:
            self.progress.note_rejection("the final answer has no text")
            self._exceed(limit)
            return
        try:
            output = self.settings.read_output(answer, called=called)
            if self.choice.written.answer is not None:
                output = constant_answer(self.choice.written, self.state, output)
        except InvalidOutput as error:
            self.requests.ask_again(str(error))
        except CallRefused as refusal:
            todo = "Make the calls that are missing, then answer again."
            self.requests.ask_again(f"{refusal.error.code}: {refusal}. {todo}")
        else:
            self.requests.conclude(output)

    def _exceed(self, name: str, *, is_noted: bool = False) -> None:
        self.messages.exceed(name, is_noted=is_noted)
        self.limits.note_refusals([])  # in a conversation, the next message has its own request
        self.requests.leave_turn()

    def _end(self, status: Ended) -> None:
        self.requests.leave_turn()
        self.messages.read(ending=True, is_over=True)
        if status == "completed" and self.progress.exceeded is not None:
            status = "budget_exceeded"
        if status != "budget_exceeded":
            self._finish(self._result(status, self.progress.output))
        else:
            result = self._result(status, None)
            self._finish(result.model_copy(update={"reason": self.progress.reason}))

    def _result(self, status: Ended, output: Any) -> RunResult:
        undelivered = self.mailbox.unread_in_order()
        mine = {"models": self.choice.progress.used, "undelivered": undelivered}
        return super()._result(status, output).model_copy(update=mine)

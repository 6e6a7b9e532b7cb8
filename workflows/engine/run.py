"""A run: the rules for its next step.

`next` returns one step; the workflow executes it, reports its outcome to the run, and calls `next`
again:

    AskModel      ─► model_answered, or, for a summary, summary_answered; or model_failed
    AskHook       ─► hook_answered
    RunCalls      ─► closed
    AskPeople     ─► budget_decided
    AwaitMessage  ─► (the mailbox has a message or is closed)
    Finish, Fail  ─► the end

Between two steps, the log holds every decision.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Self

from holdfast.schemas.agent import Agent, ModelSettings
from holdfast.schemas.budget import BudgetName
from holdfast.schemas.internal.model_request import FailureRuling
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.log_entry import SkillChooser, TurnEndEntry, TurnStartEntry
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.names import CHOOSE_SKILL, MESSAGE_BUDGETS, MODEL_ERROR, ErrorCode, call_id
from holdfast.schemas.run import Conversation, Ended, RunRequest, RunResult, RunStatus
from holdfast.validation.arguments import InvalidArguments, fit
from holdfast.validation.rule_changes import applies
from holdfast.workflows.engine import skills
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.budget.meter import Meter
from holdfast.workflows.engine.call.activities import (
    CallRefused,
    Hook,
    HookResult,
    RunStopped,
    hook_value,
    invalid_hook_result,
)
from holdfast.workflows.engine.call.tool_call import Answered, Failed, Succeeded, Turn, refuse
from holdfast.workflows.engine.conversation import initial_context
from holdfast.workflows.engine.conversation.mailbox import Mailbox
from holdfast.workflows.engine.conversation.summaries import CannotShorten, Summaries
from holdfast.workflows.engine.execution_base import (
    AskHook,
    AskModel,
    AwaitMessage,
    ExecutionBase,
    RunCalls,
    Step,
)
from holdfast.workflows.engine.log.compressed_pages import PAGE_BYTES
from holdfast.workflows.engine.model.answer import (
    InvalidOutput,
    ParsedAnswer,
    constant_answer,
    constant_calls,
    parse_answer,
    propose_calls,
)
from holdfast.workflows.engine.model.model_choice import TOO_LONG, ModelChoice
from holdfast.workflows.engine.model.prompt import FINALIZE
from holdfast.workflows.engine.model.request_hooks import (
    MAX_FURTHER_ATTEMPTS,
    MAX_PAUSE,
    patched_model,
    read_value,
)
from holdfast.workflows.engine.model_requests import ModelRequests, RunSnapshot
from holdfast.workflows.engine.run_state import Clock, RunState, RunStateSnapshot
from holdfast.workflows.engine.state.data import MISSING
from holdfast.workflows.engine.state.references import as_text

# Providers match a result with its call by the nearest id.
MAX_SEEN_IDS = 1_024


class Run(ExecutionBase):
    """One run: its log, and the state that is a function of it."""

    def __init__(
        self,
        snapshot: RunSnapshot,
        request: RunRequest,
        agent: Agent,
        clock: Clock,
        pages: Iterable[bytes] = (),
    ) -> None:
        if request.conversation is False:
            agent = agent.model_copy(update={"change_skill": False})
        state = RunState.of(request, agent, snapshot.kept, clock, pages)
        super().__init__(state, agent.name)
        state.meter.set_actions(agent.on_limit, agent.on_threshold)
        self.choice = ModelChoice(agent, state.log, snapshot.models)
        self.mailbox = snapshot.mailbox
        self.output: Any = snapshot.output
        self.answered_up_to = snapshot.answered_up_to
        self.planning.restore(snapshot.plan)
        model = "" if self.agent.model is None else self.agent.model.name
        self.summaries = Summaries(state, model, snapshot.summaries)
        self.pages = ModelRequests(
            self.choice, state, self.planning, self.questions, self.summaries, snapshot
        )
        # The calls of a run without a model: those of its agent, or the activity of its skill.
        self.whole: Turn | None = None
        hears = request.conversation
        self._conversation = Conversation() if hears is True else hears or None
        self._seen_ids = dict.fromkeys(snapshot.seen_ids)
        self._asking: AskModel | AskHook | None = None
        # The pause before another attempt, as a hook wants it.
        self._pause: timedelta | None = None
        # Whether a turn has started that the model has not answered.
        self._begun = False
        # Which model answered the open turn, for the log.
        self._answered_by: str | None = None
        self._said = snapshot.said
        # The answer that has both the output and the calls that run now.
        self._given: ParsedAnswer | None = None
        self._unknown_told = snapshot.unknown_told
        self._ending = snapshot.ending
        # The budget that ended the run, or the last message of a conversation, before an answer.
        self.exceeded = snapshot.exceeded
        self.turns_before = state.meter.turns
        # Whether the run has continued as new, under another history.
        self.continued_as_new = False

    @classmethod
    def start(
        cls,
        request: RunRequest,
        agent: Agent,
        mailbox: Mailbox,
        desk: PendingApprovals,
        clock: Clock,
    ) -> Self:
        """Return a new run, or raise `InvalidRequest` if the request does not fit the agent."""
        budget = agent.budget.bounded(request.budget)
        if request.conversation is False:
            meter = Meter.of(budget.of_run())
        else:
            meter = Meter.of(budget.of_message(), budget.total)
        run_state = RunStateSnapshot(meter=meter, desk=desk)
        choice = request.tool_choice or agent.tool_choice
        run = cls(
            RunSnapshot(kept=run_state, mailbox=mailbox, choice=choice), request, agent, clock
        )
        initial_context.write_initial_context(request, run.agent, run.state)
        made = (message["message"].get("calls", ()) for message in run.state.log.messages())
        run._seen_ids.update((call["providerId"], None) for calls in made for call in calls)
        run._begin_whole(turn=0, calls=0)
        return run

    def snapshot(self) -> RunSnapshot:
        """Return all of its state; call it only between two turns."""
        return RunSnapshot(
            kept=self.state.snapshot(),
            mailbox=self.mailbox,
            summaries=self.summaries.progress,
            plan=self.planning.to_snapshot(),
            seen_ids=list(self._seen_ids),
            models=self.choice.progress,
            choice=self.pages.wanted,
            output=self.output,
            said=self._said,
            answered_up_to=self.answered_up_to,
            settled_after=self.pages.settled_after,
            finalizing=self.pages.finalizing,
            cut_told=self.pages.cut_told,
            unknown_told=self._unknown_told,
            ending=self._ending,
            exceeded=self.exceeded,
        )

    @property
    def agent(self) -> Agent:
        """Return the agent, with the model that answers now and the way in which it is called."""
        return self.choice.agent

    @property
    def is_between_turns(self) -> bool:
        """Return whether the run is between two turns: nothing runs, and no question is open."""
        busy = self._is_at_work or self._begun or self.summaries.is_active
        return not busy and self.state.meter.turns > 0

    @property
    def status(self) -> RunStatus:
        """Return the status of the run in one word."""
        status = super().status
        return "awaiting_message" if status == "running" and self._idle else status

    @property
    def is_steered(self) -> bool:
        """Return whether a message must be read before more calls of a plan start."""
        is_plan = self._turn is not None and self._turn.is_plan and self.whole is None
        return is_plan and self.mailbox.has_steering_message

    @property
    def is_ending(self) -> bool:
        """Return whether the run ends next, unless a message arrives before."""
        goes_on = self._ending == "completed" and (len(self.mailbox) > 0 or self._idle)
        return self._ending is not None and not self._is_at_work and not goes_on

    @property
    def _is_at_work(self) -> bool:
        return bool(self.last_step or self._turn or self.pages.question or self._asking)

    @property
    def _idle(self) -> bool:
        hears = self._conversation is not None and not self.mailbox.closed
        return self._ending is not None and hears

    def next(self) -> Step:
        """Return the next step; the same one until it is executed."""
        if self.last_step is not None:
            return self.last_step
        if self._turn is not None:
            return RunCalls(self._turn)
        waiting = self.pages.question or self._asking
        if waiting is not None:
            return waiting
        if self._ending is not None:
            return self._end(self._ending)
        return self._go_on()

    def model_answered(self, solution: Solution) -> None:
        """Process the model's answer."""
        self._asking = None
        meter, tools = self.state.meter, self.state.tools
        if not self.charge_answer(solution, self.pages.agent.own_model, is_turn=True):
            if solution.no_tools:
                self.choice.compose_calls(self.pages.agent.own_model)
            elif not self.next_model(TOO_LONG):
                self.summaries.turn_refused(solution)
            return
        self._begun = False
        self.mailbox.mark_read()
        self._answered_by = self.choice.label(self.pages.agent.own_model)
        answer = parse_answer(solution, self.agent, tools)
        self._said = answer.text or self._said
        calls = propose_calls(answer.solution, meter.turns, tools, self._seen_ids)
        self._seen_ids = dict.fromkeys(list(self._seen_ids)[-MAX_SEEN_IDS:])
        message = ChatMessage(
            role="assistant",
            content=solution.text,
            calls=[call.proposal for call in calls],
            said=answer.said,
            provider_data=solution.provider_data,
        )
        self.state.log.add_message(message)
        self.summaries.turn_answered(solution)
        choosing = self.state.is_choosing_skill
        # A server may return calls although the request forbids them.
        may_call = self.pages.finalizing is None and (choosing or self.pages.wanted != "none")
        if calls and may_call:
            chooses = self.agent.change_skill and all(one.name == CHOOSE_SKILL for one in calls)
            is_plan = self.agent.plan == "lazy" and not (choosing or chooses)
            self._turn = Turn(meter.turns, calls, is_plan)
            self._given = None if choosing or answer.output is MISSING else answer
            return
        self.planning.discard()
        why = "this run makes none" if self.pages.finalizing is None else FINALIZE
        for call in calls:
            meter.refuse_call(call.name)
            call.end(refuse(ErrorCode.BLOCKED, f"no call is run: {why}"))
        self.calls.close(meter.turns, calls)
        self._conclude(answer, called=bool(calls))
        self._end_turn()

    def summary_answered(self, solution: Solution) -> None:
        """Process the model's summary of the older part of the conversation."""
        self._asking = None
        model = self.pages.agent.own_model
        is_answer = self.charge_answer(solution, model) or solution.too_long
        if is_answer:
            self.summaries.summary_answered(solution)
        else:
            self.choice.compose_calls(model)

    def model_failed(self, message: str) -> None:
        """Ask the hook `_onModelError`, go to the next model, or end the run with the error."""
        asked, self._asking = self._asking, None
        self._fail_request(
            message, is_turn=isinstance(asked, AskModel) and not asked.pointer.summary
        )

    def _fail_request(self, message: str, *, is_turn: bool) -> None:
        hook = self.pages.hook_on_error(message) if is_turn else None
        if hook is not None:
            self._asking = AskHook(hook)
        elif not self.next_model(message):
            self.fail(MODEL_ERROR, message)

    def hook_answered(self, hook: Hook, result: HookResult) -> None:
        """Process the value of a hook around a request; one that fails, fails the run."""
        self._asking = None
        try:
            value = hook_value(hook.name, result)
            if hook.name == "beforeModel":
                self.pages.change(value)
                self._request(self.state.meter.turns + 1)
            else:
                self._handle_failure(hook.n, hook.arguments[0]["error"]["message"], value)
        except RunStopped as stop:
            self.output, self._ending = str(stop), "stopped"
        except CallRefused as refusal:
            self.fail(MODEL_ERROR, str(refusal))

    def _handle_failure(self, attempt: int, failure: str, value: Any) -> None:
        """Do what `_onModelError` wants about a failure; it may add a few attempts to a turn."""
        if value in (None, {}):
            if not self.next_model(failure):
                self.fail(MODEL_ERROR, failure)
            return
        ruling = read_value(value, FailureRuling, "onModelError")
        if ruling.stop is not None:
            raise RunStopped(ruling.stop)
        if ruling.fail is not None:
            self.fail(MODEL_ERROR, ruling.fail or failure)
        elif ruling.output is not None:
            self._answer_for_model(ruling.output, failure)
        elif attempt > MAX_FURTHER_ATTEMPTS:
            why = f"`_onModelError` may add {MAX_FURTHER_ATTEMPTS} attempts to a turn"
            self.fail(MODEL_ERROR, f"{failure} ({why})")
        elif ruling.model is None:
            self._pause = min(ruling.after, MAX_PAUSE)
        else:
            other = patched_model(self.agent.own_model, ruling.model, "onModelError")
            self.choice.use(other, self.pages.agent.own_model, failure)
            self.summaries.use_model(other.name)

    def _answer_for_model(self, output: Any, failure: str) -> None:
        """Take an output in place of the model's answer."""
        schema = self.agent.output
        try:
            self.output = as_text(output) if schema is None else fit(output, schema)
        except InvalidArguments as error:
            why = f"its `output` does not fit: {error}"
            raise invalid_hook_result("onModelError", why) from None
        text = f"the hook `_onModelError` answered for the model, which failed: {failure}"
        self.state.log.add_notice(text)
        self.state.log.add_message(ChatMessage(role="assistant", content=as_text(self.output)))
        self.mailbox.mark_read()
        self._leave_turn()
        self._complete()

    def next_model(self, why: str, failed: ModelSettings | None = None) -> bool:
        """Go to the agent's next model, unless the run left the `failed` one before.

        Returns:
            Whether there is another model.
        """
        if failed is not None and failed != self.agent.model:
            return True
        if not self.choice.next_model(failed or self.pages.agent.own_model, why):
            return False
        self.summaries.use_model(self.agent.own_model.name)
        return True

    def turn_timed_out(self) -> None:
        """End the turn without an answer, because the run's time is used up."""
        self._asking = None
        self._leave_turn()

    def closed(self, turn: Turn) -> None:
        """Process the closed calls of the turn, any of which may end the run."""
        self._turn = None
        if self.whole is not None:
            self._conclude_whole(turn)
            return
        self.state.meter.count_iteration()
        if self._take_up_skill(turn):
            return
        self._end_turn()
        if self.state.end_reason is not None:
            self.fail(ErrorCode.APPROVAL_TIMEOUT, self.state.end_reason)
        elif turn.stop_message is not None:
            self.output, self._ending = turn.stop_message, "stopped"
        elif turn.requests_stop:
            self.output, self._ending = self._said, "stopped"
        elif self._given is not None:
            self._conclude(self._given, called=True)

    def budget_decided(self) -> None:
        """Apply the ruling on a budget."""
        asked = self.pages.question
        if asked is not None and not self.pages.extend():
            self._exceed(asked.budget, is_noted=True)

    def fail(self, code: str, message: str) -> None:
        """End the run with an error."""
        self._hear(ending=True, is_over=True)
        super().fail(code, message)

    def cancel(self) -> None:
        """End every open call with its one result, and end as cancelled."""
        turn = self.open_turn
        if turn is not None:
            self.abandon(turn, "the run was cancelled")
            if turn.number:
                self._end_turn()
        super().cancel()

    def _go_on(self) -> Step:
        """Ask people about a budget, or request a due summary or the next turn from the model."""
        self._hear(ending=False)
        limit = self.pages.reached()
        if limit is not None:
            if self.state.meter.is_total(limit) or self.pages.apply(limit):
                self._exceed(limit)
            return self.next()
        turn = self.state.meter.turns + 1
        activity = self.agent.hooks.before_model
        if activity is None:
            return self._request(turn)
        self._begin_turn(turn)
        self._asking = AskHook(self.pages.hook_before(activity))
        return self._asking

    def _request(self, turn: int) -> Step:
        """Request a summary that is due, or the turn, from the model."""
        try:
            pointer = self.summaries.due_request(turn)
        except CannotShorten as error:
            self._fail_request(str(error), is_turn=True)
            return self.next()
        if pointer is None:
            self._begin_turn(turn)
            pointer = self.summaries.pointer(turn)
        self._asking, self._pause = AskModel(pointer, self._pause), None
        return self._asking

    def _begin_turn(self, turn: int) -> None:
        if not self._begun:
            self._begun = True
            self.state.log.append(TurnStartEntry(turn=turn))

    def _take_up_skill(self, turn: Turn) -> bool:
        """Activate a turn's chosen skill; return whether the turn goes on, with its activity."""
        choices = [one for one in turn.calls if one.name == CHOOSE_SKILL]
        taken = [call for call in choices if isinstance(call.outcome, Succeeded)]
        if not taken:
            return False
        call, changes = taken[-1], not self.state.is_choosing_skill  # the last one is in force
        chosen, sure = str(call.arguments["skill"]), call.arguments.get("confidence")
        self._take_skill(chosen, "model", confidence=sure, reason=call.meta.reasoning)
        return not changes and self._begin_whole(turn=turn.number, calls=len(turn.calls))

    def _take_skill(self, name: str, by: SkillChooser, **why: Any) -> None:
        """Activate a skill; the first one has the first turn, to which a forced call applies."""
        is_first = self.state.is_choosing_skill
        self.planning.discard()  # another skill may have other tools of these names
        self.state.take_skill(name, by, **why)
        lacking = self.pages.settle() if is_first else None
        if lacking is not None:
            text = f"the skill `{name}` has no tool `{lacking}`: it is not asked to call it first"
            self.state.log.add_notice(text)

    def _begin_whole(self, *, turn: int, calls: int) -> bool:
        """Start the constant calls, or the skill's activity; return whether there are any.

        They belong to turn number `turn` (0: to none) with this number of calls.
        """
        own = call_id(max(turn, 1), calls + 1)
        whole = constant_calls(self.agent)
        call = skills.activity_call(self.agent, self.state.skill, self.state.data["input"], own)
        whole += [] if call is None else [call]
        if not whole:
            return False
        proposals = [each.proposal for each in whole]
        self.state.log.add_message(ChatMessage(role="user", calls=proposals))
        is_plan = self.agent.plan == "lazy" and bool(self.agent.calls)
        self.whole = self._turn = Turn(turn, whole, is_plan)
        return True

    def _conclude_whole(self, turn: Turn) -> None:
        """End the run with the outcome of its calls, which are closed."""
        call = turn.decisive_call
        if turn.number:
            self._end_turn()
        else:
            self.pages.log_thresholds()
        if isinstance(call.outcome, Failed) and self.state.meter.out_of_time:
            self._exceed("maxDuration")
            return
        if isinstance(call.outcome, Succeeded | Answered):
            self.output, self.answered_up_to = call.outcome.value, self.mailbox.heard
        self._hear(ending=True)
        if self.state.end_reason is not None:
            self.fail(ErrorCode.APPROVAL_TIMEOUT, self.state.end_reason)
        elif self.agent.calls and isinstance(call.outcome, Succeeded | Answered):
            try:
                output = constant_answer(self.agent, self.state.data, call.outcome.value)
            except CallRefused as refusal:
                self.fail(refusal.error.code, refusal.error.message)
            else:
                self._hand_on(call, "stopped" if turn.requests_stop else "completed", output)
        else:
            self._end_as(call)

    def _conclude(self, answer: ParsedAnswer, *, called: bool) -> None:
        """Set the output, or send the model an error, which costs a turn."""
        limit = self.pages.lacks_final_answer(answer)
        if limit is not None:
            self._exceed(limit)
            return
        try:
            self.output = self.pages.read_output(answer, called=called)
        except InvalidOutput as error:
            self.state.log.add_message(ChatMessage(role="user", content=str(error)))
        else:
            self._complete()

    def _complete(self) -> None:
        """Answer every message that was read so far with the output."""
        self.answered_up_to, self.exceeded = self.mailbox.heard, None
        self._ending = "completed"

    def _exceed(self, name: BudgetName, *, is_noted: bool = False) -> None:
        """End the run on a budget, or in a conversation its message: others may follow."""
        self.exceeded, self._ending = name, "budget_exceeded"
        text = f"the budget {name} is used up"
        is_of_all = self._conversation is None or self.state.meter.is_total(name)
        if not is_of_all and applies(MESSAGE_BUDGETS):
            self._ending, self.answered_up_to = "completed", self.mailbox.heard
            text += " for this message; the next one has its own"
        if not is_noted:
            self.state.log.add_notice(text)
        if self._ending == "completed":
            self._leave_turn()

    def _end(self, status: Ended) -> Step:
        """End the run, unless there is a message, or one may still arrive."""
        conversation = self._conversation
        if status == "completed" and self._hear(ending=True):
            self._ending = None
            self.pages.go_on()
            if conversation is not None:
                self.state.meter.begin_message()
            return self._go_on()
        if status == "completed" and conversation is not None and not self.mailbox.closed:
            return AwaitMessage(conversation.idle_timeout)
        self._leave_turn()
        self._hear(ending=True, is_over=True)
        if status == "completed" and self.exceeded is not None:
            status = "budget_exceeded"
        output = self.output if status != "budget_exceeded" else None
        return self._finish(self._result(status, output))

    def _result(self, status: Ended, output: Any) -> RunResult:
        undelivered = sorted(self.mailbox.unread, key=lambda message: message.number)
        mine = {"models": self.choice.progress.used, "undelivered": undelivered}
        return super()._result(status, output).model_copy(update=mine)

    def _hear(self, *, ending: bool, is_over: bool = False) -> bool:
        """Move messages from the mailbox to the log, and return whether there were any.

        Once the run is over, they are in the log only, and change no skill.
        """
        heard = self.mailbox.take(ending=ending)
        for message in heard:
            if message.skill is not None and not is_over:
                self._change_skill(message.skill)
            initial_context.append_message(self.state, message)
        return bool(heard)

    def budget_problem(self, number: int) -> str | None:
        """Return the budget because of which a message has no answer, if that is the reason."""
        if self.exceeded is None:
            return None
        if self.answered_up_to >= number:
            limit = self.state.meter.limit(self.exceeded)
            return (
                f"the budget {self.exceeded} ({limit}) of this message is used up; send the next"
                " message, or raise `budget.perMessage`"
            )
        is_over = self._ending == "budget_exceeded"
        return f"the run has ended: its budget {self.exceeded} is used up" if is_over else None

    def skill_problem(self, name: str) -> str | None:
        """Return why a message cannot change the skill to this one, if so."""
        if self._conversation is None:
            return "`skill`: only a conversation changes its skill"
        return skills.skill_problem(self.agent, name, is_change=True)

    def _change_skill(self, name: str) -> None:
        problem = self.skill_problem(name)
        if problem is not None:
            self.state.log.add_notice(f"a message keeps the skill: {problem}")
        elif name != self.state.skill:
            self._take_skill(name, "request")

    def _leave_turn(self) -> None:
        """End a turn that was started and has no answer."""
        if self._begun:
            self._begun = False
            self._end_turn()

    def _end_turn(self) -> None:
        meter, log = self.state.meter, self.state.log
        self.pages.log_thresholds()
        log.append(TurnEndEntry(turn=meter.turns, usage=meter.usage(), model=self._answered_by))
        self._answered_by = None
        log.seal(PAGE_BYTES)

    def charge_answer(
        self, solution: Solution, model: ModelSettings, *, is_turn: bool = False
    ) -> bool:
        """Count an answer, and return True; a request that the model refuses has none: it is free.

        A model can refuse a conversation as too long, and tools, if it was offered some.
        """
        notices, meter = list(solution.notices), self.state.meter
        has_no_tools = solution.no_tools and self.agent.calling == "native"
        is_answer = not (solution.too_long or has_no_tools)
        if is_answer:
            meter.charge(solution.usage, turns=int(is_turn))
            self.choice.count(model, solution.usage, turns=int(is_turn))
            unknown = meter.unmetered_budget()
            if unknown is not None and not self._unknown_told:
                self._unknown_told = True
                why = "the provider does not report its usage"
                notices.append(f"{why}: the budget {unknown} cannot be kept to")
        for notice in notices:
            self.state.log.add_notice(notice)
        return is_answer

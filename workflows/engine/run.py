"""A run: the rules for its next step.

`next` returns one step; the workflow executes it, reports its outcome to the run, and calls `next`
again:

    AskModel      ─► model_answered, or, for a summary, summary_answered; or fail
    RunCalls      ─► closed
    AskPeople     ─► budget_decided
    AwaitMessage  ─► (the mailbox has a message or is closed), or `close`
    Finish, Fail  ─► the end

Between two steps, the log holds every decision.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Self

from pydantic import Field, JsonValue

from holdfast.schemas.agent import Agent, BudgetName, ToolChoice
from holdfast.schemas.base import Lenient
from holdfast.schemas.internal.continue_as_new import StepSnapshot
from holdfast.schemas.internal.model_request import ConversationPointer
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.log_entry import MessageEntry, NoticeEntry, TurnEndEntry, TurnStartEntry
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.names import MODEL_ERROR, ErrorCode, call_id
from holdfast.schemas.run import Ended, RunRequest, RunStatus
from holdfast.workflows.engine import skills
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.budget.meter import Meter
from holdfast.workflows.engine.budget_limits import BudgetLimits
from holdfast.workflows.engine.call.outcome import Answered, Failed, Succeeded, refuse
from holdfast.workflows.engine.call.tool_call import ToolCall, Turn
from holdfast.workflows.engine.conversation import initial_context
from holdfast.workflows.engine.conversation.mailbox import Mailbox
from holdfast.workflows.engine.conversation.summaries import (
    CannotShorten,
    Summaries,
    SummariesProgress,
)
from holdfast.workflows.engine.execution.preparation import propose_calls
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.log.compressed_pages import PAGE_BYTES
from holdfast.workflows.engine.model import prompt
from holdfast.workflows.engine.model.answer import (
    InvalidOutput,
    ParsedAnswer,
    answer_output,
    parse_answer,
)
from holdfast.workflows.engine.model.tool_choice import ToolChoiceState
from holdfast.workflows.engine.request_pages import RequestPages
from holdfast.workflows.engine.run_state import RunState, RunStateSnapshot
from holdfast.workflows.engine.state.data import MISSING
from holdfast.workflows.engine.steps import AskModel, AwaitMessage, RunCalls, Step

# Providers match a result with its call by the nearest id.
MAX_SEEN_IDS = 1_024


class RunSnapshot(Lenient):
    """The fields from which a run between two turns is built, when it starts or continues."""

    kept: RunStateSnapshot
    mailbox: Mailbox
    summaries: SummariesProgress = Field(default_factory=SummariesProgress)
    plan: list[StepSnapshot] = []
    seen_ids: list[str] = []
    choice: ToolChoice = "auto"
    output: JsonValue = None
    said: str | None = None
    answered_up_to: int = 0
    settled_after: int = 0
    finalizing: int | None = None
    unknown_told: bool = False
    ending: Ended | None = None


class Run(ExecutionBase):
    """One run: its log, and the state that is a function of it."""

    def __init__(
        self,
        snapshot: RunSnapshot,
        request: RunRequest,
        agent: Agent,
        clock: Callable[[], datetime],
        pages: Iterable[bytes] = (),
    ) -> None:
        state = RunState.of(request, agent, snapshot.kept, clock, pages)
        super().__init__(state)
        state.meter.set_actions(agent.on_limit)
        self.agent = agent
        self.mailbox = snapshot.mailbox
        self.output: Any = snapshot.output
        self.answered_up_to = snapshot.answered_up_to
        self.planning.restore(snapshot.plan)
        self._choice = ToolChoiceState(state, agent, snapshot.choice, snapshot.settled_after)
        self._limits = BudgetLimits(state, self.calls, snapshot.finalizing)
        # The only call of the run, if the skill is an activity.
        self._whole: ToolCall | None = None
        self._conversation = initial_context.conversation(request)
        self._seen_ids = dict.fromkeys(snapshot.seen_ids)
        self._asking: AskModel | None = None
        self._summaries = Summaries(state, agent.model.name, snapshot.summaries)
        self.pages = RequestPages(
            agent, state, self.planning, self._choice, self._limits, self._summaries
        )
        # Whether a turn has started that the model has not answered.
        self._begun = False
        self._said = snapshot.said
        # The answer that has both the output and the calls that run now.
        self._given: ParsedAnswer | None = None
        self._unknown_told = snapshot.unknown_told
        self._ending = snapshot.ending
        self._turns_before = state.meter.turns
        # Whether the run has continued as new, under another history.
        self.continued_as_new = False

    @classmethod
    def start(
        cls,
        request: RunRequest,
        agent: Agent,
        mailbox: Mailbox,
        desk: PendingApprovals,
        clock: Callable[[], datetime],
    ) -> Self:
        """Return a new run.

        Raises:
            InvalidRequest: The request does not fit the agent.
        """
        meter = Meter.of(agent.budget.within(request.budget))
        kept = RunStateSnapshot(meter=meter, desk=desk)
        choice = request.tool_choice or agent.tool_choice
        run = cls(RunSnapshot(kept=kept, mailbox=mailbox, choice=choice), request, agent, clock)
        initial_context.write_initial_context(request, agent, run.state)
        run._begin_whole(turn=0, calls=0)
        return run

    def snapshot(self) -> RunSnapshot:
        """Return all of its state; call it only between two turns."""
        return RunSnapshot(
            kept=self.state.snapshot(),
            mailbox=self.mailbox,
            summaries=self._summaries.progress,
            plan=self.planning.to_snapshot(),
            seen_ids=list(self._seen_ids),
            choice=self._choice.wanted,
            output=self.output,
            said=self._said,
            answered_up_to=self.answered_up_to,
            settled_after=self._choice.settled_after,
            finalizing=self._limits.finalizing,
            unknown_told=self._unknown_told,
            ending=self._ending,
        )

    @property
    def forgettable(self) -> int:
        """Return the number of the entry up to which no model reads the log any more."""
        return self._summaries.progress.since

    def make_room(self) -> None:
        """Request a summary, because not all of the log can be passed on."""
        self._summaries.make_room()

    @property
    def is_between_turns(self) -> bool:
        """Return whether the run is between two turns: nothing runs, and no question is open."""
        busy = self._turn or self._limits.question or self._asking or self._begun or self._over
        return not (busy or self._summaries.is_active) and self.state.meter.turns > 0

    @property
    def has_taken_a_turn(self) -> bool:
        """Return whether the run has called the model since it started or continued as new."""
        return self.state.meter.turns > self._turns_before

    def next(self) -> Step:
        """Return the next step; the same one until it is executed."""
        if self._over is not None:
            return self._over
        if self._turn is not None:
            return RunCalls(self._turn)
        if self._limits.question is not None:
            return self._limits.question
        if self._asking is not None:
            return self._asking
        if self._ending is not None:
            return self._end(self._ending)
        return self._go_on()

    def model_answered(self, solution: Solution) -> None:
        """Process the model's answer."""
        self._asking = None
        self._note(solution)
        if solution.too_long:
            self._summaries.turn_refused(solution)
            return
        self._begun = False
        meter = self.state.meter
        meter.spend(solution.usage)
        self._tell_unknown()
        answer = parse_answer(solution, self.agent, self.state.tools())
        self._said = answer.text or self._said
        calls = propose_calls(answer.solution, meter.turns, self.state.tools(), self._seen_ids)
        self._seen_ids = dict.fromkeys(list(self._seen_ids)[-MAX_SEEN_IDS:])
        self.state.log.append(
            MessageEntry(
                message=ChatMessage(
                    role="assistant",
                    content=solution.text,
                    calls=[call.proposal for call in calls],
                    said=answer.said,
                    provider_data=solution.provider_data,
                )
            )
        )
        self._summaries.turn_answered(solution)
        if calls and self._limits.finalizing is None and self._choice.may_call:
            lazy = self.agent.plan == "lazy" and not self._choice.choosing
            self._turn = Turn(meter.turns, calls, is_plan=lazy)
            self._given = None if self._choice.choosing or answer.output is MISSING else answer
        else:
            self.planning.discard()
            self._refuse(calls)
            self._conclude(answer, called=bool(calls))
            self._turn_end()

    def summary_answered(self, solution: Solution) -> None:
        """Process the model's summary of the older part of the conversation."""
        self._asking = None
        self.charge_answer(solution)
        self._summaries.summary_answered(solution)

    def charge_answer(self, solution: Solution) -> None:
        """Count an answer of the model outside of turns: to one call, or a summary.

        A request that was too long costs nothing.
        """
        self._note(solution)
        if not solution.too_long:
            self.state.meter.charge(solution.usage)
            self._tell_unknown()

    def turn_timed_out(self) -> None:
        """End the turn without an answer, because the run's time is used up."""
        self._asking = None
        self._leave_turn()

    def closed(self) -> None:
        """Process the closed calls of the turn, any of which may end the run."""
        turn = self._turn
        assert turn is not None  # the step was RunCalls
        self._turn = None
        if self._whole is not None:
            self._conclude_whole(self._whole, turn.number)
            return
        self.state.meter.count_iteration()
        if self._choice.choosing and self._take_up(turn):
            return
        self._turn_end()
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
        if not self._limits.extend():
            self._ending = "budget_exceeded"

    def fail(self, code: str, message: str) -> None:
        """End the run with an error."""
        self._hear(ending=True)
        super().fail(code, message)

    def close(self) -> None:
        """Accept no further message."""
        self.mailbox.close()

    @property
    def agent_name(self) -> str:
        """Return the name of the run's agent."""
        return self.agent.name

    @property
    def is_activity_skill(self) -> bool:
        """Return whether the skill is an activity, so that the run is one call."""
        return self._whole is not None

    @property
    def status(self) -> RunStatus:
        """Return the status of the run in one word."""
        said = super().status
        return "awaiting_message" if said == "running" and self._idle else said

    @property
    def is_steered(self) -> bool:
        """Return whether a message must be read before more calls of a plan start."""
        return self._turn is not None and self._turn.is_plan and self.mailbox.has_steering_message

    @property
    def _idle(self) -> bool:
        return (
            self._ending is not None and self._conversation is not None and not self.mailbox.closed
        )

    @property
    def is_ending(self) -> bool:
        """Return whether the run ends next, unless a message arrives before."""
        at_work = self._over or self._turn or self._limits.question or self._asking
        goes_on = self._ending == "completed" and (len(self.mailbox) > 0 or self._idle)
        return self._ending is not None and not at_work and not goes_on

    def _go_on(self) -> Step:
        self._hear(ending=False)
        limit = self._limits.reached()
        if limit is not None:
            self._meet(limit)
            return self.next()
        try:
            self._asking = AskModel(self._request())
        except CannotShorten as error:
            self.fail(MODEL_ERROR, str(error))
        return self.next()

    def _request(self) -> ConversationPointer:
        """Return the next request to the model: for a due summary, otherwise for a turn."""
        turn = self.state.meter.turns + 1
        summary = self._summaries.due_request(turn)
        if summary is not None:
            return summary
        if not self._begun:
            self._begun = True
            self.state.log.append(TurnStartEntry(turn=turn))
        return self._summaries.pointer(turn)

    def _meet(self, limit: BudgetName) -> None:
        """Handle a reached limit: finish the answer, end the run, or ask people."""
        told = self._limits.finalizing
        if self._limits.apply(limit):
            self._ending = "budget_exceeded"
        elif self._limits.finalizing != told:
            self._say(prompt.FINALIZE)

    def _take_up(self, turn: Turn) -> bool:
        """Activate the skill that a turn has chosen.

        Returns:
            Whether the turn continues, with the skill's activity.
        """
        chosen = skills.chosen_skill(turn)
        if chosen is None:
            return False
        initial_context.select_skill(self.state, chosen)
        lacking = self._choice.settle(turn.number, self.pages.offers)
        if lacking is not None:
            text = f"the skill `{chosen}` has no tool `{lacking}`: it is not asked to call it first"
            self.state.log.append(NoticeEntry(text=text))
        return self._begin_whole(turn=turn.number, calls=len(turn.calls))

    def _begin_whole(self, *, turn: int, calls: int) -> bool:
        """Start the skill's activity, if it has one, and return whether it has.

        The call belongs to turn number `turn` (0: to none) with this number of calls.
        """
        skill = skills.skill_of(self.agent, self.state.skill)
        if skill is None or skill.activity is None:
            return False
        own = call_id(max(turn, 1), calls + 1)
        call = skills.activity_call(self.agent, skill, self.state.data["input"], own)
        asked = ChatMessage(role="user", calls=[call.proposal])
        self.state.log.append(MessageEntry(message=asked))
        self._whole, self._turn = call, Turn(turn, [call])
        return True

    def _conclude_whole(self, call: ToolCall, turn: int) -> None:
        """End the run with the outcome of its only call, which is closed."""
        if turn:
            self._turn_end()
        if isinstance(call.outcome, Failed) and self.state.meter.out_of_time:
            self._limits.log_exceeded("maxDuration")
            self._ending = "budget_exceeded"
            return
        if isinstance(call.outcome, Succeeded | Answered):
            self.output, self.answered_up_to = call.outcome.value, self.mailbox.heard
        self._hear(ending=True)
        self._end_as(call)

    def _conclude(self, answer: ParsedAnswer, *, called: bool) -> None:
        """Process an answer without open calls: set the output, or send the model an error.

        An invalid output costs a turn.
        """
        try:
            last = self._limits.finalizing is not None
            if self._choice.choosing and not last:
                raise InvalidOutput(skills.not_chosen_reason(self.agent.skills))
            if self._choice.demands_call(self.pages.offers) and not called:
                raise InvalidOutput("A call of a tool was required, and none was made. Call one.")
            self.output = answer_output(answer, self.agent, self.state.data, last=last)
        except InvalidOutput as error:
            self._say(str(error))
        else:
            self.answered_up_to = self.mailbox.heard
            self._ending = "completed"

    def _refuse(self, calls: list[ToolCall]) -> None:
        """Refuse the calls of an answer that must not have any."""
        why = "this run makes none" if self._limits.finalizing is None else prompt.FINALIZE
        for call in calls:
            self.state.meter.refuse_call(call.name)
            call.end(refuse(ErrorCode.BLOCKED, f"no call is run: {why}"))
        self.calls.close(self.state.meter.turns, calls)

    def _end(self, status: Ended) -> Step:
        """End the run, unless there is a message, or one may still arrive."""
        if status == "completed" and self._hear(ending=True):
            self._ending, self._limits.finalizing = None, None
            if self._conversation is not None:
                self.state.meter.reset_iterations()
            return self._go_on()
        if status == "completed" and self._idle:
            assert self._conversation is not None  # it is idle
            return AwaitMessage(self._conversation.idle_timeout)
        self._leave_turn()
        self._hear(ending=True)
        output = self.output if status != "budget_exceeded" else None
        return self._finish(self._result(status, output))

    def _hear(self, *, ending: bool) -> bool:
        """Move messages from the mailbox to the log, and return whether there were any."""
        heard = self.mailbox.take(ending=ending)
        for message in heard:
            initial_context.append_message(self.state, message)
        return bool(heard)

    def _note(self, solution: Solution) -> None:
        for notice in solution.notices:
            self.state.log.append(NoticeEntry(text=notice))

    def _say(self, text: str) -> None:
        self.state.log.append(MessageEntry(message=ChatMessage(role="user", content=text)))

    def _drop(self, turn: Turn) -> None:
        super()._drop(turn)
        if turn.number:
            self._turn_end()

    def _leave_turn(self) -> None:
        """End a turn that was started and has no answer."""
        if self._begun:
            self._begun = False
            self._turn_end()

    def _turn_end(self) -> None:
        self.state.log.append(
            TurnEndEntry(turn=self.state.meter.turns, usage=self.state.meter.usage())
        )
        self.state.log.seal(PAGE_BYTES)

    def _tell_unknown(self) -> None:
        unknown = self.state.meter.unmetered_budget()
        if unknown is not None and not self._unknown_told:
            self._unknown_told = True
            text = f"the provider does not report its usage: the budget {unknown} cannot be kept to"
            self.state.log.append(NoticeEntry(text=text))

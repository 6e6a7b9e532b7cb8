"""A run: what is next.

`next` names one step; the shell takes it and tells the run what came of it, then asks again:

    AskModel      ─► answered(solution), or failed
    CarryOut      ─► closed
    AskPeople     ─► extended
    AwaitMessage  ─► (the mailbox has a message or is closed), or closed by `close`
    Finish, Fail  ─► the end

Between two steps everything that is decided stands in the log.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from schemas.agent import Agent, Budget, BudgetName, Forced, ToolChoice
from schemas.base import Duration
from schemas.decision import Decision, Receipt
from schemas.entry import Done, Error, MessageEntry, NoticeEntry, TurnEnd, TurnStart
from schemas.errors import ErrorCode
from schemas.generate import Ask, Page, PageOf, Pointer
from schemas.message import ChatMessage
from schemas.run import RunRequest, RunResult, RunStatus
from schemas.solution import Solution
from workflows.engine import opening, prompt
from workflows.engine.answer import NoOutput, output_of
from workflows.engine.approval import Approved, Desk, Question
from workflows.engine.budget import Meter
from workflows.engine.calls import Calls
from workflows.engine.extension import question_on
from workflows.engine.kept import Kept
from workflows.engine.log import Log
from workflows.engine.mailbox import Mailbox
from workflows.engine.outcome import refused
from workflows.engine.proposal import calls_of
from workflows.engine.state import Data
from workflows.engine.turn import Call, Stage, Turn


@dataclass(frozen=True)
class AskModel:
    """Make one request to the model: all that stands in the log up to the pointer."""

    pointer: Pointer


@dataclass(frozen=True)
class CarryOut:
    """Carry out the calls of a turn."""

    turn: Turn


@dataclass(frozen=True)
class AskPeople:
    """Wait until people have extended a budget or ended the run."""

    question: Question
    budget: BudgetName


@dataclass(frozen=True)
class AwaitMessage:
    """Wait for the next message of a conversation, or until it is closed."""

    idle_timeout: Duration | None


@dataclass(frozen=True)
class Finish:
    """The run ends with a result."""

    result: RunResult


@dataclass(frozen=True)
class Fail:
    """The run cannot go on."""

    code: str
    message: str


Step = AskModel | CarryOut | AskPeople | AwaitMessage | Finish | Fail


class Run:
    """One run: its log, and everything that is a function of it."""

    def __init__(
        self,
        request: RunRequest,
        agent: Agent,
        mailbox: Mailbox,
        desk: Desk,
        clock: Callable[[], datetime],
    ) -> None:
        budget = agent.budget.within(request.budget)
        self.kept = Kept(
            agent=agent,
            principal=request.principal,
            asks_people=request.approvals == "ask",
            clock=clock,
            log=Log(clock),
            data=Data(),
            meter=Meter(budget, on_limit=dict(agent.on_limit)),
            desk=desk,
        )
        self.calls = Calls(self.kept)
        self.mailbox = mailbox
        self.output: Any = None
        self.answered_up_to = 0
        self._offers = prompt.offers(agent)
        self._choice: ToolChoice = request.tool_choice or agent.tool_choice
        self._conversation = opening.conversation(request)
        self._seen_ids: dict[str, None] = {}
        self._turn: Turn | None = None
        self._question: tuple[Question, BudgetName] | None = None
        self._asking: AskModel | None = None
        # The turns that were taken when the model was told to finish, once it was.
        self._finalizing: int | None = None
        self._said: str | None = None
        self._unknown_told = False
        self._ending: Literal["completed", "stopped", "budget_exceeded"] | None = None
        self._over: Finish | Fail | None = None
        opening.begin(request, self.kept)

    def next(self) -> Step:
        """The next step; asking again without having taken it names the same one."""
        if self._over is not None:
            return self._over
        if self._turn is not None:
            return CarryOut(self._turn)
        if self._question is not None:
            return AskPeople(*self._question)
        if self._asking is not None:
            return self._asking
        if self._ending is not None:
            return self._end(self._ending)
        return self._go_on()

    def answered(self, solution: Solution) -> None:
        """Take in the model's answer."""
        self._asking = None
        meter = self.kept.meter
        meter.spend(solution.usage)
        for notice in solution.notices:
            self.kept.log.append(NoticeEntry(text=notice))
        self._tell_unknown()
        self._said = solution.text or self._said
        calls = calls_of(solution, meter.turns, self.kept.agent, self._seen_ids)
        self.kept.log.append(
            MessageEntry(
                message=ChatMessage(
                    role="assistant", content=solution.text, calls=[call.asked for call in calls]
                )
            )
        )
        if calls and self._may_call:
            self._turn = Turn(meter.turns, calls)
        else:
            self._refuse(calls)
            self._conclude(solution, called=bool(calls))

    def unanswered(self) -> None:
        """The run's time was up before the model answered: the turn is over without an answer."""
        self._asking = None
        self._turn_end()

    def closed(self) -> None:
        """The turn's calls are closed: see whether one of them ends the run."""
        turn = self._turn
        assert turn is not None  # the step was CarryOut
        self._turn = None
        self.kept.meter.iterations += 1
        self._turn_end()
        if self.kept.ended_with is not None:
            self.failed(ErrorCode.APPROVAL_TIMEOUT, self.kept.ended_with)
        elif turn.stopped is not None:
            self.output, self._ending = turn.stopped, "stopped"
        elif turn.asks_to_stop:
            self.output, self._ending = self._said, "stopped"

    def extended(self) -> None:
        """Let people's ruling on a budget take effect."""
        assert self._question is not None  # the step was AskPeople
        (question, budget), self._question = self._question, None
        ruling = question.ruling
        if isinstance(ruling, Approved):
            to = Budget.model_validate(ruling.arguments) if ruling.edited_by else None
            self.kept.meter.extend(budget, to)
        else:
            self._ending = "budget_exceeded"

    def failed(self, code: str, message: str) -> None:
        """The run cannot go on."""
        self._hear(ending=True)
        self.kept.log.append(Error(code=code, message=message))
        self._over = Fail(code, message)

    def cancelled(self) -> None:
        """The run is cancelled: give every open call its one result, and write down the end."""
        if self._over is not None:
            return
        if self._turn is not None:
            self.abandon(self._turn, "the run was cancelled")
            self._turn_end()
        for question in self.kept.desk.open():
            self.kept.desk.withdraw(question)
        self.failed(ErrorCode.CANCELLED, "the run was cancelled")

    def abandon(self, turn: Turn, why: str) -> None:
        """End and close the calls of a turn that have not been closed."""
        told = [call for call in turn.calls if not call.closed]
        for call in told:
            if call.stage is not Stage.ENDED:
                self.calls.give_up(call, why)
        self.calls.close(turn.number, told)

    def close(self) -> None:
        """No further message is waited for."""
        self.mailbox.closed = True

    @property
    def status(self) -> RunStatus:
        """How the run stands, in one word."""
        match self._over:
            case Finish(result):
                return result.status
            case Fail(ErrorCode.CANCELLED, _):
                return "cancelled"
            case Fail():
                return "failed"
        if self.kept.desk.open():
            return "awaiting_approval"
        return "awaiting_message" if self._idle else "running"

    @property
    def halting(self) -> bool:
        """Whether the run is to end, so that nobody need be waited for any longer."""
        stopped = self._turn is not None and self._turn.stopped is not None
        return stopped or self.kept.ended_with is not None

    @property
    def over(self) -> Finish | Fail | None:
        """How the run ended, once it has."""
        return self._over

    @property
    def turn(self) -> int:
        """The number of the turn that is under way, or was last."""
        return self._turn.number if self._turn is not None else self.kept.meter.turns

    def page(self, want: PageOf) -> Page:
        """A part of the conversation, for the activity that makes the request."""
        items, cut = self.kept.log.page(want)
        return Page(items=items, cut=cut, ask=self._ask() if want.offset == 0 else None)

    def decide(self, decision: Decision) -> Receipt:
        """Count a decision.

        Raises:
            Unacceptable: it does not count, and why.
        """
        return self.calls.decide(decision)

    @property
    def _idle(self) -> bool:
        return (
            self._ending is not None and self._conversation is not None and not self.mailbox.closed
        )

    def _go_on(self) -> Step:
        self._hear(ending=False)
        limit = self._reached()
        if limit is not None:
            self._limit(limit)
            return self.next()
        self.kept.log.append(TurnStart(turn=self.kept.meter.turns + 1))
        log, turn = self.kept.log, self.kept.meter.turns + 1
        self._asking = AskModel(Pointer(turn=turn, entries=len(log), digest=log.digest))
        return self._asking

    def _reached(self) -> BudgetName | None:
        """The limit that stands in the way of a request.

        The request for a final answer is made all the same. What is wrong with that answer may be
        mended, within every limit but that of iterations.
        """
        limit = self.kept.meter.reached()
        if self._finalizing is None:
            return limit
        first = self._finalizing == self.kept.meter.turns
        return None if first or limit == "maxIterations" else limit

    def _limit(self, name: BudgetName) -> None:
        """A limit is reached: finish the answer, end the run, or ask people."""
        action = self.kept.meter.action(name)
        if action == "ask" and self.kept.asks_people:
            self._question = (question_on(self.kept, name), name)
            self.calls.ask(self.kept.meter.turns, self._question[0])
        elif action == "finalize" and self._finalizing is None:
            self._finalizing = self.kept.meter.turns
            self._say(prompt.FINALIZE)
        else:
            self.kept.log.append(NoticeEntry(text=f"the budget {name} is used up"))
            self._ending = "budget_exceeded"

    def _conclude(self, solution: Solution, *, called: bool) -> None:
        """An answer without calls to carry out: the output, or a mistake that costs a turn."""
        try:
            if self._demands_call and not called:
                raise NoOutput("A call of a tool was required, and none was made. Call one.")
            last = self._finalizing is not None
            self.output = output_of(solution.text, self.kept.agent.output, last=last)
        except NoOutput as error:
            self._say(str(error))
        else:
            self.answered_up_to = self.mailbox.heard
            self._ending = "completed"
        self._turn_end()

    @property
    def _may_call(self) -> bool:
        """Whether calls are carried out: a server may hand on calls that it was told not to ask
        for."""
        return self._finalizing is None and self._choice != "none"

    @property
    def _demands_call(self) -> bool:
        """Whether this, the first, turn had to make a call."""
        forced = self._choice == "required" or isinstance(self._choice, Forced)
        return forced and self.kept.meter.turns == 1 and bool(self._offers)

    def _refuse(self, calls: list[Call]) -> None:
        """Calls in an answer that was to have none are not carried out."""
        why = "this run makes none" if self._finalizing is None else prompt.FINALIZE
        for call in calls:
            self.kept.meter.refuse_call(call.name)
            call.end(refused(ErrorCode.BLOCKED, f"no call is carried out: {why}"))
        self.calls.close(self.kept.meter.turns, calls)

    def _end(self, status: Literal["completed", "stopped", "budget_exceeded"]) -> Step:
        """End the run, unless somebody has said something, or still may."""
        if status == "completed" and self._hear(ending=True):
            self._ending, self._finalizing = None, None
            if self._conversation is not None:
                self.kept.meter.iterations = 0
            return self._go_on()
        if status == "completed" and self._idle:
            assert self._conversation is not None  # it is idle
            return AwaitMessage(self._conversation.idle_timeout)
        return self._finish(status)

    def _finish(self, status: Literal["completed", "stopped", "budget_exceeded"]) -> Finish:
        self._hear(ending=True)
        meter = self.kept.meter
        result = RunResult(
            status=status,
            output=self.output if status != "budget_exceeded" else None,
            state=self.kept.data["state"],
            turns=meter.turns,
            calls=meter.calls,
            usage=meter.usage(),
        )
        self.kept.log.append(Done(status=status, output=result.output))
        self._over = Finish(result)
        return self._over

    def _hear(self, *, ending: bool) -> bool:
        """Take messages out of the mailbox into the log; whether there were any."""
        heard = self.mailbox.take(ending=ending)
        for message in heard:
            opening.add(self.kept, message)
        return bool(heard)

    def _say(self, text: str) -> None:
        self.kept.log.append(MessageEntry(message=ChatMessage(role="user", content=text)))

    def _turn_end(self) -> None:
        self.kept.log.append(TurnEnd(turn=self.kept.meter.turns, usage=self.kept.meter.usage()))

    def _tell_unknown(self) -> None:
        unknown = self.kept.meter.unknown()
        if unknown is not None and not self._unknown_told:
            self._unknown_told = True
            text = f"the provider does not report its usage: the budget {unknown} cannot be kept to"
            self.kept.log.append(NoticeEntry(text=text))

    def _ask(self) -> Ask:
        choice: ToolChoice = "auto"
        if self._finalizing is not None:
            choice = "none"
        elif self.kept.meter.turns == 0 or self._choice == "none":
            choice = self._choice
        return prompt.ask(self.kept.agent, self._offers, choice, self.kept.data["state"])

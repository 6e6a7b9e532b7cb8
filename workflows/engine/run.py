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
from datetime import datetime
from typing import Any

from schemas.agent import Agent, Budget, BudgetName, Forced, ToolChoice
from schemas.entry import MessageEntry, NoticeEntry, TurnEnd, TurnStart
from schemas.errors import ErrorCode
from schemas.generate import Ask, Page, PageOf, Pointer, ToolOffer
from schemas.message import ChatMessage
from schemas.names import call_id
from schemas.run import Ended, RunRequest, RunStatus
from schemas.solution import Solution
from workflows.engine import opening, prompt, skills, standing
from workflows.engine.answer import Answer, NoOutput, answer_of, given_answer, output_in
from workflows.engine.approval import Approved, Desk, Question
from workflows.engine.budget import Meter
from workflows.engine.extension import question_on
from workflows.engine.kept import Kept
from workflows.engine.latent import Latent
from workflows.engine.mailbox import Mailbox
from workflows.engine.outcome import Answered, Failed, Succeeded, refused
from workflows.engine.proposal import calls_of
from workflows.engine.state import MISSING
from workflows.engine.steps import AskModel, AskPeople, AwaitMessage, CarryOut, Step
from workflows.engine.turn import Call, Turn
from workflows.engine.work import Work


class Run(Work):
    """One run: its log, and everything that is a function of it."""

    def __init__(
        self,
        request: RunRequest,
        agent: Agent,
        mailbox: Mailbox,
        desk: Desk,
        clock: Callable[[], datetime],
    ) -> None:
        meter = Meter(agent.budget.within(request.budget), on_limit=dict(agent.on_limit))
        super().__init__(Kept.new(request, agent, meter, desk, clock))
        self.agent = agent
        self.mailbox = mailbox
        self.output: Any = None
        self.answered_up_to = 0
        self._choice: ToolChoice = request.tool_choice or agent.tool_choice
        # The turns that were taken when it was settled which skill the run has.
        self._settled_after = 0
        # The call that is all of the work, where the skill is an activity.
        self._whole: Call | None = None
        self._conversation = opening.conversation(request)
        self._seen_ids: dict[str, None] = {}
        self._question: tuple[Question, BudgetName] | None = None
        self._asking: AskModel | None = None
        # The turns that were taken when the model was told to finish, once it was.
        self._finalizing: int | None = None
        self._said: str | None = None
        # The answer that gave the output together with the calls that are carried out now.
        self._given: Answer | None = None
        self._unknown_told = False
        # The calls that the model answers now, each by a request of its own.
        self.latents: dict[str, Latent] = {}
        self._ending: Ended | None = None
        self.calls.answered_here = lambda call: skills.answer(call) or given_answer(call)
        opening.begin(request, agent, self.kept)
        self._begin_whole(turn=0, calls=0)

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
        answer = answer_of(solution, self.agent, self.kept.tools())
        self._said = answer.text or self._said
        calls = calls_of(answer.solution, meter.turns, self.kept.tools(), self._seen_ids)
        self.kept.log.append(
            MessageEntry(
                message=ChatMessage(
                    role="assistant",
                    content=solution.text,
                    calls=[call.asked for call in calls],
                    said=answer.said,
                    provider_data=solution.provider_data,
                )
            )
        )
        if calls and self._may_call:
            lazy = self.agent.plan == "lazy" and not self._choosing
            self._turn = Turn(meter.turns, calls, lazy=lazy)
            self._given = None if self._choosing or answer.output is MISSING else answer
        else:
            self.planning.lapse()
            self._refuse(calls)
            self._conclude(answer, called=bool(calls))
            self._turn_end()

    def charged(self, solution: Solution) -> None:
        """Count an answer of the model that answered one call."""
        self.kept.meter.charge(solution.usage)
        for notice in solution.notices:
            self.kept.log.append(NoticeEntry(text=notice))
        self._tell_unknown()

    def unanswered(self) -> None:
        """The run's time was up before the model answered: the turn is over without an answer."""
        self._asking = None
        self._turn_end()

    def closed(self) -> None:
        """The turn's calls are closed: see whether one of them ends the run."""
        turn = self._turn
        assert turn is not None  # the step was CarryOut
        self._turn = None
        if self._whole is not None:
            self._conclude_whole(self._whole, turn.number)
            return
        self.kept.meter.iterations += 1
        if self._choosing and self._take_up(turn):
            return
        self._turn_end()
        if self.kept.ended_with is not None:
            self.failed(ErrorCode.APPROVAL_TIMEOUT, self.kept.ended_with)
        elif turn.stopped is not None:
            self.output, self._ending = turn.stopped, "stopped"
        elif turn.asks_to_stop:
            self.output, self._ending = self._said, "stopped"
        elif self._given is not None:
            self._conclude(self._given, called=True)

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
        super().failed(code, message)

    def close(self) -> None:
        """No further message is waited for."""
        self.mailbox.closed = True

    @property
    def agent_name(self) -> str:
        """The agent whose run it is."""
        return self.agent.name

    @property
    def by_activity(self) -> bool:
        """Whether the skill is an activity, and the model asked for nothing more."""
        return self._whole is not None

    @property
    def status(self) -> RunStatus:
        """How the run stands, in one word."""
        said = super().status
        return "awaiting_message" if said == "running" and self._idle else said

    @property
    def steered(self) -> bool:
        """Whether something was said that is heard before anything more of a plan is begun."""
        return self._turn is not None and self._turn.lazy and self.mailbox.steers

    def page(self, want: PageOf) -> Page:
        """A part of the conversation, for the activity that makes the request; of one by which a
        call is answered, as long as it is."""
        if want.call is not None:
            latent = self.latents.get(want.call)
            return Page(items=[]) if latent is None else latent.page(want)
        items, cut = self.kept.log.page(want)
        return Page(items=items, cut=cut, ask=self._ask() if want.offset == 0 else None)

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
            self._exceed(name)

    @property
    def _offers(self) -> list[ToolOffer]:
        """The tools that the model is offered now."""
        return prompt.offers(self.agent, self.kept.skill, self.kept.data.instances())

    def _exceed(self, name: BudgetName) -> None:
        self.kept.log.append(NoticeEntry(text=f"the budget {name} is used up"))
        self._ending = "budget_exceeded"

    @property
    def _choosing(self) -> bool:
        """Whether the model is to choose a skill before anything else."""
        return bool(self.agent.skills) and self.kept.skill is None

    def _take_up(self, turn: Turn) -> bool:
        """Put the skill in force that a turn has chosen; whether the turn goes on, with its
        activity."""
        chosen = skills.chosen_in(turn)
        if chosen is None:
            return False
        opening.take_up(self.kept, chosen)
        self._settled_after = turn.number
        forced = self._choice.name if isinstance(self._choice, Forced) else None
        if forced is not None and forced not in [offer.name for offer in self._offers]:
            text = f"the skill `{chosen}` has no tool `{forced}`: it is not asked to call it first"
            self.kept.log.append(NoticeEntry(text=text))
            self._choice = "auto"
        return self._begin_whole(turn=turn.number, calls=len(turn.calls))

    def _begin_whole(self, *, turn: int, calls: int) -> bool:
        """Have the skill's activity do all of the work, if it has one, in a turn (0: in none) of so
        many calls; whether it has."""
        skill = skills.skill_of(self.agent, self.kept.skill)
        if skill is None or skill.activity is None:
            return False
        own = call_id(max(turn, 1), calls + 1)
        call = skills.whole(self.agent, skill, self.kept.data["input"], own)
        asked = ChatMessage(role="user", calls=[call.asked])
        self.kept.log.append(MessageEntry(message=asked))
        self._whole, self._turn = call, Turn(turn, [call])
        return True

    def _conclude_whole(self, call: Call, turn: int) -> None:
        """The call that is all of the work is closed: what it came to is the end of the run."""
        if turn:
            self._turn_end()
        if isinstance(call.outcome, Failed) and self.kept.meter.out_of_time:
            self._exceed("maxDuration")
            return
        if isinstance(call.outcome, Succeeded | Answered):
            self.output, self.answered_up_to = call.outcome.value, self.mailbox.heard
        self._hear(ending=True)
        self._end_as(call)

    def _conclude(self, answer: Answer, *, called: bool) -> None:
        """An answer whose calls are done, if it had any: the output, or a mistake that costs a
        turn."""
        try:
            if self._choosing and self._finalizing is None:
                raise NoOutput(skills.unchosen(self.agent.skills))
            if self._demands_call and not called:
                raise NoOutput("A call of a tool was required, and none was made. Call one.")
            last = self._finalizing is not None
            self.output = output_in(answer, self.agent, self.kept.data, last=last)
        except NoOutput as error:
            self._say(str(error))
        else:
            self.answered_up_to = self.mailbox.heard
            self._ending = "completed"

    @property
    def _may_call(self) -> bool:
        """Whether calls are carried out: a server may hand on calls that it was told not to ask
        for."""
        return self._finalizing is None and (self._choosing or self._choice != "none")

    @property
    def _demands_call(self) -> bool:
        """Whether this turn, the first with its skill, had to make a call."""
        forced = self._choice == "required" or isinstance(self._choice, Forced)
        first = self.kept.meter.turns == self._settled_after + 1
        return forced and first and bool(self._offers)

    def _refuse(self, calls: list[Call]) -> None:
        """Calls in an answer that was to have none are not carried out."""
        why = "this run makes none" if self._finalizing is None else prompt.FINALIZE
        for call in calls:
            self.kept.meter.refuse_call(call.name)
            call.end(refused(ErrorCode.BLOCKED, f"no call is carried out: {why}"))
        self.calls.close(self.kept.meter.turns, calls)

    def _end(self, status: Ended) -> Step:
        """End the run, unless somebody has said something, or still may."""
        if status == "completed" and self._hear(ending=True):
            self._ending, self._finalizing = None, None
            if self._conversation is not None:
                self.kept.meter.iterations = 0
            return self._go_on()
        if status == "completed" and self._idle:
            assert self._conversation is not None  # it is idle
            return AwaitMessage(self._conversation.idle_timeout)
        self._hear(ending=True)
        output = self.output if status != "budget_exceeded" else None
        return self._finish(self._result(status, output))

    def _hear(self, *, ending: bool) -> bool:
        """Take messages out of the mailbox into the log; whether there were any."""
        heard = self.mailbox.take(ending=ending)
        for message in heard:
            opening.add(self.kept, message)
        return bool(heard)

    def _say(self, text: str) -> None:
        self.kept.log.append(MessageEntry(message=ChatMessage(role="user", content=text)))

    def _drop(self, turn: Turn) -> None:
        super()._drop(turn)
        if turn.number:
            self._turn_end()

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
        elif self._choosing:
            choice = "required"
        elif self.kept.meter.turns == self._settled_after or self._choice == "none":
            choice = self._choice
        skill, instances = self.kept.skill, self.kept.data.instances()
        tail = standing.tail(self.kept, self.planning.standing())
        return prompt.ask(self.agent, self._offers, choice, tail, skill, instances)

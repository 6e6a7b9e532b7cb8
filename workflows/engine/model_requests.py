"""Requests to the model: the tool choice and the settings of each, and the limits of a budget.

A forced call applies to the first turn with the run's skill; before that, the model has to choose
the skill. `none` applies to all turns. A tool with `_limits.forceAtStep` is forced from that turn
on until it was called. A run that has used up a budget acts as the agent defines:

    finalize ─► the model finishes, in one more request
    ask      ─► people extend the budget, or end the run; without approvals, as `fail`
    fail     ─► the run ends

A delegate finishes at the end of its share, unless its agent defines another action.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from pydantic import Field, JsonValue, ValidationError

from holdfast.schemas import names
from holdfast.schemas.agent import Agent, ForcedTool, ToolChoice
from holdfast.schemas.base import Lenient
from holdfast.schemas.budget import BudgetLimits, BudgetName
from holdfast.schemas.internal.continue_as_new import StepSnapshot
from holdfast.schemas.internal.model_request import (
    Ask,
    ConversationPage,
    ConversationPageRequest,
    ToolOffer,
)
from holdfast.schemas.log_entry import BudgetThresholdEntry
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.names import DELEGATE_SHARES, MESSAGE_BUDGETS
from holdfast.schemas.run import Ended
from holdfast.schemas.tool import APPROVAL_DEFAULTS, ActivityBinding
from holdfast.validation.arguments import InvalidArguments
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.validation.rule_changes import applies
from holdfast.workflows.engine.approvals.question import Approved, Question
from holdfast.workflows.engine.budget.meter import SHARED
from holdfast.workflows.engine.call.activities import Hook, HookName
from holdfast.workflows.engine.conversation.mailbox import Mailbox
from holdfast.workflows.engine.conversation.summaries import Summaries, SummariesProgress
from holdfast.workflows.engine.execution.questions import Questions
from holdfast.workflows.engine.execution_base import AskPeople
from holdfast.workflows.engine.model import prompt
from holdfast.workflows.engine.model.answer import (
    InvalidOutput,
    ParsedAnswer,
    answer_output,
    cut_off,
    is_copied_error,
)
from holdfast.workflows.engine.model.latent_calls import Latent
from holdfast.workflows.engine.model.model_choice import ModelChoice, ModelProgress
from holdfast.workflows.engine.model.request_hooks import (
    ChangedRequest,
    changed_request,
    view_messages,
)
from holdfast.workflows.engine.plans.planning import Planning
from holdfast.workflows.engine.run_state import RunState, RunStateSnapshot


class RunSnapshot(Lenient):
    """The fields from which a run between two turns is built, when it starts or continues."""

    kept: RunStateSnapshot
    mailbox: Mailbox
    summaries: SummariesProgress = Field(default_factory=SummariesProgress)
    models: ModelProgress = Field(default_factory=ModelProgress)
    plan: list[StepSnapshot] = []
    seen_ids: list[str] = []
    choice: ToolChoice = "auto"
    output: JsonValue = None
    said: str | None = None
    answered_up_to: int = 0
    settled_after: int = 0
    finalizing: int | None = None
    cut_told: bool = False
    unknown_told: bool = False
    ending: Ended | None = None
    exceeded: BudgetName | None = None


class ModelRequests:
    """The settings of a run's requests to the model, their limits, and the pages of its log.

    `wanted` is the tool choice of the run, and `settled_after` the number of turns at the time when
    its skill was chosen. `finalizing` is the number of turns at the time of the request to finish;
    `cut_told`: the model has read that its last text was cut off. `question` is the open question
    on a budget, if there is one. `latents` are the calls that the model answers now, each in a
    request of its own.
    """

    def __init__(
        self,
        choice: ModelChoice,
        state: RunState,
        planning: Planning,
        questions: Questions,
        summaries: Summaries,
        snapshot: RunSnapshot,
    ) -> None:
        self._choice = choice
        self._state = state
        self._planning = planning
        self._questions = questions
        self._summaries = summaries
        self.wanted = snapshot.choice
        self.settled_after = snapshot.settled_after
        self.finalizing = snapshot.finalizing
        self.cut_told = snapshot.cut_told
        self.question: AskPeople | None = None
        self.latents: dict[str, Latent] = {}
        # The present request as a hook changed it.
        self._changed: ChangedRequest | None = None
        # The uses of each hook, by turn.
        self._hook_uses: Counter[tuple[HookName, int]] = Counter()

    @property
    def agent(self) -> Agent:
        """Return the agent of the present request: with its model, its tools and its calling."""
        return self._choice.agent if self._changed is None else self._changed.agent

    def hook_before(self, activity: ActivityBinding) -> Hook:
        """Return the use of the hook `_beforeModel` for the next request."""
        if self._changed is not None:
            self._changed = None
            self._state.offer_tools(self.agent)
        tools = [tool.name for tool in self._state.tools]
        messages = view_messages(self._state.log, self._summaries.progress.since)
        view = {"skill": self._state.skill, "tools": tools, **messages}
        return self._use_hook("beforeModel", activity, view)

    def change(self, value: Any) -> None:
        """Apply the value of `_beforeModel`, or raise `CallRefused` or `RunStopped`."""
        state, since = self._state, self._summaries.progress.since
        changed = changed_request(value, self.agent, state.tools, state.log, since)
        self._changed = changed
        state.offer_tools(changed.agent)
        if changed.notice is not None:
            state.log.add_notice(changed.notice)

    def hook_on_error(self, message: str) -> Hook | None:
        """Return the use of the hook `_onModelError` for a failed request, if it is called."""
        activity = self.agent.hooks.on_model_error
        if activity is None or self.finalizing is not None or self._state.is_choosing_skill:
            return None
        return self._use_hook("onModelError", activity, {"error": {"message": message}})

    def _use_hook(self, name: HookName, activity: ActivityBinding, view: dict[str, Any]) -> Hook:
        turn = self._state.meter.turns + 1
        self._hook_uses[name, turn] += 1
        n = self._hook_uses[name, turn]
        about = {"agent": self.agent.name, "turn": turn, "model": self.agent.own_model.to_json()}
        attempt = {"attempt": n} if name == "onModelError" else {}
        return Hook(name, names.turn_id(turn), n, activity, [{**about, **attempt, **view}])

    def reached(self) -> BudgetName | None:
        """Return the limit that prevents a request; a final one may always be made."""
        meter = self._state.meter
        limit = meter.limit_reached()
        if self.finalizing is None:
            is_last = limit is None and meter.requests + 1 == meter.budget.max_turns
            return "maxTurns" if is_last and self._finishes_share("maxTurns") else limit
        first = self.finalizing == meter.turns
        return None if first or limit == "maxIterations" else limit

    def apply(self, name: BudgetName) -> bool:
        """Request an approval, or let the model finish; return whether the run has to end."""
        meter = self._state.meter
        action = "finalize" if self._finishes_share(name) else meter.action(name)
        if action == "ask" and self._state.asks_people:
            self.question = AskPeople(self._question_on(name), name)
            self._questions.ask(meter.turns, self.question.question)
        elif action == "finalize" and self.finalizing is None:
            self.finalizing = meter.turns
            self._state.log.add_message(ChatMessage(role="user", content=prompt.FINALIZE))
        else:
            return True
        return False

    def _finishes_share(self, name: BudgetName) -> bool:
        """Return whether a delegate finishes at the end of its share, with its last request."""
        state = self._state
        is_share = state.is_delegate and name in SHARED
        may_finish = state.meter.on_limit.get(name, "finalize") == "finalize"
        return is_share and may_finish and applies(DELEGATE_SHARES)

    def go_on(self) -> None:
        """Accept calls again, because a message arrived after the request to finish."""
        self.finalizing = None

    def log_thresholds(self) -> None:
        """Log the budgets that have come to their threshold, and have people notified of them."""
        meter = self._state.meter
        for name in meter.pass_thresholds():
            used, limit = meter.shown(name, meter.used()[name]), meter.limit(name)
            self._state.log.append(BudgetThresholdEntry(budget=name, used=used, limit=limit))
            label = f"{name}: {used} of {limit} used"
            shown = replace(self._question_on(name), label=label, arguments={}, text=label)
            self._state.reached.append(shown)

    def extend(self) -> bool:
        """Apply the ruling on the budget; return whether the ruling extends it."""
        question, self.question = self.question, None
        if question is None or not isinstance(question.question.ruling, Approved):
            return False
        ruling = question.question.ruling
        to = BudgetLimits.model_validate(ruling.arguments) if ruling.edited_by else None
        self._state.meter.extend(question.budget, to)
        return True

    def _question_on(self, name: BudgetName) -> Question:
        state, limit = self._state, self._state.meter.limit(name)
        denial = "grants no more" if applies(MESSAGE_BUDGETS) else "ends the run"  # durable text

        def check(arguments: dict[str, Any]) -> dict[str, Any]:
            try:
                budget = BudgetLimits.model_validate(arguments)
            except ValidationError as error:
                problems = problems_of(error, arguments, BudgetLimits)
                raise InvalidArguments(summarize_problems(problems)) from None
            budget_json = budget.to_json()
            if list(budget_json) != [name]:
                raise InvalidArguments(f"say the new `{name}`, and nothing else")
            if not state.meter.frees(name, budget):
                raise InvalidArguments(f"`{name}` has to be more than the run has used already")
            return budget_json

        return Question(
            call_id=names.budget_id(state.meter.turns, name),
            kind="budget",
            tool=name,
            label=f"budget {name}",
            arguments={name: limit},
            reasoning=None,
            text=f"The run has used up its {name} of {limit}. `approve` grants as much again,"
            f" `edit` sets it, `deny` {denial}.",
            policy=state.rules.approval.over(APPROVAL_DEFAULTS),
            requested_at=state.clock(),
            check_arguments=check,
            principal=state.principal,
        )

    @property
    def offers(self) -> list[ToolOffer]:
        """Return the tools that are offered to the model now."""
        return prompt.offers(self.agent, self._state.skill, self._state.data.instances)

    def read_output(self, answer: ParsedAnswer, *, called: bool) -> Any:
        """Return the output of an answer, with or without calls, or raise `InvalidOutput`."""
        state, last = self._state, self.finalizing is not None
        if state.is_choosing_skill and not last:
            known = ", ".join(skill.name for skill in self.agent.skills)
            raise InvalidOutput(
                f"No skill is chosen yet. Call `{names.CHOOSE_SKILL}` first, with one of: {known}."
            )
        # The first turn with the skill has to make a forced call.
        named = isinstance(self.wanted, ForcedTool) and self._offers_tool(self.wanted.name)
        forced = self.wanted == "required" or named
        first = state.meter.turns == self.settled_after + 1
        if forced and first and not called and self.offers:
            raise InvalidOutput("A call of a tool was required, and none was made. Call one.")
        if not last and (due := self._due_tool(state.meter.turns)) is not None:
            raise InvalidOutput(f"A call of `{due}` was required, and none was made. Call it.")
        output = answer_output(answer, self.agent, state.data, last=last)
        is_copy = isinstance(output, str) and is_copied_error(output, state.log)
        if is_copy and applies(names.COPIED_ERRORS):
            raise InvalidOutput(
                "invalid_output: the answer is only a copy of a call's error."
                " Describe in your own words what was not done, and why."
            )
        is_text = self.agent.calling == "native" and self.agent.output is None
        cut = cut_off(answer.solution) if is_text else None
        if cut and not (last or self.cut_told):
            self.cut_told = True
            raise InvalidOutput(f"invalid_output: {cut}.")
        if cut:  # a part of an answer is more than none
            state.log.add_notice(cut)
        self.cut_told = False
        return output

    def lacks_final_answer(self, answer: ParsedAnswer) -> BudgetName | None:
        """Return the budget that forced a final answer, if that answer has no text."""
        is_text = self.agent.calling == "native" and self.agent.output is None
        if self.finalizing is None or not is_text or answer.solution.text.strip():
            return None
        if not applies(names.FINAL_ANSWERS):
            return None
        return self._state.meter.limit_reached() or "maxIterations"

    def _due_tool(self, turn: int) -> str | None:
        """Return the tool that the model must call in a turn, by `_limits.forceAtStep`.

        A tool whose `_limits.after` have yet to succeed is not due.
        """
        state = self._state
        for tool in state.tools if self.wanted != "none" else ():
            step, after = tool.limits.force_at_step, tool.limits.after
            is_due = step is not None and turn >= step and not state.started.get(tool.name)
            if is_due and all(one in state.succeeded for one in after):
                return tool.name
        return None

    def settle(self) -> str | None:
        """Record that the run has its skill; return the forced tool if the skill lacks it."""
        self.settled_after = self._state.meter.turns
        forced = self.wanted.name if isinstance(self.wanted, ForcedTool) else None
        if forced is None or self._offers_tool(forced):
            return None
        self.wanted = "auto"
        return forced

    def page(self, want: ConversationPageRequest) -> ConversationPage:
        """Return a part of the conversation, or of an open latent call's own one."""
        if want.call is not None:
            latent = self.latents.get(want.call)
            return ConversationPage(items=[]) if latent is None else latent.page(want)
        items, cut = self._state.log.page(want)
        if want.offset:
            return ConversationPage(items=items, cut=cut)
        ask = self.ask()
        if want.summary:
            edits = ask.edits.model_copy(update={"added": []})
            ask = self._summaries.ask(ask).model_copy(update={"edits": edits})
        return ConversationPage(items=items, cut=cut, ask=ask)

    def ask(self) -> Ask:
        """Return the settings of the model's next turn."""
        state = self._state
        first = state.meter.turns == self.settled_after
        choice = self.wanted if first or self.wanted == "none" else "auto"
        due = self._due_tool(state.meter.turns + 1)
        if due is not None and not isinstance(choice, ForcedTool):
            choice = ForcedTool(name=due)
        if state.is_choosing_skill:
            choice = "required"
        if self.finalizing is not None:
            choice = "none"
        if isinstance(choice, ForcedTool) and not self._offers_tool(choice.name):
            choice = "auto"
        tail = prompt.tail(state, self._planning.describe_progress())
        instances = state.data.instances
        ask = prompt.ask(self.agent, self.offers, choice, tail, state.skill, instances)
        return (
            ask if self._changed is None else ask.model_copy(update={"edits": self._changed.edits})
        )

    def _offers_tool(self, name: str) -> bool:
        return name in [offer.name for offer in self.offers]

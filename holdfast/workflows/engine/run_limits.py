"""The limits of a run's budget, and what happens at each of them.

Events: extension requested, extension decided.

    finalize ─► the model finishes, in one more request
    ask      ─► people extend the budget, or end the run; without approvals, as `fail`
    fail     ─► the run ends

The agent defines the action. A delegate finishes at the end of its share, unless its agent defines
another one. At its threshold, a budget is logged, and people are notified.

A budget that runs share defines its own action. The worker has refused a request then: to finish,
or after an approval, the run may make one that exceeds the budget. A run, or in a conversation a
message, that the model has not answered yet has nothing to finish, and ends.
"""

from dataclasses import replace
from typing import Any, Final, cast

from pydantic import ValidationError

from holdfast.schemas import names
from holdfast.schemas.budget import BudgetLimits, BudgetName, OnLimit
from holdfast.schemas.internal.solution import OverBudget
from holdfast.schemas.log_entry import BudgetThresholdEntry
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.tool import APPROVAL_DEFAULTS
from holdfast.validation.arguments import InvalidArguments
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.approvals.rulings import Approved, Moved, Ruling
from holdfast.workflows.engine.budget.meter import SHARED
from holdfast.workflows.engine.execution.questions import Questions
from holdfast.workflows.engine.model import prompt
from holdfast.workflows.engine.phases import AskPeople, RunEvent, RunPhases
from holdfast.workflows.engine.run_state import RunState

_STRICTEST_FIRST: Final[tuple[OnLimit, ...]] = ("fail", "ask", "finalize")


class RunLimits:
    """The limits of one run."""

    def __init__(self, state: RunState, phases: RunPhases, questions: Questions) -> None:
        self._state = state
        self._phases = phases
        self._progress = state.progress
        self._questions = questions
        # The shared budgets that refused the last request; the strictest of them applies.
        self._refusals: list[OverBudget] = []

    @property
    def refusal(self) -> OverBudget | None:
        """Return the shared budget that prevents a request, if there is one."""
        order = _STRICTEST_FIRST.index
        return min(self._refusals, key=lambda one: order(one.on_limit), default=None)

    def note_refusals(self, refusals: list[OverBudget]) -> None:
        """Record that shared budgets refused a request; with none, that it is answered or over."""
        self._refusals = refusals
        if not refusals:
            self._exempt([])

    def apply_refusal(self, shared: OverBudget) -> bool:
        """Request an approval, or let the model finish; return whether the run has to end."""
        state, meter = self._state, self._state.meter
        is_begun, exempt = meter.requests > meter.before.max_turns, state.budget_scopes.exempt
        if shared.on_limit == "ask" and state.asks_people:
            question = self._question_on_request(shared)
            self._phases.move(RunEvent.EXTENSION_REQUESTED, AskPeople(question, shared.label))
            self._questions.ask(question)
        elif shared.on_limit == "finalize" and self._progress.finalizing is None and is_begun:
            state.log.add_notice(f"the budget {shared.label} is used up")
            self._exempt([*exempt, *(each.name for each in self._refusals)])
            self._progress.finalize(meter.turns)
            state.log.add_message(ChatMessage(role="user", content=prompt.FINALIZE))
        else:
            return True
        return False

    def _exempt(self, names: list[str]) -> None:
        """Let the next request exceed these shared budgets."""
        self._refusals = []
        scopes = self._state.budget_scopes
        if scopes.exempt != names:
            self._state.count_in(scopes.model_copy(update={"exempt": names}))

    def reached(self) -> BudgetName | None:
        """Return the limit that prevents a request; a final one may always be made."""
        meter = self._state.meter
        limit = meter.limit_reached()
        if self._progress.finalizing is None:
            is_last = limit is None and meter.requests + 1 == meter.budget.max_turns
            return "maxTurns" if is_last and self._finishes_share("maxTurns") else limit
        first = self._progress.finalizing == meter.turns
        return None if first or limit == "maxIterations" else limit

    def apply(self, name: BudgetName) -> bool:
        """Request an approval, or let the model finish; return whether the run has to end."""
        meter = self._state.meter
        action = "finalize" if self._finishes_share(name) else meter.action(name)
        if action == "ask" and self._state.asks_people:
            question = self._question_on(name)
            self._phases.move(RunEvent.EXTENSION_REQUESTED, AskPeople(question, name))
            self._questions.ask(question)
        elif action == "finalize" and self._progress.finalizing is None:
            self._progress.finalize(meter.turns)
            self._state.log.add_message(ChatMessage(role="user", content=prompt.FINALIZE))
        else:
            return True
        return False

    def _finishes_share(self, name: BudgetName) -> bool:
        """Return whether a delegate finishes at the end of its share, with its last request."""
        state = self._state
        is_share = state.is_delegate and name in SHARED
        may_finish = state.meter.on_limit.get(name, "finalize") == "finalize"
        return is_share and may_finish

    def log_threshold(self, name: BudgetName) -> None:
        """Log that a budget has come to its threshold, and have people notified of that."""
        meter = self._state.meter
        used, limit = meter.shown(name, meter.used()[name]), meter.limit(name)
        self._state.log.append(BudgetThresholdEntry(budget=name, used=used, limit=limit))
        label = f"{name}: {used} of {limit} used"
        shown = replace(self._question_on(name), label=label, arguments={}, text=label)
        self._state.reached.append(shown)

    def extend(self, name: str, ruling: Ruling | Moved | None) -> bool:
        """Apply the ruling on a budget; return whether the ruling extends it."""
        self._phases.move(RunEvent.EXTENSION_DECIDED)
        if not isinstance(ruling, Approved):
            return False
        if (shared := self.refusal) is not None:
            self._exempt([*self._state.budget_scopes.exempt, shared.name])
            return True
        to = BudgetLimits.model_validate(ruling.arguments) if ruling.edited_by else None
        self._state.meter.extend(cast(BudgetName, name), to)
        return True

    def _question_on(self, name: BudgetName) -> Question:
        state, limit = self._state, self._state.meter.limit(name)

        def check(arguments: dict[str, Any], _: ValidationLimits) -> dict[str, Any]:
            try:
                budget = BudgetLimits.model_validate(arguments)
            except ValidationError as error:
                problems = problems_of(error, arguments, BudgetLimits)
                raise InvalidArguments(summarize_problems(problems)) from None
            budget_json = budget.to_json()
            if list(budget_json) != [name]:
                raise InvalidArguments(f"write the new `{name}`, and nothing else")
            if not state.meter.frees(name, budget):
                raise InvalidArguments(f"`{name}` has to be more than the run has used already")
            return budget_json

        return Question(
            call_id=names.budget_id(state.meter.turns, name),
            turn=state.meter.turns,
            kind="budget",
            tool=name,
            label=f"budget {name}",
            arguments={name: limit},
            reasoning=None,
            text=f"The run has used up its {name} of {limit}. `approve` grants as much again,"
            " `edit` sets it, `deny` grants no more.",
            policy=state.rules.approval.over(APPROVAL_DEFAULTS),
            requested_at=state.clock(),
            check_arguments=check,
            principal=state.principal,
        )

    def _question_on_request(self, shared: OverBudget) -> Question:
        state, turns = self._state, self._state.meter.turns
        policy = state.rules.approval.over(APPROVAL_DEFAULTS)
        if shared.approvers is not None:
            policy = policy.model_copy(update={"approvers": shared.approvers})
        arguments = {shared.limit: shared.most}

        def check(written: dict[str, Any], _: ValidationLimits) -> dict[str, Any]:
            if written != arguments:
                raise InvalidArguments("a budget that runs share is not extended here: approve")
            return written

        return Question(
            call_id=names.budget_id(turns, shared.name),
            turn=turns,
            kind="budget",
            tool=shared.limit,
            label=f"budget {shared.name}",
            arguments=arguments,
            reasoning=None,
            text=f"A request does not fit into the budget {shared.label}, which runs share."
            " `approve` lets this request exceed it, `deny` grants no more.",
            policy=policy,
            requested_at=state.clock(),
            check_arguments=check,
            principal=state.principal,
        )

"""Limits: the action of a run that has used up a budget.

finalize ─► the model finishes, in one more request
ask      ─► people extend the budget, or end the run; without approvals, as `fail`
fail     ─► the run ends
"""

from typing import Any

from pydantic import ValidationError

from holdfast.schemas import names
from holdfast.schemas.agent import Budget, BudgetName
from holdfast.schemas.log_entry import NoticeEntry
from holdfast.schemas.tool import APPROVAL_DEFAULTS
from holdfast.validation.arguments import InvalidArguments
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.workflows.engine.approvals.question import Approved, Question
from holdfast.workflows.engine.budget.meter import budget_limit
from holdfast.workflows.engine.execution.lifecycle import CallLifecycle
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.steps import AskPeople


class BudgetLimits:
    """The limits of one run.

    `finalizing` is the number of turns at the time of the request to finish; `question` is the open
    question on a budget, if there is one.
    """

    def __init__(self, state: RunState, calls: CallLifecycle, finalizing: int | None) -> None:
        self._state = state
        self._calls = calls
        self.finalizing = finalizing
        self.question: AskPeople | None = None

    def reached(self) -> BudgetName | None:
        """Return the limit that prevents a request.

        No limit prevents the request for a final answer. An invalid final answer may be fixed
        within every limit but that of iterations.
        """
        limit = self._state.meter.limit_reached()
        if self.finalizing is None:
            return limit
        first = self.finalizing == self._state.meter.turns
        return None if first or limit == "maxIterations" else limit

    def apply(self, name: BudgetName) -> bool:
        """Request an approval, or let the model finish; return whether the run has to end."""
        action = self._state.meter.action(name)
        if action == "ask" and self._state.asks_people:
            self.question = AskPeople(question_on(self._state, name), name)
            self._calls.ask_people(self._state.meter.turns, self.question.question)
        elif action == "finalize" and self.finalizing is None:
            self.finalizing = self._state.meter.turns
        else:
            self.log_exceeded(name)
            return True
        return False

    def log_exceeded(self, name: BudgetName) -> None:
        """Log the limit for which the run ends."""
        self._state.log.append(NoticeEntry(text=f"the budget {name} is used up"))

    def extend(self) -> bool:
        """Apply the ruling on the budget; return whether the ruling extends it."""
        assert self.question is not None  # a question was open
        asked, self.question = self.question, None
        ruling = asked.question.ruling
        if not isinstance(ruling, Approved):
            return False
        to = Budget.model_validate(ruling.arguments) if ruling.edited_by else None
        self._state.meter.extend(asked.budget, to)
        return True


def question_on(state: RunState, name: BudgetName) -> Question:
    """Return the question that requests more of a budget."""
    limit = budget_limit(state.meter.budget, name)
    return Question(
        call_id=names.budget_id(state.meter.turns, name),
        kind="budget",
        tool=name,
        label=f"budget {name}",
        arguments={name: limit},
        reasoning=None,
        text=f"The run has used up its {name} of {limit}. `approve` grants as much again,"
        " `edit` sets it, `deny` ends the run.",
        policy=state.rules.approval.over(APPROVAL_DEFAULTS),
        requested_at=state.clock(),
        check_arguments=lambda arguments: _new_limit(state, name, arguments),
        principal=state.principal,
    )


def _new_limit(state: RunState, name: BudgetName, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        budget = Budget.model_validate(arguments)
    except ValidationError as error:
        raise InvalidArguments(summarize_problems(problems_of(error, arguments, Budget))) from None
    said = budget.to_json()
    if list(said) != [name]:
        raise InvalidArguments(f"say the new `{name}`, and nothing else")
    if not state.meter.frees(name, budget):
        raise InvalidArguments(f"`{name}` has to be more than the run has used already")
    return said

"""Extending a budget: what people are asked when one is used up, and what they may say."""

from typing import Any

from pydantic import ValidationError

from holdfast.schemas import names
from holdfast.schemas.agent import Budget, BudgetName
from holdfast.schemas.tool import APPROVAL_DEFAULTS
from holdfast.validation.arguments import InvalidArguments
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.budget.meter import budget_limit
from holdfast.workflows.engine.run_state import RunState


def question_on(state: RunState, name: BudgetName) -> Question:
    """Return the question whether a run may use more of a budget."""
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

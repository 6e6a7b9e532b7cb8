"""Budgets: how much a run may use, and what becomes of one that has used it up."""

from typing import Annotated, Literal

from pydantic import Field

from holdfast.schemas.base import Duration, Strict

OnLimit = Literal["finalize", "fail", "ask"]
BudgetName = Literal[
    "maxIterations",
    "maxTurns",
    "maxCalls",
    "maxDuration",
    "maxTokens",
    "maxCost",
    "maxSameTool",
    "maxDepth",
]


ThresholdName = Literal["maxIterations", "maxTurns", "maxCalls", "maxTokens", "maxCost"]


class BudgetLimits(Strict, use_attribute_docstrings=True):
    """The most of each budget; what is unset has no bound."""

    max_iterations: Annotated[int, Field(ge=0)] | None = None
    """Rounds of calls, before the model is asked to finish (default: 6)."""
    max_turns: Annotated[int, Field(ge=1)] | None = None
    """Requests to the model (default: 8)."""
    max_calls: Annotated[int, Field(ge=0)] | None = None
    """Calls, those refused included (default: 32)."""
    max_duration: Duration | None = None
    """Time at work; waiting for people is not counted."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens, as the provider reports them."""
    max_cost: Annotated[float, Field(gt=0)] | None = None
    """Cost, by the endpoint's prices."""
    max_same_tool: Annotated[int, Field(ge=1)] | None = None
    """Calls of one tool in a row."""
    max_depth: Annotated[int, Field(ge=0)] | None = None
    """Delegates of delegates (default: 4)."""

    def within(self, bounds: "BudgetLimits") -> "BudgetLimits":
        """Return these limits, where they are tighter than `bounds`; else `bounds`."""
        tighter = {name: getattr(bounds, name) for name in BudgetLimits.model_fields}
        for name, bound in tighter.items():
            value = getattr(self, name)
            if value is not None and (bound is None or value < bound):
                tighter[name] = value
        return BudgetLimits.model_validate(tighter)


class Budget(BudgetLimits):
    """How much a run may use, and in a conversation each message.

    An unset field falls back: to the agent's, then to `BUDGET_DEFAULTS`; what those leave unset has
    no bound.
    """

    per_message: BudgetLimits | None = None
    """In a conversation, the limits of one message, over those beside them."""
    total: BudgetLimits | None = None
    """The limits of the whole run, all messages of a conversation together."""

    def bounded(self, bounds: "Budget") -> "Budget":
        """Return the budget, each part of it within the same part of `bounds`."""
        total = (self.total or BudgetLimits()).within(bounds.total or BudgetLimits())
        has_own = self.per_message or bounds.per_message
        return Budget(
            **dict(self.within(bounds)),
            per_message=self.of_message().within(bounds.of_message()) if has_own else None,
            total=None if total == BudgetLimits() else total,
        )

    def of_run(self) -> BudgetLimits:
        return self.within(self.total or BudgetLimits())

    def of_message(self) -> BudgetLimits:
        plain = self.within(BudgetLimits())
        return plain if self.per_message is None else self.per_message.over(plain)


BUDGET_DEFAULTS = Budget(max_iterations=6, max_turns=8, max_calls=32, max_depth=4)
ON_LIMIT_DEFAULTS: dict[BudgetName, OnLimit] = {"maxIterations": "finalize"}

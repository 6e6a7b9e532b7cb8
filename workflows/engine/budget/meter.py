"""Budgets: what a run has used, of what it may use.

The meter counts; it never acts. Time counts while something is at work: waiting for people is free.
That the time is used up is signalled by a timer of the workflow, since every replay sees it fire
alike. Tokens that a provider does not report are unknown, which is not zero: the meter says so.

Turns are requests to the model, by number. Requests that are no turns of the run, since they answer
one call or are a delegate's, are counted beside them: a limit is one of all requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from pydantic import Field

from holdfast.schemas.agent import ON_LIMIT_DEFAULTS, Budget, BudgetName, OnLimit
from holdfast.schemas.base import Lenient, format_duration
from holdfast.schemas.internal.solution import Usage


@dataclass(frozen=True)
class BudgetShare:
    """A part of a budget; None has no bound."""

    requests: int | None = None
    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    duration: timedelta | None = None


class Meter(Lenient, frozen=False):
    """What a run has used so far, of which budget; as JSON, its snapshot while nothing is at work.

    `granted` is the budget before any extension. `held` is what others than the run itself may use
    meanwhile, by the call that they answer.
    """

    budget: Budget
    granted: Budget
    iterations: int = 0
    turns: int = 0
    besides: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    tokens_unknown: bool = False
    cost_unknown: bool = False
    same_tool: tuple[str, int] = ("", 0)
    out_of_time: bool = False
    too_deep: bool = False
    worked: timedelta = timedelta()
    on_limit: dict[str, OnLimit] = Field(default={}, exclude=True)
    held: dict[str, BudgetShare] = Field(default={}, exclude=True)
    _since: datetime | None = None
    _at_work: int = 0

    @classmethod
    def of(cls, budget: Budget) -> Self:
        """Return a meter of which nothing is used."""
        return cls(budget=budget, granted=budget)

    def set_actions(self, on_limit: Mapping[str, OnLimit]) -> None:
        """Set what reaching each limit leads to."""
        self.on_limit = dict(on_limit)

    def action(self, name: BudgetName) -> OnLimit:
        """Return what reaching a limit leads to."""
        return self.on_limit.get(name, ON_LIMIT_DEFAULTS.get(name, "fail"))

    def begin_work(self, now: datetime) -> None:
        """Something is at work from now on."""
        if self._at_work == 0:
            self._since = now
        self._at_work += 1

    def end_work(self, now: datetime) -> None:
        """It is no longer; when nothing is, the clock stands."""
        self._at_work -= 1
        if self._at_work == 0 and self._since is not None:
            self.worked += now - self._since
            self._since = None

    @property
    def at_work(self) -> bool:
        """Return whether something is at work."""
        return self._at_work > 0

    def time_at_work(self, now: datetime) -> timedelta:
        """Return time at work so far."""
        return self.worked + (now - self._since if self._since is not None else timedelta())

    def remaining(self, now: datetime) -> timedelta | None:
        """Return time at work that is left; None where it has no bound, or is over already."""
        if self.budget.max_duration is None or self.out_of_time:
            return None
        return max(self.budget.max_duration - self.time_at_work(now), timedelta(seconds=1))

    def run_out_of_time(self) -> None:
        """Take in that the time at work is used up."""
        self.out_of_time = True

    def reach_depth(self) -> None:
        """Take in that a delegate was refused for being too deep."""
        self.too_deep = True

    def count_iteration(self) -> None:
        """Count a round of calls."""
        self.iterations += 1

    def reset_iterations(self) -> None:
        """Count rounds of calls from zero, for the next message of a conversation."""
        self.iterations = 0

    @property
    def requests(self) -> int:
        """Return how often a model was asked, for whatever reason."""
        return self.turns + self.besides

    def spend(self, usage: Usage) -> None:
        """Count what the answer of a turn cost."""
        self.turns += 1
        self._count(usage)

    def charge(self, usage: Usage, *, requests: int = 1, calls: int = 0) -> None:
        """Count what was used beside the run's own turns."""
        self.besides += requests
        self.calls += calls
        self._count(usage)

    def _count(self, usage: Usage) -> None:
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        self.cached_tokens += usage.cached_tokens or 0
        self.cost += usage.cost or 0.0
        self.tokens_unknown |= usage.input_tokens is None or usage.output_tokens is None
        self.cost_unknown |= usage.cost is None

    def refuse_call(self, tool: str) -> str | None:
        """Count a call; why it goes beyond a limit, where it does."""
        self.calls += 1
        name, in_a_row = self.same_tool
        self.same_tool = (tool, in_a_row + 1 if name == tool else 1)
        if self.budget.max_calls is not None and self.calls > self.budget.max_calls:
            return f"the run's limit of {self.budget.max_calls} calls is reached"
        limit = self.budget.max_same_tool
        if limit is not None and self.same_tool[1] > limit:
            return f"`{tool}` was called {limit} times in a row, which is the run's limit"
        return None

    def limit_reached(self) -> BudgetName | None:
        """Return the first limit that keeps the model from being asked again."""
        same_tool = self.same_tool[1] - 1
        used: list[tuple[BudgetName, float, float | None]] = [
            ("maxCalls", self.calls - 1, self.budget.max_calls),
            ("maxSameTool", same_tool, self.budget.max_same_tool),
            ("maxTokens", self.input_tokens + self.output_tokens, self.budget.max_tokens),
            ("maxCost", self.cost, self.budget.max_cost),
            ("maxDuration", self.out_of_time, None if self.budget.max_duration is None else 1),
            # A delegate too deep is refused as a call; it is a limit for the run where it says so.
            ("maxDepth", self.too_deep and "maxDepth" in self.on_limit, 1),
            ("maxTurns", self.requests, self.budget.max_turns),
            ("maxIterations", self.iterations, self.budget.max_iterations),
        ]
        return next(
            (name for name, value, most in used if most is not None and value >= most), None
        )

    def extend(self, name: BudgetName, to: Budget | None = None) -> None:
        """Grant more of a budget: as much again as was granted first, or what a person said.

        What was used beyond the limit is granted too, or the very next step would ask again.
        """
        if name == "maxDuration":
            self.out_of_time = False
        if name == "maxDepth":
            self.too_deep = False
        if name == "maxSameTool":
            self.same_tool = ("", 0)
        if to is not None:
            self.budget = to.over(self.budget)
            return
        attribute = _attribute(name)
        limit = getattr(self.budget, attribute)
        again = getattr(self.granted, attribute) or 1
        more = max(limit, self.used().get(name, limit)) + again
        self.budget = self.budget.model_copy(update={attribute: more})

    def frees(self, name: BudgetName, to: Budget) -> bool:
        """Return whether the run could go on with such a limit."""
        new, limit = (getattr(budget, _attribute(name)) for budget in (to, self.budget))
        return name == "maxSameTool" or bool(new > self.used().get(name, limit))

    def used(self) -> dict[BudgetName, Any]:
        """Return what is known to be used, by budget.

        Without time, which no two replays measure alike.
        """
        return {
            "maxIterations": self.iterations,
            "maxTurns": self.requests,
            "maxCalls": self.calls,
            "maxTokens": self.input_tokens + self.output_tokens,
            "maxCost": self.cost,
            "maxSameTool": self.same_tool[1],
        }

    def usage(self) -> Usage:
        """Return what the run cost, as far as it is known."""
        return Usage(
            input_tokens=None if self.tokens_unknown else self.input_tokens,
            output_tokens=None if self.tokens_unknown else self.output_tokens,
            cached_tokens=None if self.tokens_unknown else self.cached_tokens,
            cost=None if self.cost_unknown else self.cost,
        )

    def view(self, now: datetime) -> dict[str, Any]:
        """Used and granted, by budget, as `status` shows them."""
        used: dict[BudgetName, Any] = self.used()
        used["maxDuration"] = format_duration(self.time_at_work(now))
        if self.tokens_unknown:
            used["maxTokens"] = None
        if self.cost_unknown:
            used["maxCost"] = None
        limits = self.budget.to_json()
        return {name: {"used": value, "limit": limits.get(name)} for name, value in used.items()}

    def unmetered_budget(self) -> BudgetName | None:
        """Return a budget that cannot be enforced, because the provider reports no usage."""
        if self.budget.max_tokens is not None and self.tokens_unknown:
            return "maxTokens"
        if self.budget.max_cost is not None and self.cost_unknown:
            return "maxCost"
        return None


def budget_limit(budget: Budget, name: BudgetName) -> Any:
    """Return the limit itself, as a person reads it."""
    return budget.to_json().get(name)


def _attribute(name: BudgetName) -> str:
    return next(key for key, field_ in Budget.model_fields.items() if field_.alias == name)

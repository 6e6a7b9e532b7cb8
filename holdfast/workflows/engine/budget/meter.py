"""Budgets: what a run has used, and its limits.

Time counts while something is running: waiting for people is free. A timer of the workflow signals
that the time is used up, since every replay sees it fire at the same point. Tokens that a provider
does not report are unknown, not zero. Requests to the model that are not turns of the run (for one
call, or in a delegate) are counted separately; the limit of requests covers both.

A delegate reserves a part of the rest of the budget when it starts, and a call that a model answers
one request, until it ends: all of them together stay within the run's budget. The run keeps one
request for itself, to send the results of its calls to the model, and one for each call of the turn
that a model has yet to answer. Time is not divided: each may use all that is left.

In a conversation the limits count from the start of each message, within the `total` of all. The
counters continue: the limits move by what was used before.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Self

from pydantic import Field
from pydantic.alias_generators import to_snake
from pydantic.dataclasses import dataclass

from holdfast.schemas.base import MUTABLE, Lenient, format_duration
from holdfast.schemas.budget import (
    ON_LIMIT_DEFAULTS,
    Budget,
    BudgetLimits,
    BudgetName,
    OnLimit,
    ThresholdName,
)
from holdfast.schemas.internal.solution import AMOUNT_DIGITS, Usage, add_amounts
from holdfast.workflows.engine.call.states import ToolCall

# The field of a budget's name.
field_of = lru_cache(64)(to_snake)
# The budgets of which a delegate has a part.
SHARED: tuple[BudgetName, ...] = ("maxTurns", "maxCalls", "maxTokens", "maxCost")


class BudgetExhausted(Exception):
    """A budget is used up, or the rest of it is reserved."""


class UsedBefore(Lenient):
    """The usage of a conversation when its present message began, by the names of the limits."""

    max_iterations: int = 0
    max_turns: int = 0
    max_calls: int = 0
    max_tokens: int = 0
    max_cost: float = 0.0
    max_duration: timedelta = timedelta()


@dataclass(config=MUTABLE)
class Meter:
    """The usage of a run and its budget; as JSON, its snapshot while nothing is running.

    `granted` is the budget before any extension: in a conversation that of one message, `total`
    that of all, and `before` the usage of the messages before the present one. `reached` has
    the budgets at their threshold. `held` is the reservation of each call that uses the budget
    outside the run's own turns, by call id.
    """

    budget: BudgetLimits
    granted: BudgetLimits
    total: BudgetLimits = BudgetLimits()
    before: UsedBefore = UsedBefore()
    iterations: int = 0
    turns: int = 0
    besides: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    currency: str | None = Field(default=None, exclude_if=lambda code: code is None)
    tokens_unknown: bool = False
    cost_unknown: bool = False
    same_tool: tuple[str, int] = ("", 0)
    out_of_time: bool = False
    too_deep: bool = False
    worked: timedelta = timedelta()
    reached: list[BudgetName] = Field(default=[])
    on_limit: dict[str, OnLimit] = Field(default={}, exclude=True)
    on_threshold: dict[ThresholdName, float] = Field(default={}, exclude=True)
    held: dict[str, Budget] = Field(default={}, exclude=True)

    def __post_init__(self) -> None:
        self._since: datetime | None = None
        self._at_work = 0

    @classmethod
    def of(cls, budget: BudgetLimits, total: BudgetLimits | None = None) -> Self:
        """Return a meter without any usage; `total` bounds all messages of a conversation."""
        total = total or BudgetLimits()
        return cls(budget=budget.within(total), granted=budget, total=total)

    def begin_after(self, turns: int) -> None:
        """Number turns on from these, which another run has made: they are no requests of it."""
        self.turns, self.besides = turns, -turns

    def set_actions(
        self, on_limit: Mapping[str, OnLimit], on_threshold: Mapping[ThresholdName, float]
    ) -> None:
        self.on_limit, self.on_threshold = dict(on_limit), dict(on_threshold)

    def pass_thresholds(self) -> list[BudgetName]:
        """Return the budgets that have come to their threshold, each once for each grant."""
        used, passed = self.used() if self.on_threshold else {}, list[BudgetName]()
        for name, share in self.on_threshold.items():
            field = field_of(name)
            limit, start = getattr(self.budget, field), getattr(self.before, field)
            is_passed = limit and used[name] - start >= share * (limit - start)
            if is_passed and name not in self.reached:
                passed.append(name)
        self.reached = [*self.reached, *passed]
        return passed

    def action(self, name: BudgetName) -> OnLimit:
        return self.on_limit.get(name, ON_LIMIT_DEFAULTS.get(name, "fail"))

    def begin_work(self, now: datetime) -> None:
        if self._at_work == 0:
            self._since = now
        self._at_work += 1

    def end_work(self, now: datetime) -> bool:
        """Count one running task less; when none is left, stop the clock and return True."""
        self._at_work -= 1
        if self._at_work == 0 and self._since is not None:
            self.worked += now - self._since
            self._since = None
        return self._at_work == 0

    def time_at_work(self, now: datetime) -> timedelta:
        return self.worked + (now - self._since if self._since is not None else timedelta())

    def remaining(self, now: datetime) -> timedelta | None:
        """Return the running time that is left; None if it is unlimited or used up."""
        if self.budget.max_duration is None or self.out_of_time:
            return None
        return max(self.budget.max_duration - self.time_at_work(now), timedelta(seconds=1))

    def run_out_of_time(self) -> None:
        self.out_of_time = True

    def count_iteration(self) -> None:
        self.iterations += 1

    def begin_message(self) -> None:
        """Count every limit from here on, for the next message of a conversation."""
        used = {field_of(name): amount for name, amount in self.used().items()}
        self.before = UsedBefore.read({**used, "max_duration": self.worked})
        moved = {
            name: limit if limit is None else limit + getattr(self.before, name, 0)
            for name, limit in self.granted
        }
        self.budget = BudgetLimits.model_validate(moved).within(self.total)
        self.same_tool, self.out_of_time, self.too_deep = ("", 0), False, False
        self.reached = []

    def is_total(self, name: str) -> bool:
        """Return whether a limit is that of all messages of a conversation together.

        It may be the label of a budget that runs share, which is none.
        """
        field = field_of(name)
        total = getattr(self.total, field, None)
        return total is not None and bool(total == getattr(self.budget, field))

    @property
    def requests(self) -> int:
        return self.turns + self.besides

    def charge(self, usage: Usage, *, turns: int = 0, requests: int = 1, calls: int = 0) -> None:
        """Count the usage of some requests, of which some are turns of the run itself."""
        self.turns += turns
        self.besides += requests - turns
        self.calls += calls
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        self.cached_tokens += usage.cached_tokens or 0
        cost = Usage(cost=self.cost, currency=self.currency).plus(usage)
        self.currency = cost.currency if usage.cost else self.currency
        self.cost = add_amounts(self.cost, usage.cost or 0.0)
        self.tokens_unknown |= usage.input_tokens is None or usage.output_tokens is None
        self.cost_unknown |= usage.cost is None

    def refuse_call(self, tool: str) -> str | None:
        """Count a call; return the reason if it exceeds a limit."""
        self.calls += 1
        name, in_a_row = self.same_tool
        self.same_tool = (tool, in_a_row + 1 if name == tool else 1)
        if self.budget.max_calls is not None and self.calls > self.budget.max_calls:
            return f"the run's limit of {self.budget.max_calls} calls is reached"
        limit = self.budget.max_same_tool
        if limit is not None and self.same_tool[1] > limit:
            return f"`{tool}` was called {limit} times in a row, which is the run's limit"
        return None

    def refuse_items(self, tool: str, items: int) -> str | None:
        """Count the items of a loop, itself counted as one call; or none, and return the reason."""
        more, (name, in_a_row) = max(items - 1, 0), self.same_tool
        in_a_row = (in_a_row if name == tool else 1) + more
        # What running delegates may still use is theirs.
        held = sum(one.max_calls or 0 for one in self.held.values())
        most = self.budget.max_calls
        if most is not None and self.calls + more + held > most:
            return f"the run's limit is {self.budget.max_calls} calls"
        limit = self.budget.max_same_tool
        if limit is not None and in_a_row > limit:
            return f"the run's limit is {limit} calls of `{tool}` in a row"
        self.calls += more
        self.same_tool = (tool, in_a_row)
        return None

    def limit_reached(self) -> BudgetName | None:
        """Return the first limit that prevents another request to the model."""
        same_tool = self.same_tool[1] - 1
        used: list[tuple[BudgetName, float, float | None]] = [
            ("maxCalls", self.calls - 1, self.budget.max_calls),
            ("maxSameTool", same_tool, self.budget.max_same_tool),
            ("maxTokens", self.input_tokens + self.output_tokens, self.budget.max_tokens),
            ("maxCost", self.cost, self.budget.max_cost),
            ("maxDuration", self.out_of_time, None if self.budget.max_duration is None else 1),
            # A delegate that is too deep is refused as a call; the run's own limit applies if set.
            ("maxDepth", self.too_deep and "maxDepth" in self.on_limit, 1),
            ("maxTurns", self.requests, self.budget.max_turns),
            ("maxIterations", self.iterations, self.budget.max_iterations),
        ]
        return next(
            (name for name, value, most in used if most is not None and value >= most), None
        )

    def extend(self, name: BudgetName, to: BudgetLimits | None = None) -> None:
        """Grant more than is used of a budget: the original grant again, or a person's value."""
        if name == "maxDuration":
            self.out_of_time = False
        if name == "maxDepth":
            self.too_deep = False
        if name == "maxSameTool":
            self.same_tool = ("", 0)
        self.reached = [each for each in self.reached if each != name]
        field = field_of(name)
        limit, again = getattr(self.budget, field), getattr(self.granted, field) or 1
        more = max(limit, self.used().get(name, limit)) + again
        if to is not None:
            more = getattr(to, field) + getattr(self.before, field, type(limit)())
        self.budget = self.budget.model_copy(update={field: more}).within(self.total)

    def limit(self, name: BudgetName) -> Any:
        """Return the limit, in a conversation that of the message, in a form for people."""
        return self.shown(name, getattr(self.budget, field_of(name)))

    def shown(self, name: BudgetName, amount: Any, before: UsedBefore | None = None) -> Any:
        """Return an amount of the message in a form for people, or beside another `before`."""
        start = getattr(before or self.before, field_of(name), None)
        if start and amount is not None:
            is_money = isinstance(start, float)
            amount = add_amounts(amount, -start) if is_money else amount - start
        return format_duration(amount) if isinstance(amount, timedelta) else amount

    def frees(self, name: BudgetName, to: BudgetLimits) -> bool:
        """Return whether the run could continue with such a limit."""
        new, limit = getattr(to, field_of(name)), getattr(self.budget, field_of(name))
        used = self.used().get(name, limit) - getattr(self.before, field_of(name), type(limit)())
        return name == "maxSameTool" or bool(new > used)

    def used(self) -> dict[BudgetName, Any]:
        """Return the known usage, by budget, without time: two replays measure it differently."""
        return {
            "maxIterations": self.iterations,
            "maxTurns": self.requests,
            "maxCalls": self.calls,
            "maxTokens": self.input_tokens + self.output_tokens,
            "maxCost": self.cost,
            "maxSameTool": self.same_tool[1],
        }

    def usage(self) -> Usage:
        """Return the usage of the run, as far as it is known."""
        return Usage(
            input_tokens=None if self.tokens_unknown else self.input_tokens,
            output_tokens=None if self.tokens_unknown else self.output_tokens,
            cached_tokens=None if self.tokens_unknown else self.cached_tokens,
            cost=None if self.cost_unknown else self.cost,
            currency=self.currency,
        )

    def view(self, now: datetime) -> dict[str, Any]:
        """Return usage and grant of each budget, as `status` shows them.

        In a conversation they are those of the message, and `total` those of the whole.
        """
        used: dict[BudgetName, Any] = {**self.used(), "maxDuration": self.time_at_work(now)}
        if self.tokens_unknown:
            used["maxTokens"] = None
        if self.cost_unknown:
            used["maxCost"] = None
        views: dict[str, Any] = {}
        for name, amount in used.items():
            views[name] = {"used": self.shown(name, amount), "limit": self.limit(name)}
            if self.before != UsedBefore() or self.total != BudgetLimits():
                limit = getattr(self.total, field_of(name))
                whole = [self.shown(name, each, UsedBefore()) for each in (amount, limit)]
                views[name]["total"] = dict(zip(("used", "limit"), whole, strict=True))
        return views

    def unmetered_budget(self) -> BudgetName | None:
        """Return a budget that cannot be enforced because the provider reports no usage."""
        if self.budget.max_tokens is not None and self.tokens_unknown:
            return "maxTokens"
        if self.budget.max_cost is not None and self.cost_unknown:
            return "maxCost"
        return None

    def share(
        self, now: datetime, call: ToolCall, calls: Iterable[ToolCall], *, keep: int = 1
    ) -> Budget:
        """Return the part of a delegate that is about to start, or raise `BudgetExhausted`.

        The rest is divided equally among the delegates of its turn that have not started yet; what
        cannot be divided goes to the first of them. The run needs `keep` requests of its own.
        """
        depth = self.budget.max_depth
        if depth == 0:
            self.too_deep = True
            raise BudgetExhausted("the run's limit of delegates of delegates, maxDepth, is reached")
        others = (one for one in calls if one is not call and one.id not in self.held)
        claims = [call]
        for one in others:
            tool = one.proposed.tool  # a later call of a sequential turn is not checked yet
            if not one.has_ended and tool and (tool.delegate or tool.latent):
                claims.append(one)
        delegates = sum(1 for one in claims if one.tool.delegate is not None)
        left = self._left(keep=keep + len(claims) - delegates)
        parts: dict[str, Any] = {name: _part(rest, delegates) for name, rest in left.items()}
        parts |= {"max_duration": self.remaining(now), "max_depth": depth and depth - 1}
        return Budget.model_validate(parts)

    def hold_request(self, key: str) -> None:
        """Reserve one request for a call that a model answers, or raise `BudgetExhausted`."""
        self.check_request()
        self.held[key] = Budget(max_turns=1)

    def check_request(self) -> None:
        """Raise `BudgetExhausted` unless one request besides the run's own is left."""
        self._left(keep=1)

    def _left(self, *, keep: int) -> dict[str, float]:
        """Return the limited budget that is neither used nor reserved, without requests to keep."""
        left, used = dict[str, float](), self.used()
        used["maxTurns"] += keep
        for name in SHARED:
            field = field_of(name)
            if (limit := getattr(self.budget, field)) is not None:
                reserved = sum(getattr(one, field) or 0 for one in self.held.values())
                rest = limit - (used[name] + reserved)
                left[field] = max(round(rest, AMOUNT_DIGITS), 0)
                if left[field] == 0 and name != "maxCalls":  # a delegate can answer without calls
                    raise self._exhausted(name)
        if self.out_of_time:
            raise self._exhausted("maxDuration")
        return left

    def _exhausted(self, name: BudgetName) -> BudgetExhausted:
        return BudgetExhausted(f"nothing is left of the run's {name} ({self.limit(name)}) for it")


def _part(left: int | float, among: int) -> int | float:
    """Return an equal part of the rest: of a number, the first parts take what is left over."""
    if isinstance(left, float):
        return round(left / among, AMOUNT_DIGITS) or left
    part, rest = divmod(left, among)
    return part + 1 if rest else part

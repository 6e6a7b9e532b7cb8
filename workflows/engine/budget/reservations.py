"""What is left of a run's budget, and how those share it who use it beside the run's own turns.

A delegate gets a part when it starts, a call that a model answers gets one request: what they hold
is no one else's until they end. So all of them together never use more than the run may. One
request the run keeps for itself, since what comes of its calls has to be read; and one for each
call of the turn that a model is still to answer. Time passes for all alike: each may use what is
left of it.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from holdfast.schemas.agent import BudgetName
from holdfast.workflows.engine.budget.meter import BudgetShare, Meter, budget_limit
from holdfast.workflows.engine.call.tool_call import CallStage, ToolCall

ONE_REQUEST = BudgetShare(requests=1)


class BudgetExhausted(Exception):
    """A budget is used up, or all that is left of it is held by others."""

    def __init__(self, name: BudgetName, meter: Meter) -> None:
        super().__init__(
            f"nothing is left of the run's {name} ({budget_limit(meter.budget, name)}) for it"
        )


def budget_share(
    meter: Meter, now: datetime, call: ToolCall, calls: Iterable[ToolCall]
) -> BudgetShare:
    """Return the part of a delegate that is about to start.

    An equal one among the delegates of its turn that have not started yet.

    Calls are the one part that may be none: a delegate may well answer without any.

    Raises:
        NothingLeft: there is none.
    """
    claims = [one for one in calls if one is call or _claims(one, meter)]
    delegates = sum(1 for one in claims if one.tool.delegate is not None)
    left = _left(meter, now, keep=1 + len(claims) - delegates)
    _check(left, meter)
    return BudgetShare(
        requests=_part(left.requests, delegates),
        calls=_part(left.calls, delegates),
        tokens=_part(left.tokens, delegates),
        cost=None if left.cost is None else left.cost / delegates,
        duration=left.duration,
    )


def hold_request(meter: Meter, now: datetime, key: str) -> None:
    """Hold one request for a call that a model is to answer.

    Raises:
        NothingLeft: there is none.
    """
    check_request(meter, now)
    meter.held[key] = ONE_REQUEST


def check_request(meter: Meter, now: datetime) -> None:
    """See that a request can be made besides the run's own.

    Raises:
        NothingLeft: none can.
    """
    _check(_left(meter, now, keep=1), meter)


def _claims(call: ToolCall, meter: Meter) -> bool:
    """Return whether a call is still to use the budget, for all that is known."""
    tool = call.found_tool  # a later call of a sequential turn is not checked yet
    if tool is None or call.stage is CallStage.ENDED or call.id in meter.held:
        return False
    return tool.delegate is not None or tool.latent


def _left(meter: Meter, now: datetime, *, keep: int) -> BudgetShare:
    """Return what no one has used or holds; of requests, besides those to `keep`."""
    budget, held = meter.budget, meter.held.values()
    tokens = meter.input_tokens + meter.output_tokens
    cost = meter.cost + sum(one.cost or 0.0 for one in held)
    return BudgetShare(
        requests=_rest(budget.max_turns, meter.requests + keep, *(one.requests for one in held)),
        calls=_rest(budget.max_calls, meter.calls, *(one.calls for one in held)),
        tokens=_rest(budget.max_tokens, tokens, *(one.tokens for one in held)),
        cost=None if budget.max_cost is None else max(budget.max_cost - cost, 0.0),
        duration=timedelta() if meter.out_of_time else meter.remaining(now),
    )


def _check(left: BudgetShare, meter: Meter) -> None:
    used_up: list[tuple[BudgetName, bool]] = [
        ("maxTurns", left.requests == 0),
        ("maxTokens", left.tokens == 0),
        ("maxCost", left.cost == 0),
        ("maxDuration", left.duration == timedelta()),
    ]
    for name, nothing in used_up:
        if nothing:
            raise BudgetExhausted(name, meter)


def _rest(limit: int | None, *used: int | None) -> int | None:
    return None if limit is None else max(limit - sum(one or 0 for one in used), 0)


def _part(left: int | None, among: int) -> int | None:
    """Return an equal part of what is left; while there is something, at least one."""
    return None if left is None else min(left, max(1, left // among))

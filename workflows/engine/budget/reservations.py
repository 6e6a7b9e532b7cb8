"""Reservations: how delegates and calls that a model answers share the rest of a run's budget.

A delegate reserves a part when it starts, and a call that a model answers reserves one request. No
other call can use a reservation until it ends, so all of them together stay within the run's
budget. The run keeps one request for itself, to send the results of its calls to the model, and one
for each call of the turn that a model has yet to answer. Time is not divided: each may use all that
is left.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from holdfast.schemas.agent import BudgetName
from holdfast.workflows.engine.budget.meter import BudgetShare, Meter
from holdfast.workflows.engine.call.tool_call import CallStage, ToolCall

ONE_REQUEST = BudgetShare(requests=1)


class BudgetExhausted(Exception):
    """A budget is used up, or the rest of it is reserved."""


def budget_share(
    meter: Meter, now: datetime, call: ToolCall, calls: Iterable[ToolCall]
) -> BudgetShare:
    """Return the part of a delegate that is about to start.

    The rest is divided equally among the delegates of its turn that have not started yet.

    Only the part of calls may be zero: a delegate can answer without any.

    Raises:
        BudgetExhausted: There is no budget left.
    """
    claims = [call]
    for one in calls:
        tool = one.found_tool  # a later call of a sequential turn is not checked yet
        is_open = one.stage is not CallStage.ENDED and one.id not in meter.held
        if tool is not None and is_open and one is not call and (tool.delegate or tool.latent):
            claims.append(one)
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
    """Reserve one request for a call that a model answers, or raise `BudgetExhausted`."""
    check_request(meter, now)
    meter.held[key] = ONE_REQUEST


def check_request(meter: Meter, now: datetime) -> None:
    """Raise `BudgetExhausted` unless one request besides the run's own is left."""
    _check(_left(meter, now, keep=1), meter)


def _left(meter: Meter, now: datetime, *, keep: int) -> BudgetShare:
    """Return the budget that is neither used nor reserved, minus the requests to `keep`."""
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
            raise BudgetExhausted(
                f"nothing is left of the run's {name} ({meter.limit(name)}) for it"
            )


def _rest(limit: int | None, *used: int | None) -> int | None:
    return None if limit is None else max(limit - sum(one or 0 for one in used), 0)


def _part(left: int | None, among: int) -> int | None:
    """Return an equal part of the rest; at least one, if there is any."""
    return None if left is None else min(left, max(1, left // among))

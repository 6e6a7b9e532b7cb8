"""§5, §8: delegates and latent calls use what is left of their run's budget, and never more."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.schemas.budget import Budget
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.message import AskedCall
from holdfast.schemas.tool import ResolvedTool
from holdfast.workflows.engine.budget.meter import BudgetExhausted, Meter
from holdfast.workflows.engine.call.states import CallEvent, ProposedCall, ToolCall
from tests.engine.driver import NOON

DELEGATE = ResolvedTool(name="ask", parameters={}, delegate="helper")
LATENT = ResolvedTool(name="guess", parameters={})


def meter(**budget: Any) -> Meter:
    return Meter.of(Budget.model_validate(budget))


def calls(*tools: ResolvedTool) -> list[ToolCall]:
    """A turn's calls, all of them running."""
    made = []
    for n, tool in enumerate(tools, start=1):
        asked = AskedCall(id=f"t1c{n}", provider_id=f"t1c{n}", tool=tool.name, arguments={})
        call = ToolCall(ProposedCall(asked, tool))
        call.move(CallEvent.STARTED, call.decided)
        made.append(call)
    return made


def start(count: Meter, call: ToolCall, turn: list[ToolCall]) -> Budget:
    """What the call's delegate gets, and holds from now on."""
    share = count.held[call.id] = count.share(NOON, call, turn)
    return share


def test_one_delegate_gets_what_is_left_but_for_the_request_that_reads_its_result() -> None:
    count = meter(maxTurns=8, maxCalls=32, maxTokens=1000, maxCost=2.0, maxDuration="10m")
    count.charge(Usage(input_tokens=90, output_tokens=10, cost=0.5), turns=1)
    count.refuse_call("ask")
    [one] = calls(DELEGATE)

    assert start(count, one, [one]) == Budget(
        max_turns=6,
        max_calls=31,
        max_tokens=900,
        max_cost=1.5,
        max_duration=timedelta(minutes=10),
    )


def test_the_delegates_of_a_turn_get_equal_parts_and_together_no_more_than_is_left() -> None:
    count = meter(maxTurns=11, maxTokens=1000, maxCost=1.0, maxCalls=10)
    count.charge(Usage(input_tokens=0, output_tokens=0, cost=0.0), turns=1)
    turn = calls(DELEGATE, DELEGATE, DELEGATE)
    shares = [start(count, call, turn) for call in turn]

    assert [share.max_turns for share in shares] == [3, 3, 3]
    assert [share.max_calls for share in shares] == [4, 3, 3]
    assert [share.max_tokens for share in shares] == [334, 333, 333]
    assert sum(share.max_cost or 0 for share in shares) == pytest.approx(1.0)


def test_one_request_is_left_for_each_call_that_a_model_is_to_answer() -> None:
    count = meter(maxTurns=8)
    count.charge(Usage(), turns=1)
    turn = calls(DELEGATE, LATENT, LATENT)

    assert start(count, turn[0], turn).max_turns == 4
    for latent in turn[1:]:
        count.hold_request(latent.id)
    assert sum(share.max_turns or 0 for share in count.held.values()) == 6


@pytest.mark.parametrize(
    ("left", "shares"), [(2, [1, 1]), (4, [2, 1, 1]), (5, [2, 2, 1]), (6, [2, 2, 2])]
)
def test_what_cannot_be_divided_goes_to_the_first(left: int, shares: list[int]) -> None:
    count = meter(maxTurns=left + 2)
    count.charge(Usage(), turns=1)
    turn = calls(*[DELEGATE] * 3)

    assert [start(count, call, turn).max_turns for call in turn[: len(shares)]] == shares


def test_while_there_is_something_left_a_delegate_gets_at_least_one_of_it() -> None:
    count = meter(maxTurns=4)
    count.charge(Usage(), turns=1)
    turn = calls(*[DELEGATE] * 3)

    assert [start(count, call, turn).max_turns for call in turn[:2]] == [1, 1]
    with pytest.raises(
        BudgetExhausted, match=r"nothing is left of the run's maxTurns \(4\) for it"
    ):
        start(count, turn[2], turn)


@pytest.mark.parametrize(
    ("name", "limit", "use"),
    [
        ("maxTurns", 2, lambda m: m.charge(Usage(), turns=1)),
        ("maxTokens", 10, lambda m: m.charge(Usage(input_tokens=9, output_tokens=1), turns=1)),
        ("maxCost", 1.5, lambda m: m.charge(Usage(cost=1.5), turns=1)),
        ("maxDuration", "10s", lambda m: setattr(m, "out_of_time", True)),
    ],
)
def test_of_a_budget_that_is_used_up_there_is_no_part(name: str, limit: Any, use: Any) -> None:
    count = meter(**{name: limit})
    use(count)
    [one] = calls(DELEGATE)

    with pytest.raises(BudgetExhausted, match=name):
        start(count, one, [one])
    with pytest.raises(BudgetExhausted, match=name):
        count.hold_request(one.id)


def test_requests_that_are_no_turns_count_toward_the_limit_and_not_as_turns() -> None:
    count = meter(maxTurns=3)
    count.charge(Usage(input_tokens=1, output_tokens=1), turns=1)
    count.charge(Usage(input_tokens=5, output_tokens=2), requests=2, calls=7)

    assert (count.turns, count.requests, count.calls) == (1, 3, 7)
    assert count.usage() == Usage(input_tokens=6, output_tokens=3, cached_tokens=0)
    assert count.limit_reached() == "maxTurns"
    assert count.used()["maxTurns"] == 3


def test_a_loop_leaves_running_delegates_the_calls_that_they_may_make() -> None:
    count = meter(max_calls=10)
    turn = calls(DELEGATE)
    count.refuse_call("ask")
    start(count, turn[0], turn)
    count.refuse_call("pay")
    assert count.refuse_items("pay", 2) == "the run's limit is 10 calls"
    count.held.clear()
    assert count.refuse_items("pay", 2) is None

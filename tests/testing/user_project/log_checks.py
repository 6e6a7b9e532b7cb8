"""Recorded logs of a user's agents as tests, with agents as they were and as they changed."""

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from annotated_types import Gt
from temporalio.exceptions import ApplicationError

from holdfast import Agent, tool
from holdfast.testing import (
    HoldfastBacktest,
    HoldfastRun,
    RunUnderTest,
    assert_same_calls,
    call,
)
from holdfast.testing.scripted_model import Model
from tests.testing.user_project.shop import (
    ShopAnswer,
    composed,
    find_order,
    lead,
    pay,
    refund,
    support,
)

SORRY = ShopAnswer(text="Sorry.")
ran: list[str] = []


@tool(each=True)
async def look(order_id: str) -> dict[str, str]:
    """Look at an order."""
    ran.append(order_id)
    if order_id == "9":
        raise ApplicationError("there is no order 9", non_retryable=True)
    return {"status": f"shipped {order_id}"}


def refunds(**policy: Any) -> Any:
    async def refund(order_id: str, amount: Annotated[float, Gt(0)]) -> str:
        """Refund an order."""
        return f"R-{order_id}"

    return tool(side_effects=True, **policy)(refund)


class Signed(ShopAnswer):
    signature: str


def clerk(*tools: Any) -> Agent[ShopAnswer]:
    return Agent("clerk", model="a:b", tools=[*tools], output=ShopAnswer)


async def save(run: RunUnderTest[Any], folder: Path) -> Path:
    """Write what `holdfast show RUN --json` prints."""
    file = folder / "order.json"
    file.write_text(json.dumps([entry async for entry in run.entries("context")]))
    return file


@pytest.fixture
async def recorded(holdfast_run: HoldfastRun, tmp_path: Path) -> Path:
    """The log of a run with calls that ran, failed, were refused, changed and denied."""
    model: Model = [
        [call("look", {"_each": ["7", "9"], "order_id": "†item"}), call(find_order, "7")],
        call("refund", {"order_id": "7", "amount": -1}),
        [call(refund, "7", 20), call(refund, "8", 20)],
        SORRY,
    ]
    agent = clerk(look, find_order, refund)
    run = await holdfast_run(agent, {"order": 7}, model=model, state={"vip": True})
    requests = run.approval_requests()
    first, second = await anext(requests), await anext(requests)
    await first.edit({"order_id": "7", "amount": 15}, by="ada")
    await second.deny(by="ada", reason="No.")
    assert await run.result() == SORRY
    ran.clear()
    return await save(run, tmp_path)


REFUND = 'turn 3: t3c1 refund order_id="7" amount=15'


@pytest.mark.parametrize(
    ("agent", "difference"),
    [
        (clerk(look, find_order, refund), None),
        (
            clerk(look, refund),
            'turn 1: t1c2 find_order order_id="7": changed; execution: executed → not executed',
        ),
        (
            clerk(look, find_order, refunds(approval={"require": "never"})),
            f"{REFUND}: changed; arguments › amount: 15 → 20; decisions: approved with changes →"
            " none; the log has no result of turn 3, refund",
        ),
        (
            Agent("clerk", model="a:b", tools=[look, find_order, refund], output=Signed),
            "its calls are the same; status: completed → failed; `model` has no answer to request"
            " 5, which is of agent ``; add one",
        ),
    ],
    ids=["unchanged", "tool", "policy", "output"],
)
async def test_the_first_call_that_differs_is_named(
    holdfast_backtest: HoldfastBacktest,
    recorded: Path,
    agent: Agent[Any],
    difference: str | None,
) -> None:
    report = await holdfast_backtest(recorded, agent)
    assert ran == []
    if difference is None:
        assert_same_calls(report)
        assert report.verdict == "equal", [*report.lines()]
        assert report.counts["equal"] == 5
        return
    with pytest.raises(AssertionError) as failed:
        assert_same_calls(report)
    assert str(failed.value) == difference


async def test_a_plan_has_the_same_calls(
    holdfast_run: HoldfastRun, holdfast_backtest: HoldfastBacktest, tmp_path: Path
) -> None:
    planner = Agent("planner", model="a:b", plan="lazy", tools=[find_order, pay])
    both = [call(find_order, "7"), call(pay, 40)]
    run = await holdfast_run(planner, "Pay.", model=[both, "Paid."])
    await run.approve(by="ada")
    await run.result()
    file = await save(run, tmp_path)
    assert_same_calls(await holdfast_backtest(file, planner))
    unplanned = Agent("planner", model="a:b", tools=[find_order, pay])
    with pytest.raises(AssertionError, match=r"decisions › 1: plan: approved → removed$"):
        assert_same_calls(await holdfast_backtest(file, unplanned))


@tool(side_effects=True, approval={"require": "never"})
async def charge(amount: float) -> dict[str, float]:
    """Charge a card."""
    raise ApplicationError("no answer", type="outcome_unknown", non_retryable=True)


async def test_an_outcome_that_was_unknown_is_decided_again(
    holdfast_run: HoldfastRun, holdfast_backtest: HoldfastBacktest, tmp_path: Path
) -> None:
    run = await holdfast_run(clerk(charge), "Charge.", model=[call(charge, 5), SORRY])
    await (await run.approval(charge)).happened({"charged": 5}, by="ada")
    await run.result()
    report = await holdfast_backtest(await save(run, tmp_path), clerk(charge))
    assert_same_calls(report)
    [charged] = report.found.calls
    assert (charged.differs, charged.either.result) == ([], {"charged": 5})


async def test_composed_calls_are_the_same(
    holdfast_run: HoldfastRun, holdfast_backtest: HoldfastBacktest, tmp_path: Path
) -> None:
    run = await holdfast_run(composed, "Order 7", model=[call(find_order, "7"), SORRY])
    await run.result()
    assert_same_calls(await holdfast_backtest(await save(run, tmp_path), composed))


async def test_a_delegate_answers_from_the_log(
    holdfast_run: HoldfastRun, holdfast_backtest: HoldfastBacktest, tmp_path: Path
) -> None:
    model: Model = {"lead": [call("ask"), "Done."], "support": [call(find_order, "7"), SORRY]}
    run = await holdfast_run(lead, "Order 7", agents=[support], model=model)
    await run.result()
    file = await save(run, tmp_path)
    assert_same_calls(await holdfast_backtest(file, lead, agents=[support]))


async def test_a_conversation_receives_its_messages(
    holdfast_run: HoldfastRun, holdfast_backtest: HoldfastBacktest, tmp_path: Path
) -> None:
    agent = clerk(find_order)
    model = [call(find_order, "7"), SORRY, call(find_order, "8"), SORRY]
    run = await holdfast_run(agent, "Order 7", model=model, conversation=True)
    while (await run.status()).status != "awaiting_message":
        pass
    await run.send("Order 8")
    await run.close()
    await run.result()
    file = await save(run, tmp_path)
    assert_same_calls(await holdfast_backtest(file, agent, conversation=True))


async def test_a_fork_is_no_record(holdfast_backtest: HoldfastBacktest, tmp_path: Path) -> None:
    file = tmp_path / "fork.json"
    file.write_text(json.dumps([{"n": 1, "at": "", "type": "forked", "forkedFrom": "order-7"}]))
    with pytest.raises(ValueError, match=r"fork.json is the log of a fork"):
        await holdfast_backtest(file, support)

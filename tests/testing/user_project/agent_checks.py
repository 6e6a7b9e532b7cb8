"""Tests of a user's agents, which `test_kit.py` runs; each of the last ones fails as it states."""

import json
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Agent, RunFailedError
from holdfast.providers.base import ProviderRefused
from holdfast.providers.script import ScriptedAnswer, ScriptedUsage
from holdfast.testing import HoldfastRun, assert_replays, call
from tests.testing.user_project.shop import (
    ShopAnswer,
    composed,
    far,
    find_order,
    lead,
    pay,
    pay_far,
    payer,
    refund,
    support,
)

SORRY = ShopAnswer(text="Sorry.")


async def test_a_run_with_an_approval_replays(holdfast_run: HoldfastRun) -> None:
    both = [call(find_order, "7"), call("find_order", {"order_id": "8"})]
    run = await holdfast_run(
        support, "Order 7", model=[both, call(refund, "7", 2), SORRY], state={"vip": True}
    )
    pending = await run.approval(refund)
    assert (pending.tool, pending.arguments) == ("refund", {"order_id": "7", "amount": 2})
    await pending.approve(by="ada")
    assert await run.result() == SORRY
    first, *_, last = run.requests
    assert (first.agent, first.model.name) == ("support", "gpt-5")
    assert first.instructions.startswith("Help.")
    assert [tool.name for tool in first.tools] == ["find_order", "refund"]
    assert first.messages[0].content == "Order 7"
    assert "vip" in str(first.messages[1].content)
    assert [each.role for each in last.messages][-5:] == [
        "tool",
        "tool",
        "assistant",
        "tool",
        "user",
    ]
    assert last.messages[-2].content == "R-7"
    history = await run.history()
    assert_replays(history)
    assert_replays(history.to_json())
    with pytest.raises(AssertionError, match=f"the history of {run.id} does not replay: "):
        assert_replays(history.to_json().replace('"generate"', '"refund"'))


async def test_an_approval_expires_after_its_reminders(holdfast_run: HoldfastRun) -> None:
    run = await holdfast_run(support, "Order 7", model=[call(refund, "7", 2), SORRY])
    await run.approval()
    await run.skip_time("23h")
    assert [each.tool for each in await run.approvals()] == ["refund"]
    await run.skip_time("1h")
    assert await run.result() == SORRY
    assert "expired" in str(run.requests[-1].messages[-1].content)
    assert_replays(await run.history())


async def test_who_approves_depends_on_the_amount(holdfast_run: HoldfastRun) -> None:
    run = await holdfast_run(payer, "Pay.", model=[[call(pay, 20), call(pay, 200)], "Paid."])
    pending = await run.approval(pay)
    assert (pending.arguments, pending.approvers) == ({"amount": 200}, ["finance"])
    assert [rule.name for rule in pending.rules] == ["finance"]
    await pending.approve(by="ada", groups=["finance"])
    assert await run.result() == "Paid."
    assert [each.content for each in run.requests[-1].messages[-2:]] == ["paid 20", "paid 200"]
    assert_replays(await run.history())


async def test_a_task_queue_without_a_worker_is_named_and_can_be_served(
    holdfast_run: HoldfastRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.stream.heartbeats.UNTAKEN_TIME", timedelta())
    run = await holdfast_run(far, "Pay.", model=[call("pay_far"), "Paid."])
    with pytest.raises(AssertionError, match="hangs: no worker polls task queue payments; serve"):
        await run.result()
    await holdfast_run.serve("payments", pay_far)
    assert await run.result() == "Paid."


async def test_an_mcp_server_is_faked_by_a_program(
    holdfast_run: HoldfastRun, tmp_path: Path
) -> None:
    program = str(Path(__file__).with_name("fake_stock.py"))
    servers = tmp_path / "servers.json"
    servers.write_text(json.dumps({"stock": {"command": sys.executable, "args": [program]}}))
    counts = Agent("counts", model="a:b", tools=["mcp:stock/count_items"])
    first = call("stock_count_items", {"order_id": "7"})
    run = await holdfast_run(counts, "How many?", servers=servers, model=[first, "Three."])
    await run.approve("stock_count_items", by="ada")
    assert await run.result() == "Three."
    assert "3 of order 7" in str(run.requests[-1].messages[-1].content)


async def test_a_delegate_has_answers_of_its_own(holdfast_run: HoldfastRun) -> None:
    run = await holdfast_run(
        lead,
        "Order 7",
        agents=[support],
        model={"support": [call(refund, "7", 2), SORRY], "lead": [call("ask"), "It expired."]},
    )
    pending = await run.approval(refund)
    assert pending.run_id != run.id
    await run.skip_time("1d")
    assert await run.result() == "It expired."
    assert [each.agent for each in run.requests] == ["lead", "support", "support", "lead"]


async def test_an_agent_of_files_has_the_prices_of_its_endpoint(holdfast_run: HoldfastRun) -> None:
    usage = ScriptedUsage(input_tokens=500_000, output_tokens=100_000)
    refunds = [call("refund", {"order_id": "7", "amount": 2})]
    run = await holdfast_run(
        "desk",
        "Order 7",
        catalog="desk",
        tools=[refund],
        endpoints="endpoints.yaml",
        model=[ScriptedAnswer(calls=refunds, usage=usage), ScriptedAnswer(text="OK", usage=usage)],
    )
    await run.approve("refund", by="ada")
    assert await run.result() == "OK"
    assert (await run.status()).usage.cost == 4


async def test_a_fork_runs_on_the_worker_of_its_run(holdfast_run: HoldfastRun) -> None:
    run = await holdfast_run(support, "Order 7", model=[SORRY, ShopAnswer(text="Again.")])
    assert await run.result() == SORRY
    fork = await run.fork("Look again.")
    assert await fork.result() == {"text": "Again.", "refunded": 0}
    assert [each.run_id for each in run.requests] == [run.id, fork.id]


async def test_an_approval_is_not_of_a_run_whose_id_begins_alike(
    holdfast_run: HoldfastRun,
) -> None:
    run = await holdfast_run(payer, "Pay.", model=[call(pay, 100), "Paid."], id="order-1")
    other = await holdfast_run(payer, "Pay.", model=[call(pay, 200), "Paid."], id="order-10")
    for each, amount in ((other, 200), (run, 100)):
        pending = await each.approval(pay)
        assert (pending.run_id, pending.arguments) == (each.id, {"amount": amount})
    for each in (run, other):
        await each.approve(by="ada", groups=["finance"])
        assert await each.result() == "Paid."


async def test_a_second_run_with_an_id_is_not_the_first(holdfast_run: HoldfastRun) -> None:
    first = await holdfast_run(payer, "Pay.", model=["Paid."], id="twice")
    assert await first.result() == "Paid."
    with pytest.raises(AssertionError, match="a run with the id twice exists, of another test"):
        await holdfast_run(payer, "Pay.", model=[], id="twice")


async def test_composed_calling(holdfast_run: HoldfastRun) -> None:
    both = [call(find_order, "7"), call(refund, "7", 2)]
    run = await holdfast_run(composed, "Order 7", model=[both, SORRY])
    await run.approve(by="ada")
    assert await run.result() == SORRY


async def test_a_request_that_fails_is_repeated_and_logged_meanwhile(
    holdfast_run: HoldfastRun, caplog: pytest.LogCaptureFixture
) -> None:
    busy = ProviderRefused(503, "busy", {"retry-after": "1.5"})
    run = await holdfast_run(support, "Order 7", model=[busy, SORRY])
    assert await run.result() == SORRY
    assert len(run.requests) == 2
    assert f"run {run.id} waits for attempt 2 of the model's answer" in caplog.text
    assert "; the last one failed: endpoint `openai` answered 503: busy" in caplog.text


async def test_too_few_answers(holdfast_run: HoldfastRun) -> None:
    run = await holdfast_run(support, "Order 7", model=[call(find_order, "7")])
    with pytest.raises(RunFailedError, match="no answer to request 2, which is of agent `support`"):
        await run.result()
    with pytest.raises(AssertionError, match="is failed, and no approval of `refund` is pending: "):
        await run.approve(refund, by="ada")


async def test_a_model_that_raises(holdfast_run: HoldfastRun) -> None:
    run = await holdfast_run(support, "Order 7", model=lambda request: f"{1 / 0}")
    with pytest.raises(RunFailedError, match="the model of the test raised ZeroDivisionError"):
        await run.result()


async def test_too_many_answers(holdfast_run: HoldfastRun) -> None:
    run = await holdfast_run(support, "Order 7", model=[SORRY, "and more"])
    await run.result()

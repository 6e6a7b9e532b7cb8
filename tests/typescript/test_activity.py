"""A tool whose activity is in TypeScript: what it is given, and what the model reads of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload

from tests.support.backend import Launch, Run
from tests.support.model_server import Answer, call
from tests.typescript.payments import Payments

pytestmark = pytest.mark.typescript

WHY = "It arrived broken."
REFUND = call("refund", order_id="1042", amount=249, _reasoningForCall=WHY)


async def _inputs(run: Run) -> list[Payload]:
    """What the payments team's activities were given."""
    scheduled = [event.activity_task_scheduled_event_attributes for event in await run.history()]
    ours = [each for each in scheduled if each.task_queue.name == "payments"]
    return [payload for each in ours for payload in each.input.payloads]


async def test_it_is_given_the_parameters_alone(payments: Payments, launch: Launch) -> None:
    await payments.start()
    run = await (await launch([Answer(calls=[REFUND]), Answer("done")])).start(["refund"])
    [waiting] = await run.waiting()
    assert waiting["reasoning"] == WHY
    await run.decide("t1c1", "approve", digest=waiting["digest"])
    await run.result()
    [given] = await _inputs(run)
    assert given.metadata["encoding"] == b"json/plain"
    assert json.loads(given.data) == {"order_id": "1042", "amount": 249}
    [payment] = payments.booked()
    assert (payment["order_id"], payment["amount"]) == ("1042", 249)


async def test_its_key_is_the_workflow_and_the_call(payments: Payments, launch: Launch) -> None:
    await payments.start()
    twice = [Answer(calls=[REFUND, REFUND]), Answer("done")]
    run = await (await launch(twice)).start(["refund"])
    for waiting in await run.waiting(2):
        await run.decide(waiting["callId"], "approve")
    await run.result()
    keys = sorted(payment["key"] for payment in payments.booked())
    assert keys == [f"{run.id}/t1c1", f"{run.id}/t1c2"]


async def test_what_it_returns_is_what_the_model_reads(payments: Payments, launch: Launch) -> None:
    await payments.start()
    look_up = call("find_order", order_id="1057")
    run = await (await launch([Answer(calls=[look_up]), Answer("done")])).start(["find_order"])
    await run.result()
    read = json.loads((await run.results())["t1c1"])
    assert read == {"order_id": "1057", "item": "Grinder Uno", "paid": 89.5}


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("find_order", {"order_id": "7"}, "There is no order 7."),
        ("refund", {"order_id": "1057", "amount": 90}, "Only 89.5 was paid for order 1057."),
    ],
)
async def test_what_it_throws_is_what_the_model_reads(
    payments: Payments, launch: Launch, tool: str, arguments: dict[str, Any], message: str
) -> None:
    await payments.start()
    answers = [Answer(calls=[call(tool, **arguments)]), Answer("done")]
    run = await (await launch(answers)).start([tool], agent={"approval": {"require": "never"}})
    await run.result()
    read = json.loads((await run.results())["t1c1"])
    assert read == {"error": {"code": "tool_error", "message": message}}
    assert payments.booked() == []


async def test_an_activity_that_it_does_not_have_names_no_other(
    payments: Payments, launch: Launch, tools: Path
) -> None:
    (tools / "void.yaml").write_text("_activity: {type: VoidOrder, taskQueue: payments}\n")
    await payments.start()
    run = await (await launch([Answer(calls=[call("void")]), Answer("done")])).start(["void"])
    await run.result()
    message = "The tool `void` is not available now."
    read = json.loads((await run.results())["t1c1"])
    assert read == {"error": {"code": "tool_error", "message": message}}

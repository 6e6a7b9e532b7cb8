"""A tool whose activity is in another language: what it receives, and what the model reads."""

import json
from pathlib import Path

from temporalio.api.common.v1 import Payload

from tests.languages.payments import Payments
from tests.support.backend import Launch, Run
from tests.support.model_server import Answer, call

WHY = "It arrived broken."
REFUND = call("refund", order_id="1042", amount=249, _reasoningForCall=WHY)


async def _inputs(run: Run) -> list[Payload]:
    """What the payments team's activities were given."""
    scheduled = [event.activity_task_scheduled_event_attributes for event in await run.history()]
    ours = [each for each in scheduled if each.task_queue.name == "payments"]
    return [payload for each in ours for payload in each.input.payloads]


async def test_it_receives_the_parameters_alone_and_the_model_reads_its_result(
    payments: Payments, launch: Launch
) -> None:
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
    read = json.loads((await run.results())["t1c1"])
    assert read == {name: payment[name] for name in ("refund_id", "order_id", "amount")}


async def test_its_key_is_the_workflow_and_the_call(payments: Payments, launch: Launch) -> None:
    await payments.start()
    twice = [Answer(calls=[REFUND, REFUND]), Answer("done")]
    run = await (await launch(twice)).start(["refund"])
    for waiting in await run.waiting(2):
        await run.decide(waiting["callId"], "approve")
    await run.result()
    keys = sorted(payment["key"] for payment in payments.booked())
    assert keys == [f"{run.id}/t1c1", f"{run.id}/t1c2"]


async def test_the_model_reads_the_message_of_its_errors(
    payments: Payments, launch: Launch
) -> None:
    await payments.start()
    messages = {
        "There is no order 7.": call("refund", order_id="7", amount=90),
        "Only 89.5 was paid for order 1057.": call("refund", order_id="1057", amount=90),
    }
    answers = [Answer(calls=list(messages.values())), Answer("done")]
    run = await (await launch(answers)).start(["refund"], agent={"approval": {"require": "never"}})
    await run.result()
    read = [json.loads(result)["error"] for _, result in sorted((await run.results()).items())]
    assert read == [{"code": "tool_error", "message": message} for message in messages]
    assert payments.booked() == []


async def test_an_activity_that_it_does_not_have_names_no_other(
    payments: Payments, launch: Launch, tools: Path
) -> None:
    void = "_activity: {type: VoidOrder, taskQueue: payments, retry: {maximumAttempts: 1}}\n"
    (tools / "void.yaml").write_text(void)
    await payments.start()
    run = await (await launch([Answer(calls=[call("void")]), Answer("done")])).start(["void"])
    await run.result()
    message = "The tool `void` is not available now."
    read = json.loads((await run.results())["t1c1"])
    assert read == {"error": {"code": "tool_error", "message": message}}


async def test_a_tool_of_other_parameters_is_reshaped_to_its_own(
    payments: Payments, launch: Launch, tools: Path
) -> None:
    (tools / "give_back.yaml").write_text(
        "properties: {order: {type: object, properties: {id: {type: string}}}, euros: {}}\n"
        "_activity: {type: RefundOrder, taskQueue: payments,\n"
        "  input: {order_id: order.id, amount: euros}}\n"
        "_sideEffects: true\n"
    )
    await payments.start()
    give_back = call("give_back", order={"id": "1042"}, euros=249)
    run = await (await launch([Answer(calls=[give_back]), Answer("done")])).start(["give_back"])
    [waiting] = await run.waiting()
    await run.decide("t1c1", "approve", digest=waiting["digest"])
    await run.result()
    [given] = await _inputs(run)
    assert json.loads(given.data) == {"order_id": "1042", "amount": 249}
    [payment] = payments.booked()
    assert (payment["order_id"], payment["amount"]) == ("1042", 249)

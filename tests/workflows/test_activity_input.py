"""Activities of several parameters, as their workers have them: what reaches them of a call."""

import json
import uuid
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.worker import Worker

from tests.encryption.keys import OLD, key_file
from tests.support.backend import Launch, Run
from tests.support.model_server import Answer, call

PAY_OUT: dict[str, Any] = {
    "_tool": "pay_out",
    "description": "Pay an amount out.",
    "properties": {
        "customer": {"type": "object", "properties": {"id": {"type": "string"}}},
        "amount": {"type": "number"},
        "note": {"type": "string", "default": "thanks"},
    },
    "required": ["customer", "amount"],
    "_activity": {"type": "PayOut", "input": ["customer.id", "amount", "note"]},
    "_sideEffects": True,
}
ARGUMENTS = {"customer": {"id": "c-7"}, "amount": 20}
TOOLS = """
from pydantic import BaseModel
from temporalio import activity

from holdfast import CallContext


class Order(BaseModel):
    id: str


@activity.defn
async def book(amount: float, order: Order, context: CallContext) -> str:
    whose = context.principal and context.principal.id
    return f"{order.id}: {amount:g} for {whose}, {context.data['state']}"


@activity.defn
def now() -> str:
    return "noon"
"""
BOOK: dict[str, Any] = {
    "_tool": "book",
    "description": "Book an order.",
    "properties": {"order": {"type": "object"}, "amount": {"type": "number"}},
    "required": ["order", "amount"],
    "_activity": {"type": "book", "input": ["amount", "order", "_call"]},
    "_scopes": ["state"],
}
NOW = {"_tool": "now", "description": "Tell the time.", "_activity": {"type": "now", "input": []}}


@activity.defn(name="PayOut")
async def pay_out(customer_id: str, amount: float, note: str) -> list[Any]:
    """Return what was received, and the key, as an activity that knows nothing of agents."""
    info = activity.info()
    return [customer_id, amount, note, f"{info.workflow_id}/{info.activity_id}"]


async def sent(run: Run) -> list[list[Payload]]:
    """What each activity of a tool was sent with."""
    scheduled = [event.activity_task_scheduled_event_attributes for event in await run.history()]
    return [list(each.input.payloads) for each in scheduled if each.activity_id == "t1c1"]


async def test_an_external_worker_receives_the_approved_arguments_as_parameters(
    client: Client, launch: Launch
) -> None:
    queue = f"payments-{uuid.uuid4().hex[:8]}"
    tool = {**PAY_OUT, "_activity": {**PAY_OUT["_activity"], "taskQueue": queue}}
    home = await launch([Answer(calls=[call("pay_out", **ARGUMENTS)]), Answer("done")])
    async with Worker(client, task_queue=queue, activities=[pay_out]):
        run = await home.start([tool])
        [waiting] = await run.waiting()
        assert waiting["arguments"] == {**ARGUMENTS, "note": "thanks"}
        edited = {"customer": {"id": "c-8"}, "amount": 15}
        await run.decide("t1c1", "edit", arguments=edited, digest=waiting["digest"])
        await run.result()

    received = json.loads((await run.results())["t1c1"].partition("\n")[2])
    assert received == ["c-8", 15, "thanks", f"{run.id}/t1c1"]
    [payloads] = await sent(run)
    assert [json.loads(each.data) for each in payloads] == ["c-8", 15, "thanks"]


async def test_a_permit_covers_each_parameter(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TOOLS)
    (tmp_path / "catalog" / "tools").mkdir(parents=True)
    for tool in (BOOK, NOW):
        (tmp_path / "catalog" / "tools" / f"{tool['_tool']}.json").write_text(json.dumps(tool))
    home = await launch(
        [
            Answer(calls=[call("book", order={"id": "o-7"}, amount=20), call("now")]),
            Answer("done"),
        ],
        tools=[str(tmp_path / "shop.py")],
        catalog=tmp_path / "catalog",
        permits=key_file(tmp_path, [OLD]),
    )
    run = await home.start(["book", "now"], principal={"id": "ann"}, state={"paid": 1})
    await run.result()

    assert await run.results() == {"t1c1": "o-7: 20 for ann, {'paid': 1}", "t1c2": "noon"}

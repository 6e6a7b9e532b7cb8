"""§8: a plan: all calls of an answer are shown, and one person's one decision executes them."""

import json
from typing import Any

from temporalio.common import SearchAttributeKey

from tests.protocol.stage import ExampleRunner, agent, calls
from tests.support.model_server import Answer

REFUNDS = agent("""
name: refunds
model: {endpoint: fake, name: planner}
instructions: You refund orders.
plan: lazy
tools:
- _tool: find_order
  properties: {order_id: {type: string}, _outputPath: {type: string}}
  required: [order_id]
- _tool: refund
  _label: Refund an order
  _sideEffects: true
  _idempotent: true
  properties: {order_id: {type: string}, amount: {type: number}}
  required: [order_id, amount]
- _tool: mail
  properties: {text: {type: string}}
  required: [text]
""")
PLAN = calls(
    {"_tool": "find_order", "order_id": "A1", "_outputPath": "†state.one"},
    {"_tool": "find_order", "order_id": "A2", "_outputPath": "†state.two"},
    {"_tool": "refund", "order_id": "†state.one.id", "amount": "†state.one.paid"},
    {"_tool": "refund", "order_id": "†state.two.id", "amount": "†state.two.paid"},
    {"_tool": "mail", "text": "All is refunded."},
)
DONE = Answer("done")
PENDING_TOOLS = SearchAttributeKey.for_keyword_list("PendingTools")


def started_calls(told: list[str]) -> list[str]:
    """The calls that were started."""
    return sorted(line.split()[1] for line in told if line.startswith("tool_start"))


async def test_a_refund_plan_is_executed_after_one_approval(stage: ExampleRunner) -> None:
    stage.model("planner", PLAN, DONE)
    run = await stage.start(REFUNDS, input="Refund orders A1 and A2.")

    [waiting] = await run.waiting()
    assert (waiting["callId"], waiting["kind"]) == ("t1-plan", "plan")
    shown: list[dict[str, Any]] = waiting["arguments"]["calls"]
    assert [one["tool"] for one in shown] == [
        "find_order",
        "find_order",
        "refund",
        "refund",
        "mail",
    ]
    assert shown[2]["label"] == "Refund an order"
    assert shown[2]["arguments"] == {"order_id": "†state.one.id", "amount": "†state.one.paid"}
    assert shown[2]["waitsFor"] == ["t1c1"]
    assert shown[0]["writes"] == "†state.one"
    assert started_calls(await run.event_lines()) == []
    listed = (await run.handle.describe()).typed_search_attributes
    assert listed[PENDING_TOOLS] == ["find_order", "refund", "mail"]

    bound = {"properties": {"amount": {"maximum": 100}}}
    paid = [{"id": f"t1c{n}", **({"bound": bound} if n in (3, 4) else {})} for n in range(1, 6)]
    edit = {"arguments": {"calls": paid}, "digest": waiting["digest"]}
    await run.decide("t1-plan", "edit", by="bea", **edit)
    result = await run.result()
    assert (result["output"], result["turns"], result["calls"]) == ("done", 2, 5)
    assert started_calls(await run.event_lines()) == ["t1c1", "t1c2", "t1c3", "t1c4", "t1c5"]
    assert json.loads((await run.results())["t1c4"]) == {"refunded": 35.0, "order": "A2"}
    asked = [event for event in await run.events() if event["type"] == "confirmation_required"]
    assert len(asked) == 1

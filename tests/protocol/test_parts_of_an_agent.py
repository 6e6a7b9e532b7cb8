"""§9: skills, knowledge, hooks and memory: what an agent has besides its tools."""

import uuid

from tests.protocol.stage import ExampleRunner, agent, calls, offered
from tests.support.model_server import Answer

DONE = Answer("done")

SHOP = agent("""
name: shop
model: {endpoint: fake, name: shop}
instructions: You work in a shop.
tools: [find_order]
skills:
- name: refunds
  description: Give customers their money back.
  instructions: Refund what was paid, and no more.
  tools: [refund]
- name: letters
  description: Write to customers.
  tools: [mail]
- name: report
  description: The report of a week.
  activity: weekly_report
""")


async def test_the_model_chooses_a_skill_and_has_its_tools_from_then_on(
    stage: ExampleRunner,
) -> None:
    stage.model(
        "shop",
        calls({"_tool": "choose_skill", "skill": "letters"}),
        calls({"_tool": "mail", "text": "Hello!"}),
        DONE,
    )
    run = await stage.start(SHOP, input="Greet the customer.")

    assert (await run.result())["output"] == "done"
    assert (await run.status())["skill"] == "letters"
    asked = stage.requests("shop")
    assert [offered(one) for one in asked[:2]] == [["choose_skill"], ["find_order", "mail"]]
    assert "Give customers their money back." in str(asked[0]["tools"])


async def test_a_skill_with_an_activity_asks_no_model(stage: ExampleRunner) -> None:
    silent = {**SHOP, "model": {"endpoint": "fake", "name": "silent"}}
    run = await stage.start(silent, input={"week": 7}, skill="report")

    result = await run.result()
    assert result["output"] == {"week": 7, "orders": 2, "paid": 55.0}
    assert (result["turns"], result["calls"]) == (0, 1)
    assert stage.requests("silent") == []


async def test_knowledge_is_fetched_when_it_is_called_and_not_before(stage: ExampleRunner) -> None:
    # An agent of the catalog: tests/protocol/catalog/agents/clerk.yaml.
    stage.model("clerk", calls({"_tool": "returns_policy"}), Answer("For thirty days."))
    run = await stage.start("clerk", input="How long can I send goods back?")

    assert (await run.result())["output"] == "For thirty days."
    first, second = stage.requests("clerk")
    assert offered(first) == ["returns_policy", "opening_hours", "stock"]
    assert "thirty days" not in str(first)
    assert "Goods are taken back for thirty days." in str(second)
    assert "nine to five" not in str(second)


async def test_knowledge_of_an_activity_is_as_it_is_now_and_its_use_is_an_event(
    stage: ExampleRunner,
) -> None:
    asks = calls({"_tool": "stock"}, {"_tool": "opening_hours"})
    stage.model("clerk", asks, Answer("Twelve, until five."))
    run = await stage.start("clerk", input="How many kettles do you have, and until when?")

    assert (await run.result())["output"] == "Twelve, until five."
    events = await run.handle.query("events", {"after": 0, "limit": 100})
    used = [one for one in events if one["type"] in ("knowledge_used", "tool_end")]
    assert [(one["type"], one["callId"], one.get("source")) for one in used] == [
        ("knowledge_used", "t1c1", "activity"),
        ("tool_end", "t1c1", None),
        ("knowledge_used", "t1c2", "text"),
        ("tool_end", "t1c2", None),
    ]
    assert (used[0]["name"], used[1]["result"]) == ("stock", "Twelve kettles.")


CAREFUL = agent("""
name: careful
model: {endpoint: fake, name: careful}
tools:
- _tool: refund
  _sideEffects: true
  _idempotent: true
  _before: no_large_refunds
  properties: {order_id: {type: string}, amount: {type: number}}
  required: [order_id, amount]
""")


async def test_a_hook_blocks_a_call_before_an_approval_is_requested(stage: ExampleRunner) -> None:
    refund = {"_tool": "refund", "order_id": "A1"}
    stage.model("careful", calls({**refund, "amount": 501}, {**refund, "amount": 5}), DONE)
    run = await stage.start(CAREFUL, input="Refund order A1.")

    [waiting] = await run.waiting()
    assert (waiting["callId"], waiting["arguments"]["amount"]) == ("t1c2", 5)
    await run.decide("t1c2", "approve")
    await run.result()
    assert await run.error("t1c1") == {"code": "blocked", "message": "a refund is at most 500"}


async def test_memory_outlives_the_run_and_belongs_to_the_guest(stage: ExampleRunner) -> None:
    ada, bob = ({"id": f"{name}-{uuid.uuid4().hex[:6]}"} for name in ("ada", "bob"))
    # An agent of the catalog: tests/protocol/catalog/agents/concierge.md.
    writes = {"_tool": "memory_write", "key": "tea", "value": "with milk"}
    stage.model("concierge", calls(writes), Answer("I shall remember."))
    first = await stage.start("concierge", input="I take milk with my tea.", principal=ada)
    await first.result()

    stage.model("concierge", calls({"_tool": "memory_read", "key": "tea"}), Answer("With milk?"))
    again = await stage.start("concierge", input="Tea, please.", principal=ada)
    await again.result()
    assert "with milk" in (await again.results())["t1c1"]

    other = await stage.start("concierge", input="Tea, please.", principal=bob)
    await other.result()
    assert "with milk" not in (await other.results())["t1c1"]


async def test_memory_is_appended_to_and_replaced_only_where_it_is_what_was_read(
    stage: ExampleRunner,
) -> None:
    guest = {"id": f"eve-{uuid.uuid4().hex[:6]}"}
    notes = [{"_tool": "memory_write", "key": "visits", "append": True, "value": "a room"}]
    notes.append({**notes[0], "value": "two rooms"})
    replaces = {"_tool": "memory_write", "key": "visits", "value": "none"}
    stage.model(
        "concierge",
        calls(*notes, {"_tool": "memory_read", "key": "visits"}),
        calls({**replaces, "ifValue": "a room"}),
        calls({**replaces, "ifValue": "a room\ntwo rooms"}, {"_tool": "memory_read"}),
        DONE,
    )
    run = await stage.start("concierge", input="I come again.", principal=guest)
    await run.result()

    results = {call: str(content) for call, content in (await run.results()).items()}
    assert "a room\\ntwo rooms" in results["t1c3"]
    assert "not the one in `ifValue`; read it, and write again" in results["t2c1"]
    assert '"kept": true' in results["t3c1"]
    assert '"keys": ["visits"]' in results["t3c2"]

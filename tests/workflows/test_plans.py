"""§8: plans on the real server: one approval for a whole graph, and what comes meanwhile."""

from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.common import SearchAttributeKey

from tests.support import tools
from tests.support.house import OpenHouse, Run
from tests.support.model_server import Answer, call

PENDING_TOOLS = SearchAttributeKey.for_keyword_list("PendingTools")
GATE = {
    "_tool": "gate",
    "_label": "Go through",
    "_activity": {"type": "held", "startToCloseTimeout": "20s"},
    "_outputPath": "†state.gate",
    "properties": {"name": {"type": "string"}},
}
SETTLE = {
    "_tool": "settle",
    "_activity": "pay",
    "_sideEffects": True,
    "_outputPath": "†state.paid",
    "properties": {"amount": {"type": "number"}, "for": {"type": "string"}},
    "required": ["amount"],
}
SAY = {"_tool": "say", "_activity": "echo", "properties": {"text": {"type": "string"}}}
PLAN = [
    call("gate", name="north"),
    call("settle", amount=5, **{"for": "†state.gate"}, _reasoningForCall="they asked"),
    call("say", text="paid †{state.paid.paid} for †{state.gate}"),
]
AGENT = {"plan": "lazy"}
TOOLS = [GATE, SETTLE, SAY]
PAY = {**SETTLE, "properties": {"amount": {"type": "number"}}}


async def page(run: Run) -> str:
    """What Temporal's UI shows of the run."""
    found: WorkflowMetadata = await run.handle.query("__temporal_workflow_metadata")
    return found.current_details


async def test_a_plan_is_shown_approved_once_and_carried_out(open_house: OpenHouse) -> None:
    look, settle = call("look_up", id=5), call("settle", amount="†state.item.id")
    say = call("say", text="paid for †{state.item.name}")
    house = await open_house([Answer(calls=[look, settle, say]), Answer("done")])
    run = await house.start(["look_up", PAY, SAY], agent=AGENT)

    [waiting] = await run.waiting()
    assert (waiting["callId"], waiting["kind"]) == ("t1-plan", "plan")
    assert [one["waitsFor"] for one in waiting["arguments"]["calls"]] == [[], ["t1c1"], ["t1c1"]]
    described = await run.handle.describe()
    assert described.typed_search_attributes.get(PENDING_TOOLS) == ["look_up", "settle", "say"]
    shown = await page(run)
    assert "### Approval of a plan needed: plan of 3 calls (`t1-plan`)" in shown
    assert "2. **settle** (`t1c2`), after `t1c1`:\n" in shown
    assert "   - **amount**: `†state.item.id`\n   - → writes `†state.paid`\n" in shown
    assert f"`holdfast decide {run.id} t1-plan approve --strike CALL`" in shown
    assert tools.read() == []

    await run.decide("t1-plan", "approve", by="ada", digest=waiting["digest"])
    assert (await run.result())["state"]["paid"] == {"paid": 5.0}
    assert tools.read() == [f"pay 5 {run.id}/t1c2"]
    assert house.model.asked(1) == house.model.asked(2) == 1
    assert (await run.results())["t1c3"] == "paid for item 5"
    assert "Turn 1: **settle** (amount=5): approved by ada, done" in await page(run)


async def test_a_message_holds_back_the_rest_and_what_is_left_needs_no_new_approval(
    open_house: OpenHouse,
) -> None:
    house = await open_house([Answer(calls=PLAN), Answer(calls=PLAN[1:]), Answer("done")])
    run = await house.start(TOOLS, agent=AGENT)
    await run.waiting()
    await run.decide("t1-plan", "approve")
    await tools.until("begun north")
    await run.handle.signal("message", {"content": "is it really five?"})

    async def heard() -> bool:
        return any("is it" in str(entry) for entry in await run.handle.query("context", {}))

    tools.write("open north")
    assert (await run.result())["state"]["paid"] == {"paid": 5.0}
    assert await heard()
    assert [(await run.error(f"t1c{n}"))["code"] for n in (2, 3)] == ["cancelled", "cancelled"]
    asked = [e for e in await run.events() if e["type"] == "confirmation_required"]
    assert len(asked) == 1
    assert tools.read()[-1] == f"pay 5 {run.id}/t2c1"
    told = str(house.model.requests[1]["messages"][-1])
    assert "t1c1 gate: done" in told
    assert "t1c2 settle" in told
    assert (await run.results())["t2c2"] == "paid 5.0 for north"

"""Loops on a server: one call runs for each item of a list, in activities of their own."""

from typing import Any

from tests.support import tools
from tests.support.backend import Launch, ledger_has
from tests.support.model_server import Answer, call

DONE = Answer("done")
PAY: dict[str, Any] = {
    "_tool": "pay",
    "_activity": "held_payment",
    "_each": True,
    "_sideEffects": True,
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "_outputPath": "†state.paid",
}
UNASKED = {**PAY, "_approval": {"require": "never"}}
NOTE: dict[str, Any] = {
    "_tool": "note",
    "_activity": "echo",
    "properties": {"text": {"type": "string"}},
}
LINES = {"lines": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}


def activities(history: Any) -> list[str]:
    """The ids of the activities of tools, as they were scheduled."""
    scheduled = [
        event.activity_task_scheduled_event_attributes
        for event in history
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    return [each.activity_id for each in scheduled if each.activity_type.name != "generate"]


async def test_each_item_is_an_activity_and_one_approval_is_for_all(launch: Launch) -> None:
    answer = Answer(
        calls=[
            call("pay", _each="†state.lines", name="†item.id"),
            call("note", text="Second: †{state.paid[1]}"),
        ]
    )
    run = await (await launch([answer, DONE])).start(
        [PAY, NOTE], agent={"concurrency": 2}, state=LINES
    )
    [asked] = await run.waiting()
    assert (asked["callId"], asked["kind"]) == ("t1c1", "call")
    assert asked["arguments"] == {"_each": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}
    assert tools.read() == []

    edited = {"_each": [{"name": "a"}, None, {"name": "d"}]}
    await run.decide("t1c1", "edit", arguments=edited, digest=asked["digest"], by="ann")
    tools.write("open a")
    tools.write("open d")
    result = await run.result()
    left_out = {"error": {"code": "denied", "message": "A person left this item out."}}
    assert result["state"]["paid"] == ["a", left_out, "d"]
    assert activities(await run.history()) == ["t1c1.0", "t1c1.2", "t1c2"]
    assert result["calls"] == 4


async def test_items_run_as_many_at_a_time_as_the_agent_allows(launch: Launch) -> None:
    answer = Answer(calls=[call("pay", _each="†state.lines", name="†item.id")])
    run = await (await launch([answer, DONE])).start(
        [UNASKED], agent={"concurrency": 2}, state=LINES
    )
    await ledger_has(f"paid a {run.id}/t1c1.0", f"paid b {run.id}/t1c1.1")
    assert activities(await run.history()) == ["t1c1.0", "t1c1.1"]
    tools.write("open b")
    await ledger_has(f"paid c {run.id}/t1c1.2")
    tools.write("open c")
    tools.write("open a")
    assert (await run.result())["state"]["paid"] == ["a", "b", "c"]


async def test_an_item_of_unknown_outcome_is_asked_about_and_runs_again_alone(
    launch: Launch,
) -> None:
    answer = Answer(calls=[call("pay", _each="†state.lines", name="†item.id")])
    impatient = {**UNASKED, "_activity": {"type": "held_payment", "startToCloseTimeout": "1s"}}
    run = await (await launch([answer, DONE])).start([impatient], state=LINES)
    tools.write("open a")
    tools.write("open c")
    [asked] = await run.waiting()
    assert (asked["callId"], asked["kind"]) == ("t1c1.1", "reconcile")
    assert asked["arguments"] == {"name": "b"}
    tools.write("open b")
    bound = {"digest": asked["digest"], "nonce": asked["nonce"]}
    await run.decide("t1c1.1", "did_not_happen", by="ann", **bound)
    assert (await run.result())["state"]["paid"] == ["a", "b", "c"]
    paid = [line.split()[1] for line in tools.read() if line.startswith("paid")]
    assert sorted(paid) == ["a", "b", "b", "c"]


async def test_a_reset_in_the_middle_asks_about_each_item_that_may_have_run(launch: Launch) -> None:
    answer = Answer(calls=[call("pay", _each="†state.lines", name="†item.id")])
    run = await (await launch([answer, DONE])).start([UNASKED], state=LINES)
    tools.write("open a")
    await ledger_has(f"paid c {run.id}/t1c1.2")
    again = await run.reset(1)
    asked = await again.waiting(3)
    assert [each["callId"] for each in asked] == ["t1c1.0", "t1c1.1", "t1c1.2"]
    for each in asked:
        await again.decide(each["callId"], "happened", result="by hand")
    assert (await again.result())["state"]["paid"] == ["by hand"] * 3
    assert len([line for line in tools.read() if line.startswith("paid")]) == 3


async def test_a_hundred_items_by_a_rule_without_two_before_the_run_continues_as_new(
    launch: Launch,
) -> None:
    """Finance is asked, since some amounts are large, and leaves two items out."""
    rules = [
        {"name": "large", "when": {"properties": {"amount": {"minimum": 90}}}, "approvers": ["f"]},
        {"name": "small", "require": "never"},
    ]
    refund = {
        "_tool": "refund",
        "_activity": "refund",
        "_each": True,
        "_sideEffects": True,
        "_idempotent": True,
        "_approval": rules,
        "properties": {"amount": {"type": "number"}},
        "_outputPath": "†state.refunded",
    }
    loop = call("refund", _each="†state.due", amount="†item")
    last = call("note", text="Last: †{state.refunded[99].refunded}")
    backend = await launch([Answer(calls=[loop]), Answer(calls=[last]), DONE], continue_after=100)
    run = await backend.start(
        [refund, NOTE],
        state={"due": list(range(100))},
        agent={"budget": {"maxCalls": 200}, "concurrency": 20},
    )
    [asked] = await run.waiting()
    assert [rule["name"] for rule in asked["rules"]] == ["large"]
    items = asked["arguments"]["_each"]
    assert items == [{"amount": amount} for amount in range(100)]

    items[3] = items[95] = None
    await run.decide("t1c1", "edit", arguments={"_each": items}, by="ann", groups=["f"])
    refunded = (await run.result())["state"]["refunded"]
    assert [n for n, one in enumerate(refunded) if "error" in one] == [3, 95]
    assert (await run.results())["t2c1"] == "Last: 99.0"
    assert (await run.handle.describe()).run_id != run.handle.first_execution_run_id
    wanted = [n for n in range(100) if n not in (3, 95)]
    assert sorted(tools.read()) == sorted(f"refund {n} {run.id}/t1c1.{n}" for n in wanted)

"""A turn as a graph, on the real server: one answer, and many calls that feed each other."""

from typing import Any

from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import OpenHouse
from tests.support.model_server import Answer, call

DONE = Answer("done")
HELD = {
    "_tool": "gate",
    "_activity": {"type": "held", "startToCloseTimeout": "20s"},
    "properties": {"name": {"type": "string"}, "_outputPath": {"type": "string"}},
}
JOIN = {"_tool": "join", "_activity": "echo", "properties": {"text": {"type": "string"}}}
PAY = {
    "_tool": "settle",
    "_activity": "pay",
    "_sideEffects": True,
    "properties": {"amount": {"type": "number"}},
}


def gate(name: str) -> Any:
    return call("gate", name=name, _outputPath=f"†state.{name}")


async def _said(*lines: str) -> bool:
    return set(lines) <= set(tools.read())


async def test_what_can_run_runs_at_once_and_what_waits_is_given_what_it_waited_for(
    open_house: OpenHouse,
) -> None:
    join = call("join", text="†{state.a} and †{state.b}")
    house = await open_house([Answer(calls=[join, gate("a"), gate("b")]), DONE])
    run = await house.start([HELD, JOIN])

    await eventually(lambda: _said("begun a", "begun b"))
    tools.write("open b")
    await eventually(lambda: _said("ended b"))
    assert "tool_start t1c1" not in await run.told()
    tools.write("open a")
    result = await run.result()

    assert (await run.results())["t1c1"] == "a and b"
    assert result["state"] == {"a": "a", "b": "b"}
    assert result["turns"] == 2
    assert house.model.asked(1) == house.model.asked(2) == 1


async def test_people_are_asked_in_the_middle_of_a_graph(open_house: OpenHouse) -> None:
    calls = [
        call("look_up", id=4),
        call("settle", amount="†state.item.id"),
        call("join", text="paid for †{state.item.name}"),
    ]
    run = await (await open_house([Answer(calls=calls), DONE])).start(["look_up", PAY, JOIN])

    [waiting] = await run.waiting()
    assert waiting["arguments"] == {"amount": 4}
    standing = (await run.status())["calls"]
    assert standing[:2] == [
        {"callId": "t1c1", "tool": "look_up", "stage": "ended"},
        {"callId": "t1c2", "tool": "settle", "stage": "waiting"},
    ]
    assert tools.read() == []
    await run.decide("t1c2", "approve")
    await run.result()
    assert tools.read() == [f"pay 4 {run.id}/t1c2"]
    assert (await run.status())["calls"] == []
    assert (await run.results())["t1c3"] == "paid for item 4"


async def test_a_circle_starts_nothing(open_house: OpenHouse) -> None:
    calls = [
        call("gate", name="†state.b", _outputPath="†state.a"),
        call("gate", name="†state.a", _outputPath="†state.b"),
    ]
    run = await (await open_house([Answer(calls=calls), DONE])).start([HELD])
    await run.result()

    assert [await run.error(id) for id in ("t1c1", "t1c2")] == [
        {
            "code": "unresolved_reference",
            "message": f"the references go in a circle: {way}; nothing of it is carried out",
        }
        for way in ("t1c1 → t1c2 → t1c1", "t1c2 → t1c1 → t1c2")
    ]
    assert tools.read() == []


async def test_a_run_that_is_cancelled_gives_what_waits_its_result_too(
    open_house: OpenHouse,
) -> None:
    house = await open_house([Answer(calls=[gate("a"), call("join", text="†state.a")])])
    run = await house.start([HELD, JOIN])
    await eventually(lambda: _said("begun a"))
    await run.handle.cancel()

    async def over() -> bool:
        return bool((await run.status())["status"] == "cancelled")

    await eventually(over)
    assert (await run.error("t1c2"))["code"] == "cancelled"

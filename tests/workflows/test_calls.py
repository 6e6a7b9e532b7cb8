"""How calls are carried out: order, state, inputs, results, scopes."""

import json

from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import OpenHouse
from tests.support.model_server import Answer, call

DONE = Answer("done")


async def test_calls_of_a_turn_run_together_and_end_in_source_order(open_house: OpenHouse) -> None:
    answers = [Answer(calls=[call("held", name="a"), call("held", name="b")]), DONE]
    run = await (await open_house(answers)).start(["held"])

    async def both() -> bool:
        return {"begun a", "begun b"} <= set(tools.read())

    await eventually(both)
    tools.write("open b")

    async def ended() -> bool:
        return "ended b" in tools.read()

    await eventually(ended)
    assert "tool_end t1c2" not in await run.told()
    tools.write("open a")
    await run.result()
    assert (await run.told())[:7] == [
        "turn_start",
        "tool_call t1c1",
        "tool_call t1c2",
        "tool_start t1c1",
        "tool_start t1c2",
        "tool_end t1c1",
        "tool_end t1c2",
    ]


async def test_concurrency_bounds_what_runs_together(open_house: OpenHouse) -> None:
    answers = [Answer(calls=[call("held", name="a"), call("held", name="b")]), DONE]
    tools.write("open a")
    tools.write("open b")
    run = await (await open_house(answers)).start(["held"], agent={"concurrency": 1})
    await run.result()
    assert [line for line in tools.read() if not line.startswith("open")] == [
        "begun a",
        "ended a",
        "begun b",
        "ended b",
    ]


async def test_an_activity_can_be_given_the_whole_call(open_house: OpenHouse) -> None:
    run = await (await open_house([Answer(calls=[call("whole", text="x")]), DONE])).start(
        ["whole"], state={"a": 1}, input="hello"
    )
    await run.result()
    said = json.loads((await run.results())["t1c1"])
    assert said["call"]["id"] == "t1c1"
    assert said["call"]["arguments"] == {"text": "x"}
    assert said["tool"] == "whole"
    assert said["scoped"] == {"input": "hello", "state": {"a": 1}}


async def test_a_local_activity_leaves_no_activity_in_history(open_house: OpenHouse) -> None:
    run = await (await open_house([Answer(calls=[call("quick", text="x")]), DONE])).start(["quick"])
    await run.result()
    assert (await run.results())["t1c1"] == "X"
    scheduled = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in await run.history()
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert scheduled == ["generate", "generate"]


async def test_the_activity_id_is_the_call_id(open_house: OpenHouse) -> None:
    run = await (await open_house([Answer(calls=[call("look_up", id=4)]), DONE])).start(["look_up"])
    await run.result()
    ids = {
        event.activity_task_scheduled_event_attributes.activity_type.name: (
            event.activity_task_scheduled_event_attributes.activity_id
        )
        for event in await run.history()
        if event.HasField("activity_task_scheduled_event_attributes")
    }
    assert ids["look_up"] == "t1c1"

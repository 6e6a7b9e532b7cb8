"""How calls are carried out: order, state, inputs, results, scopes."""

import json
from typing import Any

import pytest

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


async def test_one_sequential_tool_makes_the_turn_sequential(open_house: OpenHouse) -> None:
    answers = [Answer(calls=[call("look_up", id=1), call("in_order", name="a")]), DONE]
    run = await (await open_house(answers)).start(["look_up", "in_order"])
    await run.result()
    assert (await run.told())[1:7] == [
        "tool_call t1c1",
        "tool_start t1c1",
        "tool_end t1c1",
        "tool_call t1c2",
        "tool_start t1c2",
        "tool_end t1c2",
    ]


async def test_a_result_is_written_where_the_tool_says_and_read_by_reference(
    open_house: OpenHouse,
) -> None:
    answers = [
        Answer(calls=[call("look_up", id=4)]),
        Answer(
            calls=[
                call("echo", text="†state.item.name"),
                call("echo", text="got †{state.item.id}!"),
            ]
        ),
        Answer(calls=[call("echo", text="†state.nothing")]),
        DONE,
    ]
    run = await (await open_house(answers)).start(["look_up", "echo"])
    result = await run.result()
    assert result["state"] == {"item": {"id": 4, "name": "item 4"}}
    results = await run.results()
    assert results["t2c1"] == "item 4"
    assert results["t2c2"] == "got 4!"
    assert (await run.error("t3c1"))["code"] == "unresolved_reference"
    assert await run.handle.query("state") == result["state"]


async def test_the_current_state_stands_behind_the_conversation(open_house: OpenHouse) -> None:
    house = await open_house([Answer(calls=[call("look_up", id=4)]), DONE])
    await (await house.start(["look_up"], state={"who": "ada"})).result()
    first, second = (body["messages"] for body in house.model.requests)
    assert '"who": "ada"' in first[-1]["content"]
    assert '"name": "item 4"' in second[-1]["content"]
    assert second[: len(first) - 1] == first[:-1]


async def test_a_state_schema_refuses_what_breaks_it(open_house: OpenHouse) -> None:
    schema = {"properties": {"item": {"type": "string"}}}
    run = await (await open_house([Answer(calls=[call("look_up", id=4)]), DONE])).start(
        ["look_up"], agent={"state": schema}
    )
    assert (await run.result())["state"] == {}
    assert (await run.error())["code"] == "invalid_output"


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


async def test_an_envelope_shows_the_model_its_content_alone(open_house: OpenHouse) -> None:
    envelope = {"_result": {"content": "short", "details": {"rows": 3}}}
    house = await open_house([Answer(calls=[call("says", result=envelope)]), DONE])
    run = await house.start(["says"])
    await run.result()
    assert (await run.results())["t1c1"] == "short"
    [end] = [event for event in await run.events() if event["type"] == "tool_end"]
    assert end["details"] == {"rows": 3}
    assert "rows" not in json.dumps(house.model.requests[1]["messages"][-1])


async def test_a_run_stops_when_every_result_asks(open_house: OpenHouse) -> None:
    end = {"_result": {"content": "bye", "terminate": True}}
    calls = [call("says", result=end), call("says", result=end)]
    run = await (await open_house([Answer("farewell", calls=calls), DONE])).start(["says"])
    result = await run.result()
    assert result["status"] == "stopped"
    assert result["turns"] == 1


async def test_one_refused_call_keeps_the_run_going(open_house: OpenHouse) -> None:
    end = {"_result": {"content": "bye", "terminate": True}}
    calls = [call("says", result=end), call("nothing_such")]
    run = await (await open_house([Answer(calls=calls), DONE])).start(["says"])
    assert (await run.result())["status"] == "completed"


async def test_a_message_is_appended_to_the_context(open_house: OpenHouse) -> None:
    said = {"_message": {"role": "user", "content": "by the way"}}
    house = await open_house([Answer(calls=[call("says", result=said)]), DONE])
    await (await house.start(["says"])).result()
    assert house.model.requests[1]["messages"][-1] == {"role": "user", "content": "by the way"}


@pytest.mark.parametrize(
    ("principal", "most", "code"),
    [
        (None, None, "token_scope_insufficient"),
        ({"id": "bob", "scopes": []}, None, "token_scope_insufficient"),
        ({"id": "bob", "scopes": ["orders:write"]}, [], "token_scope_insufficient"),
        ({"id": "bob", "scopes": ["orders:write"]}, None, None),
    ],
)
async def test_scopes_are_checked(
    open_house: OpenHouse, principal: Any, most: list[str] | None, code: str | None
) -> None:
    run = await (await open_house([Answer(calls=[call("scoped")]), DONE])).start(
        ["scoped"], principal=principal, agent={"principalScopes": most}
    )
    await run.result()
    [end] = [event for event in await run.events() if event["type"] == "tool_end"]
    assert end.get("error", {}).get("code") == code


async def test_the_reason_is_asked_for_and_never_passed_on(open_house: OpenHouse) -> None:
    house = await open_house(
        [Answer(calls=[call("whole", text="x", _reasoningForCall="why")]), DONE]
    )
    run = await house.start(["whole"])
    await run.result()
    offered = house.model.requests[0]["tools"][0]["function"]["parameters"]["properties"]
    assert "_reasoningForCall" in offered
    assert json.loads((await run.results())["t1c1"])["call"]["arguments"] == {"text": "x"}
    [told] = [event for event in await run.events() if event["type"] == "tool_call"]
    assert told["reasoning"] == "why"

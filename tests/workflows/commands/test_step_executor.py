"""Calls of a turn: concurrency, order, hooks and plans on a server."""

import json
from typing import Any

from tests.support import tools
from tests.support.backend import Launch
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call

DONE = Answer("done")


async def test_calls_of_a_turn_run_together_and_end_in_source_order(launch: Launch) -> None:
    answers = [Answer(calls=[call("held", name="a"), call("held", name="b")]), DONE]
    run = await (await launch(answers)).start(["held"])

    async def both() -> bool:
        return {"started a", "started b"} <= set(tools.read())

    await eventually(both)
    tools.write("open b")

    async def ended() -> bool:
        return "ended b" in tools.read()

    await eventually(ended)
    assert "tool_end t1c2" not in await run.event_lines()
    tools.write("open a")
    await run.result()
    assert (await run.event_lines())[:7] == [
        "turn_start",
        "tool_call t1c1",
        "tool_call t1c2",
        "tool_start t1c1",
        "tool_start t1c2",
        "tool_end t1c1",
        "tool_end t1c2",
    ]


async def test_concurrency_bounds_what_runs_together(launch: Launch) -> None:
    answers = [Answer(calls=[call("held", name="a"), call("held", name="b")]), DONE]
    tools.write("open a")
    tools.write("open b")
    run = await (await launch(answers)).start(["held"], agent={"concurrency": 1})
    await run.result()
    assert [line for line in tools.read() if not line.startswith("open")] == [
        "started a",
        "ended a",
        "started b",
        "ended b",
    ]


async def test_an_activity_can_be_given_the_whole_call(launch: Launch) -> None:
    run = await (await launch([Answer(calls=[call("whole", text="x")]), DONE])).start(
        ["whole"], state={"a": 1}, input="hello"
    )
    await run.result()
    said = json.loads((await run.results())["t1c1"])
    assert said["call"]["id"] == "t1c1"
    assert said["call"]["arguments"] == {"text": "x"}
    assert said["tool"] == "whole"
    context = said["scoped"].pop("_call")
    assert (context["runId"], context["idempotencyKey"]) == (run.id, f"{run.id}/t1c1")
    assert said["scoped"] == {"input": "hello", "state": {"a": 1}}


async def test_a_local_activity_leaves_no_activity_in_history(launch: Launch) -> None:
    run = await (await launch([Answer(calls=[call("quick", text="x")]), DONE])).start(["quick"])
    await run.result()
    assert (await run.results())["t1c1"] == "X"
    scheduled = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in await run.history()
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert scheduled == ["generate", "generate"]


def gate(name: str) -> Any:
    return call("gate", name=name, _outputPath=f"†state.{name}")


LOOK = {
    "_tool": "look",
    "_activity": "look_up",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
}


async def test_a_call_passes_all_its_hooks(launch: Launch) -> None:
    tool: dict[str, Any] = {**LOOK, "_prepare": "tidy", "_repair": "mend", "_after": "review"}
    backend = await launch([Answer(calls=[call("look", n="x")]), DONE])
    run = await backend.start([tool], agent={"_before": "guard"})
    await run.result()

    scheduled = [event.activity_task_scheduled_event_attributes for event in await run.history()]
    asked = [
        (each.activity_id, each.activity_type.name)
        for each in scheduled
        if each.activity_id.startswith("t1c1")
    ]
    assert asked == [
        ("t1c1-prepare", "tidy"),
        ("t1c1-repair", "mend"),
        ("t1c1-before", "guard"),
        ("t1c1", "look_up"),
        ("t1c1-after", "review"),
    ]
    assert tools.read() == [
        'mend id: "x" is not of type "integer"',
        f"guard look {{'id': 1}} {run.id}/t1c1-before",
        "review t1c1",
    ]
    assert await run.results() == {"t1c1": '{"id": 1}'}


async def test_a_hook_that_fails_blocks_the_call_in_its_own_words(launch: Launch) -> None:
    review = {"type": "review", "retry": {"maximumAttempts": 1}}
    text = {"properties": {"text": {"type": "string"}}}
    tool = {"_tool": "echo", "_activity": "echo", "_after": review, **text}
    backend = await launch([Answer(calls=[call("echo", text="a")]), DONE])
    run = await backend.start([tool])
    await run.result()

    error = await run.error()
    assert error["code"] == "blocked"
    assert "its result is withheld: the hook `_after` failed: string indices" in error["message"]

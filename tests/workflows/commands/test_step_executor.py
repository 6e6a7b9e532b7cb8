"""Calls of a turn: concurrency, order, hooks and plans on a server."""

import json
from typing import Any

import pytest

from tests.support import tools
from tests.support.backend import Launch, ledger_has
from tests.support.model_server import Answer, call

DONE = Answer("done")


async def test_concurrency_bounds_what_runs_together(launch: Launch) -> None:
    calls = [call("held", name="a"), call("held", name="b")]
    run = await (await launch([Answer(calls=calls), DONE])).start(["held"])
    await ledger_has("started a", "started b")
    tools.write("open a")
    tools.write("open b")
    await run.result()

    before = len(tools.read())
    run = await (await launch([Answer(calls=calls), DONE])).start(
        ["held"], agent={"concurrency": 1}
    )
    await run.result()
    assert tools.read()[before:] == ["started a", "ended a", "started b", "ended b"]


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


@pytest.mark.parametrize("executor", [{"_activity": "held"}, {"_delegate": "anonymous"}])
async def test_a_call_without_room_does_not_start_after_the_runs_time(
    launch: Launch, executor: dict[str, str]
) -> None:
    texts = {name: {"type": "string"} for name in ("name", "pad")}
    wait = {"_tool": "wait", "_activity": "held", "properties": texts}
    last = {**wait, "_tool": "last", "_activity": None, **executor}
    last = {key: value for key, value in last.items() if value is not None}
    calls = [call("wait", name=name, pad="†state.pad") for name in ("early", "next")]
    calls.append(call("last", name="late", pad="†state.pad"))
    run = await (await launch([Answer(calls=calls), DONE])).start(
        [wait, last], state={"pad": "x" * 880_000}, agent={"budget": {"maxDuration": "2s"}}
    )
    await ledger_has("started early", "started next")
    assert (await run.result())["status"] == "budget_exceeded"
    error = await run.error("t1c3")
    assert error["code"] == "blocked"
    assert "nothing is left of the run's `maxDuration`" in error["message"]
    assert "started late" not in tools.read()
    tools.write("open early")
    tools.write("open next")

"""Hooks on the real server: activities that are asked about calls."""

from typing import Any

from temporalio.api.enums.v1 import EventType

from tests.support import tools
from tests.support.house import OpenHouse, Run
from tests.support.model_server import Answer, call

DONE = Answer("done")
LOOK = {
    "_tool": "look",
    "_activity": "look_up",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
}


async def _activities(run: Run) -> list[tuple[str, str]]:
    scheduled = [
        event.activity_task_scheduled_event_attributes
        for event in await run.history()
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    return [(each.activity_id, each.activity_type.name) for each in scheduled]


async def test_a_call_passes_all_its_hooks(open_house: OpenHouse) -> None:
    tool: dict[str, Any] = {**LOOK, "_prepare": "tidy", "_repair": "mend", "_after": "review"}
    house = await open_house([Answer(calls=[call("look", n="x")]), DONE])
    run = await house.start([tool], agent={"_before": "guard"})
    await run.result()

    asked = [each for each in await _activities(run) if each[1] != "generate"]
    assert asked == [
        ("t1c1-prepare", "tidy"),
        ("t1c1-repair", "mend"),
        ("t1c1-before", "guard"),
        ("t1c1", "look_up"),
        ("t1c1-after", "review"),
    ]
    assert tools.read() == [
        "mend id: 'x' is not of type 'integer'",
        f"guard look {{'id': 1}} {run.id}/t1c1-before",
        "review t1c1",
    ]
    assert await run.results() == {"t1c1": '{"id": 1}'}


async def test_a_hook_that_fails_blocks_the_call_in_its_own_words(open_house: OpenHouse) -> None:
    review = {"type": "review", "retry": {"maximumAttempts": 1}}
    text = {"properties": {"text": {"type": "string"}}}
    tool = {"_tool": "echo", "_activity": "echo", "_after": review, **text}
    house = await open_house([Answer(calls=[call("echo", text="a")]), DONE])
    run = await house.start([tool])
    await run.result()

    error = await run.error()
    assert error["code"] == "blocked"
    assert "its result is withheld: the hook `_after` failed: string indices" in error["message"]

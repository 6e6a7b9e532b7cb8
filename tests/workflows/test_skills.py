"""§9: a run with skills, from outside: one is chosen, and another's tools are out of reach."""

from typing import Any

from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import OpenHouse
from tests.support.model_server import Answer, call

SKILLS: list[dict[str, Any]] = [
    {"name": "items", "description": "Find items.", "instructions": "Be quick.",
     "tools": ["look_up"]},
    {"name": "money", "description": "Move money.", "tools": ["pay"]},
    {"name": "gate", "description": "Go through a gate.",
     "activity": {"type": "held", "startToCloseTimeout": "5s"}},
]  # fmt: skip
AGENT = {"skills": SKILLS}


def offered(request: dict[str, Any]) -> list[str]:
    """The tools of a request to the model."""
    return [tool["function"]["name"] for tool in request.get("tools", [])]


async def test_the_model_chooses_a_skill_and_cannot_reach_anothers_tools(
    open_house: OpenHouse,
) -> None:
    answers = [
        Answer(calls=[call("choose_skill", skill="items"), call("pay", amount=1)]),
        Answer(calls=[call("look_up", id=7), call("pay", amount=2)]),
        Answer("done"),
    ]
    house = await open_house(answers)
    run = await house.start(["echo"], agent=AGENT)
    assert (await run.result())["output"] == "done"

    first, second, _ = house.model.requests
    assert (offered(first), first["tool_choice"]) == (["choose_skill"], "required")
    assert (offered(second), second["tool_choice"]) == (["echo", "look_up"], "auto")
    assert "Be quick." not in str(first["messages"][0])
    assert "Be quick." in str(second["messages"][0])
    assert (await run.status())["skill"] == "items"
    assert await run.error("t1c2") == {
        "code": "tool_not_allowed",
        "message": "Tool 'pay' is not allowed for agent 'tester'. Allowed: [choose_skill]",
    }
    assert await run.error("t2c2") == {
        "code": "tool_not_allowed",
        "message": "Tool 'pay' is not allowed for skill 'items'. Allowed: [echo, look_up]",
    }
    assert tools.read() == []


async def test_a_skill_with_an_activity_asks_no_model(open_house: OpenHouse) -> None:
    house = await open_house([Answer("never")])
    tools.write("open north")
    run = await house.start(agent=AGENT, skill="gate", input={"name": "north"})

    assert await run.result() == {
        "status": "completed",
        "output": "north",
        "state": {},
        "turns": 0,
        "calls": 1,
        "usage": {"inputTokens": 0, "outputTokens": 0, "cachedTokens": 0, "cost": 0.0},
    }
    assert house.model.requests == []
    assert (await run.status())["skill"] == "gate"
    assert await run.told() == ["tool_call t1c1", "tool_start t1c1", "tool_end t1c1", "done"]


async def test_a_skill_with_an_activity_that_the_model_chose_is_cancelled_with_its_run(
    open_house: OpenHouse,
) -> None:
    house = await open_house([Answer(calls=[call("choose_skill", skill="gate")])])
    run = await house.start(agent=AGENT, input={"name": "south"})
    await tools.until("begun south")
    await run.handle.cancel()

    async def cancelled() -> bool:
        return bool((await run.status())["status"] == "cancelled")

    await eventually(cancelled)
    assert (await run.error("t1c2"))["code"] == "cancelled"
    assert len(house.model.requests) == 1

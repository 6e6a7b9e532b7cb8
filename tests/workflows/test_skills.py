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

"""A turn as a graph, on the real server: one answer, and many calls that feed each other."""

from typing import Any

from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import OpenHouse
from tests.support.model_server import Answer, call

HELD = {
    "_tool": "gate",
    "_activity": {"type": "held", "startToCloseTimeout": "20s"},
    "properties": {"name": {"type": "string"}, "_outputPath": {"type": "string"}},
}
JOIN = {"_tool": "join", "_activity": "echo", "properties": {"text": {"type": "string"}}}


def gate(name: str) -> Any:
    return call("gate", name=name, _outputPath=f"†state.{name}")


async def _said(*lines: str) -> bool:
    return set(lines) <= set(tools.read())


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

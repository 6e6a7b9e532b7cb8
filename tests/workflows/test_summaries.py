"""§10: when the context nears the model's window, its older part is replaced, for the model, by a
summary; nothing is dropped from the context."""

from typing import Any

from tests.support.house import SIDE_BY_SIDE, OpenHouse, Run
from tests.support.small_model import MANY, Small


async def finished(open_house: OpenHouse, model: Small, **settings: Any) -> Run:
    """A run of this model that came to its end."""
    house = await open_house(model, **settings)
    run = await house.start(["look_up", "echo"], agent=MANY)
    assert (await run.result())["output"] == "done"
    return run


async def test_so_it_does_where_it_continues_as_new_meanwhile(open_house: OpenHouse) -> None:
    warm, chained = Small(4_000), Small(4_000)
    run = await finished(open_house, warm, **SIDE_BY_SIDE)
    often = await finished(open_house, chained, continue_after=60, **SIDE_BY_SIDE)

    assert await often.results() == await run.results()
    assert (chained.refused, chained.summaries) == (warm.refused, warm.summaries)

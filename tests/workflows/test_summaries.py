"""§10: when the context nears the model's window, its older part is replaced, for the model, by a
summary; nothing is dropped from the context."""

import json
from typing import Any

from tests.support.house import SIDE_BY_SIDE, OpenHouse, Run
from tests.support.small_model import MANY, Small


async def finished(open_house: OpenHouse, model: Small, **settings: Any) -> Run:
    """A run of this model that came to its end."""
    house = await open_house(model, **settings)
    run = await house.start(["look_up", "echo"], agent=MANY)
    assert (await run.result())["output"] == "done"
    return run


async def summary_lines(run: Run) -> list[str]:
    """What Temporal's timeline says of the requests for summaries."""
    events = [event for event in await run.history() if event.user_metadata.HasField("summary")]
    lines = [json.loads(event.user_metadata.summary.data) for event in events]
    return [line for line in lines if "the model sums up the conversation so far" in line]


async def test_a_run_goes_on_for_ever_under_a_small_window(open_house: OpenHouse) -> None:
    small, vast = Small(4_000), Small(10**9)
    run = await finished(open_house, small)
    whole = await finished(open_house, vast, **SIDE_BY_SIDE)

    assert (small.refused, vast.refused) == (1, 0), "then the window is known"
    assert small.summaries > 1
    assert await run.results() == await whole.results(), "nothing is dropped from the context"
    assert list((await run.results()).values())[-1] == "name: item 7"
    assert (await run.result())["state"] == (await whole.result())["state"]
    summaries = [entry for entry in await run.context() if entry["type"] == "summary"]
    assert len(summaries) == small.summaries
    assert "word for word:\ngo\n" in summaries[-1]["text"]
    assert (await run.status())["turn"] == small.echoes + 3
    assert len(await summary_lines(run)) == small.summaries
    page = await run.handle.query("__temporal_workflow_metadata")
    upto = summaries[-1]["upto"]
    assert f"reads a summary in place of entries 1 to {upto} of" in page.current_details


async def test_so_it_does_where_it_continues_as_new_meanwhile(open_house: OpenHouse) -> None:
    warm, chained = Small(4_000), Small(4_000)
    run = await finished(open_house, warm, **SIDE_BY_SIDE)
    often = await finished(open_house, chained, continue_after=60, **SIDE_BY_SIDE)

    assert await often.results() == await run.results()
    assert (chained.refused, chained.summaries) == (warm.refused, warm.summaries)


async def test_what_is_too_long_by_itself_ends_the_run(open_house: OpenHouse) -> None:
    house = await open_house(Small(2_000, size=9_000))
    run = await house.start(["look_up", "echo"], agent=MANY)
    failure = await run.failure()

    assert failure.type == "model_error"
    assert failure.message.startswith("the conversation is longer than the window of 2000 tokens")
    assert "_show: preview" in failure.message
    notices = [entry["text"] for entry in await run.context() if entry["type"] == "notice"]
    assert "maximum context length is 2000 tokens" in notices[0]

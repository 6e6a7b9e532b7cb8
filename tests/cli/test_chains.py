"""A run that continues as new is one run to whoever watches it, decides on it or lists it."""

import json

from temporalio.client import WorkflowExecutionStatus

from tests.cli.conftest import Holdfast, Start
from tests.support.house import OpenHouse, Run
from tests.support.model_server import Answer, call

TURNS = 6
PAYS = [*[Answer(calls=[call("pay", amount=n)]) for n in range(1, TURNS)], Answer("done")]
BUDGET = {"budget": {"maxTurns": 20, "maxIterations": 20}}


async def started(open_house: OpenHouse) -> Run:
    """A run that pays five times, and continues as new every second time."""
    house = await open_house(PAYS, continue_after=25)
    return await house.start(["pay"], agent=BUDGET)


async def has_gone_on(run: Run) -> bool:
    """Whether the run under this id is not the first one."""
    first = await run.handle._client.get_workflow_handle(
        run.id, run_id=run.handle.first_execution_run_id
    ).describe()
    return first.status is WorkflowExecutionStatus.CONTINUED_AS_NEW


async def test_it_is_watched_and_decided_on_to_its_end(
    open_house: OpenHouse, start: Start, holdfast: Holdfast
) -> None:
    run = await started(open_house)
    watching = start("watch", run.id)
    told = ""
    for turn in range(1, TURNS):
        told += await watching.until(f"waits      t{turn}c1")
        assert (await holdfast("decide", run.id, f"t{turn}c1", "approve")).code == 0

    assert await watching.ended() == 0
    assert await has_gone_on(run)
    told += watching.seen
    assert [told.count(f"waits      t{turn}c1") for turn in range(1, TURNS)] == [1] * (TURNS - 1)
    assert told.count("decided    ") == TURNS - 1


async def test_a_program_reads_each_event_once(open_house: OpenHouse, start: Start) -> None:
    run = await started(open_house)
    watching = start("watch", run.id, "--json")
    for turn in range(1, TURNS):
        await run.waiting()
        await run.decide(f"t{turn}c1", "approve")

    assert await watching.ended() == 0
    said = [json.loads(line) for line in watching.seen.splitlines()]
    numbered = [event["n"] for event in said if "n" in event]
    assert numbered == list(range(1, len(numbered) + 1))
    assert said[-1]["type"] == "done"


async def test_it_is_shown_whole_and_listed_once(open_house: OpenHouse, holdfast: Holdfast) -> None:
    run = await started(open_house)
    for turn in range(1, TURNS):
        await run.waiting()
        await run.decide(f"t{turn}c1", "approve")
    await run.result()

    shown = await holdfast("show", run.id, "--json")
    listed = await holdfast("list")

    entries = json.loads(shown.out)
    assert [entry["n"] for entry in entries] == list(range(1, len(entries) + 1))
    assert [line.split()[0] for line in listed.out.splitlines()].count(run.id) == 1

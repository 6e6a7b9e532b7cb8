"""A run that continues as new is one run to whoever watches it, decides on it or lists it."""

import json
from typing import Any

from temporalio.client import (
    Client,
    DescribeWorkflowInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
)
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.run_handle import RunHandle, RunStart
from holdfast.runtime.text_safety import format_date
from tests.cli.conftest import Holdfast, Start
from tests.support.eventually import eventually
from tests.support.house import OpenHouse, Run
from tests.support.model_server import Answer, call

TURNS = 6
PAYS = [*[Answer(calls=[call("pay", amount=n)]) for n in range(1, TURNS)], Answer("done")]
BUDGET = {"budget": {"maxTurns": 20, "maxIterations": 20}}


class Retention(Interceptor):
    """A server that has removed every part of a run but its latest."""

    def intercept_client(self, next_: OutboundInterceptor) -> OutboundInterceptor:
        """Know no run by the id of a part of it."""
        return _Forgetful(next_)


class _Forgetful(OutboundInterceptor):
    async def describe_workflow(self, input: DescribeWorkflowInput) -> WorkflowExecutionDescription:
        if input.run_id:
            raise RPCError("workflow execution not found", RPCStatusCode.NOT_FOUND, b"")
        return await super().describe_workflow(input)


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


async def test_it_is_shown_whole_and_listed_once_as_it_began(
    client: Client, open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house(PAYS, continue_after=25)
    agent = {"name": "payer", "model": {"endpoint": "fake", "name": "fake"}, "tools": ["pay"]}
    handle = await client.start_workflow(
        "AgentWorkflow",
        {"agent": agent | BUDGET, "input": "go"},
        id="long-one",
        task_queue=house.task_queue,
        static_summary="payer: go",
    )
    first, run = await handle.describe(), Run(handle, client)
    for turn in range(1, TURNS):
        await run.waiting()
        await run.decide(f"t{turn}c1", "approve")
    await run.result()

    async def listed() -> dict[str, Any]:
        rows: list[dict[str, Any]] = json.loads((await holdfast("list", "--json")).out)
        found = [row for row in rows if row["run"] == run.id]
        return found[0] if len(found) == 1 else {}

    row = await eventually(listed)
    assert row["summary"] == "payer: go"
    assert row["startedAt"] == first.start_time.isoformat(timespec="seconds")
    shown = await holdfast("show", run.id)
    assert f"summary  payer: go\nstarted  {format_date(first.start_time)}\n" in shown.out
    entries = json.loads((await holdfast("show", run.id, "--json")).out)
    assert [entry["n"] for entry in entries] == list(range(1, len(entries) + 1))

    last, config = await handle.describe(), client.config()
    config["interceptors"] = [Retention()]
    left = await RunHandle(Client(**config), run.id).start_info()
    assert left == RunStart(last.start_time, None), "the latest part has to do"

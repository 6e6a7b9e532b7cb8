"""Many runs at a glance: what waits, and how each run stands."""

import json

import pytest
from temporalio.client import Client

from holdfast.client import run_handle as remote_run
from tests.cli.conftest import Holdfast
from tests.support.eventually import eventually
from tests.support.house import OpenHouse
from tests.support.model_server import Answer, call


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that other tests have left have no worker: they are not waited for as long."""
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 2)


PAYS = [Answer("I pay.", [call("pay", amount=5)]), Answer("Paid.")]


async def test_every_waiting_call_of_every_run_is_shown(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    asked = Answer("I pay.", [call("pay", amount=5, _instance="ada")])
    house = await open_house([asked, PAYS[1]])
    order = {"type": "data", "kind": "order", "data": 1, "_instance": "ada"}
    more = {"agent": {"name": "payer"}, "context": [{"content": [order]}]}
    runs = [await house.start(["pay"], **more) for _ in range(2)]
    for run in runs:
        await run.waiting()

    async def shown() -> str | None:
        said = await holdfast("approvals")
        return said.out if all(run.id in said.out for run in runs) else None

    table = await eventually(shown)
    listed = json.loads((await holdfast("approvals", "--json")).out)

    assert table.splitlines()[0].split() == ["RUN", "CALL", "WHAT", "WAITS", "ARGUMENTS"]
    assert "t1c1  Pay for ada" in table
    assert "amount=5" in table
    mine = [one for one in listed if one["run"] == runs[0].id]
    [waiting] = await runs[0].waiting()
    assert mine == [{"run": runs[0].id, **waiting}]


async def test_an_ended_run_waits_for_nobody_though_it_could_not_say_so(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house(PAYS)
    run = await house.start(["pay"])
    await run.waiting()
    await run.handle.terminate()
    assert await remote_run.RunHandle(house.client, run.id).pending_approvals() == []

    async def gone() -> bool:
        said = await holdfast("approvals", "--json")
        return run.id not in said.out

    assert await eventually(gone)


async def test_a_namespace_without_search_attributes_is_asked_run_by_run(
    client: Client, open_house: OpenHouse, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = await open_house(PAYS)
    run = await house.start(["pay"])
    await run.waiting()
    monkeypatch.setattr("holdfast.schemas.names.AGENT_STATUS", "NobodyKnowsThis")

    async def shown() -> bool:
        return run.id in (await holdfast("approvals", "--json")).out

    assert await eventually(shown)
    refused = await holdfast("list", "--status", "awaiting_approval")
    assert refused.code == 2
    assert "temporal operator search-attribute create --name" in refused.err


async def test_runs_are_listed_with_agent_status_and_summary(
    client: Client, open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house(PAYS)
    waits = await house.start(["pay"], agent={"name": "payer"})
    await waits.waiting()
    fails = await client.start_workflow(
        "AgentWorkflow", {}, id=f"{waits.id}-f", task_queue=house.task_queue, static_summary="a\nb"
    )

    async def listed(*words: str) -> dict[str, dict[str, str]]:
        rows = json.loads((await holdfast("list", "--json", *words)).out)
        return {row["run"]: row for row in rows}

    async def both() -> dict[str, dict[str, str]] | None:
        rows = await listed()
        known = rows.get(waits.id, {}).get("status") == "awaiting_approval"
        return rows if known and rows.get(fails.id, {}).get("status") == "failed" else None

    rows = await eventually(both)
    assert rows[waits.id]["agent"] == "payer"
    assert waits.id in await listed("--status", "awaiting_approval")
    assert waits.id not in await listed("--status", "completed")
    assert list(await listed("--status", "failed")).count(fails.id) == 1
    [line] = [line for line in (await holdfast("list")).out.splitlines() if fails.id in line]
    assert line.split()[:2] == [fails.id, "-"]
    assert line.endswith("  a b")


async def test_a_terminated_run_is_listed_as_what_temporal_knows(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house(PAYS)
    run = await house.start(["pay"])
    await run.waiting()
    await run.listed()
    await run.handle.terminate()

    async def terminated() -> bool:
        rows = json.loads((await holdfast("list", "--json", "--status", "failed")).out)
        return any((row["run"], row["status"]) == (run.id, "terminated") for row in rows)

    assert await eventually(terminated)
    waiting = await holdfast("list", "--json", "--status", "awaiting_approval")
    assert run.id not in [row["run"] for row in json.loads(waiting.out)], "it waits no more"


async def test_it_is_said_when_there_are_more_runs_than_are_shown(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house([Answer("Done.")])
    for _ in range(2):
        await (await house.start()).result()

    async def cut() -> bool:
        return "--limit shows more" in (await holdfast("list", "--limit", "1")).err

    assert await eventually(cut)

"""§7: of two decisions at once one counts, the other is rejected, and the one that counts runs; on
a real server, whose worker is away while both are sent."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError

from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Launch, Run, backend
from tests.support.model_server import Answer, call

pytestmark = pytest.mark.usefixtures("ledger")

PAYS = [Answer(calls=[call("pay", amount=5)]), Answer("done")]
WAYS = [(first, second) for first in ("update", "signal") for second in ("update", "signal")]
ORDERS = [("approve", "deny"), ("deny", "approve")]


async def send(run: Run, way: str, verdict: str) -> Any:
    """Decide; what the sender receives."""
    try:
        said = run.decide if way == "update" else run.signal
        return await said("t1c1", verdict, by=verdict)
    except WorkflowUpdateFailedError as refused:
        return getattr(refused.cause, "type", None)


async def test_of_two_at_once_one_counts(client: Client, tmp_path: Path) -> None:
    queue = f"race-{uuid.uuid4().hex[:8]}"
    at = {"task_queue": queue, **SIDE_BY_SIDE}
    async with backend(client, tmp_path, PAYS, **at) as home:
        races = [(await home.start(["pay"]), ways, order) for ways in WAYS for order in ORDERS]
        for run, _, _ in races:
            await run.waiting()

    told = [
        [asyncio.create_task(send(run, *each)) for each in zip(ways, order, strict=True)]
        for run, ways, order in races
    ]
    # Signals are recorded while no worker runs; updates wait for one.
    await asyncio.gather(
        *(
            task
            for (_, ways, _), tasks in zip(races, told, strict=True)
            for way, task in zip(ways, tasks, strict=True)
            if way == "signal"
        )
    )
    async with backend(client, tmp_path, PAYS, **at):
        answers = [await asyncio.gather(*tasks) for tasks in told]
        for (run, _, _), answer in zip(races, answers, strict=True):
            await run.result()
            await _check(run, answer)


async def _check(run: Run, told: list[Any]) -> None:
    """Exactly one decision counts, the other was rejected, and the ledger is its own."""
    entries = [each for each in await run.context() if each["type"] == "decision"]
    [counted] = [each["decided"] for each in entries if "decided" in each]
    paid = [line for line in tools.read() if line.split()[-1].startswith(f"{run.id}/")]
    assert len(paid) == (counted["decision"] == "approve")
    refused = [each for each in told if each == "already_decided"]
    ignored = [each for each in entries if "is decided already" in each.get("ignored", "")]
    assert len(refused) + len(ignored) == 1
    for receipt in told:
        assert not isinstance(receipt, dict) or receipt["decision"] == counted["decision"]


async def test_a_decision_is_none_of_the_next_run_of_the_same_id(launch: Launch) -> None:
    home = await launch(PAYS, **SIDE_BY_SIDE)
    first = await home.call("pay", {"amount": 5})
    await first.waiting()
    await first.decide("t1c1", "approve", by="ann")
    await first.result()
    for way in (first.decide, first.signal):
        with pytest.raises(RPCError):
            await way("t1c1", "approve", by="ann")

    asked = {"tool": "pay", "arguments": {"amount": 5}}
    again = await home.client.start_workflow(
        "CallWorkflow", asked, id=first.id, task_queue=home.task_queue
    )
    second = Run(again)
    assert [one["callId"] for one in await second.waiting()] == ["t1c1"]
    await second.decide("t1c1", "deny", by="ann")
    assert (await second.failure()).type == "denied"
    assert len(tools.read()) == 1

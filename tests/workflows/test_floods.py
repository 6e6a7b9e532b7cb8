"""Floods: whatever comes in one workflow task is dealt with in it, or refused; no run is wedged.

Temporal takes a workflow that thinks for two seconds for dead, and a signal stands in the history
for ever: a run that could not deal with it once could never again.
"""

import asyncio
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowUpdateFailedError

from holdfast.workflows.task_budget import MAX_INPUT_VALUES
from tests.support import tools
from tests.support.house import OpenHouse
from tests.support.model_server import Answer, call

# Each takes as long to be checked as one thing may.
ABSURD = {"amount": [1] * 50_000}
SLOW: dict[str, Any] = {
    "type": "object",
    "properties": {"amount": {"items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
}


async def test_what_is_slow_to_read_and_to_check_comes_all_at_once(open_house: OpenHouse) -> None:
    house = await open_house([Answer(calls=[call("pay_all", amount=5)]), Answer("paid")])
    tool = {"_tool": "pay_all", **SLOW, "_activity": "pay", "_sideEffects": True}
    run = await house.start([tool])
    await run.waiting()
    message = {"content": [{"type": "data", "kind": "state", "data": ABSURD}]}
    for _ in range(20):
        await asyncio.gather(
            run.signal("t1c1", "edit", arguments=ABSURD), run.handle.signal("message", message)
        )
    huge = {"amount": [1] * (MAX_INPUT_VALUES + 2)}
    await run.signal("t1c1", "edit", arguments=huge)
    with pytest.raises(WorkflowUpdateFailedError):
        await run.decide("t1c1", "edit", arguments=huge)
    await run.decide("t1c1", "approve")

    assert (await run.result())["output"] == "paid"
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]
    failed = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    assert failed not in [event.event_type for event in await run.history()]

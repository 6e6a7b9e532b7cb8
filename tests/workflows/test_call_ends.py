"""`CallWorkflow`: one call of one tool without a model, and what it ends with."""

import asyncio
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationErrorCategory, CancelledError

from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import SIDE_BY_SIDE, OpenHouse


async def test_its_result_has_the_shape_of_a_runs(open_house: OpenHouse) -> None:
    call = await (await open_house([])).call("echo", {"text": "ha", "times": "2"})
    assert await call.result() == {
        "status": "completed",
        "output": "haha",
        "state": {},
        "turns": 0,
        "calls": 1,
        "usage": {"inputTokens": 0, "outputTokens": 0, "cachedTokens": 0, "cost": 0.0},
    }


# What is asked for, and what the failure says of it.
NO_CALLS: list[tuple[dict[str, Any], str]] = [
    ({"tool": "look_ap"}, "there is no tool `look_ap`; did you mean `look_up`"),
    ({"tool": {"_tool": "x", "_activity": "ecko"}}, "no activity `ecko`; did you mean `echo`"),
    ({"tool": {"_tool": "latent"}}, "no activity `latent`, which would carry out the tool"),
    ({"tool": {"_activity": "echo"}}, "the tool has no name"),
    ({"tool": {"_tool": "x", "_activty": "echo"}}, "_activty"),
    ({"tool": ""}, "`tool`: "),
    ({"tool": "echo", "arguments": [1]}, "`arguments`: "),
    ({"tool": "echo", "argumens": {}}, "unknown field `argumens`; did you mean `arguments`"),
    ({"tool": "echo", "approvals": "perhaps"}, "`approvals`: "),
    ({"tool": "echo", "principal": "ada"}, "`principal`: "),
]


async def test_what_makes_no_call_is_an_invalid_request(open_house: OpenHouse) -> None:
    house = await open_house([], **SIDE_BY_SIDE)
    calls = await asyncio.gather(*(house.call(**request) for request, _ in NO_CALLS))
    for call, (_, said) in zip(calls, NO_CALLS, strict=True):
        failure = await call.failure()
        assert failure.type == "invalid_request"
        assert failure.category is ApplicationErrorCategory.BENIGN
        assert said in failure.message


async def test_a_call_that_is_cancelled_as_it_runs_may_have_taken_effect(
    open_house: OpenHouse,
) -> None:
    call = await (await open_house([])).call("held_payment", {"name": "rent"})

    async def begun() -> bool:
        return bool(tools.read())

    await eventually(begun)
    await call.handle.cancel()
    with pytest.raises(WorkflowFailureError) as failed:
        await call.result()
    assert isinstance(failed.value.cause, CancelledError)
    assert (await call.error())["code"] == "outcome_unknown"
    assert (await call.status())["status"] == "cancelled"


async def test_nothing_can_be_said_to_it(open_house: OpenHouse) -> None:
    call = await (await open_house([])).call("pay", {"amount": 5})
    await call.waiting()
    await call.handle.signal("message", {"content": "hurry"})
    with pytest.raises(WorkflowUpdateFailedError):
        await call.handle.execute_update("send", "hurry")
    await call.decide("t1c1", "approve")
    assert (await call.result())["output"] == {"paid": 5.0}

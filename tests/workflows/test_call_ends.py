"""`CallWorkflow`: one call of one tool without a model, and what it ends with."""

import asyncio
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationErrorCategory, CancelledError

from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import SIDE_BY_SIDE, OpenHouse

SHOUT = {
    "_tool": "shout",
    "properties": {"text": {"type": "string"}, "_outputPath": {"type": "string"}},
    "required": ["text"],
    "_activity": {"type": "quick", "local": True},
}


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


async def test_a_tool_can_be_written_out_and_what_it_leaves_open_be_chosen(
    open_house: OpenHouse,
) -> None:
    call = await (await open_house([])).call(SHOUT, {"text": "hi", "_outputPath": "†state.said"})
    result = await call.result()
    assert (result["output"], result["state"]) == ("HI", {"said": "HI"})


async def test_no_model_is_asked(open_house: OpenHouse) -> None:
    house = await open_house([])
    await (await house.call("look_up", {"id": 1})).result()
    assert house.model.requests == []


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


# A call, and the error that it ends in.
ERRORS: list[tuple[str, dict[str, Any], str, str]] = [
    ("look_up", {"id": "x"}, "invalid_arguments", "id: 'x' is not of type 'integer'"),
    ("echo", {"text": "†state.said"}, "unresolved_reference", "†state.said"),
    ("scoped", {}, "token_scope_insufficient", "orders:write"),
    ("raises", {}, "tool_error", "the stock is empty"),
    ("misfit", {}, "invalid_output", "does not fit its `_output`"),
    ("binary", {}, "invalid_output", "its result is lost: it is binary, not JSON"),
    ("elsewhere", {}, "timeout", "was not begun in time"),
    ("big", {"size": 3_000_000}, "tool_error", "3000002 bytes"),
    ("big", {"size": 1_999_950}, "invalid_output", "too large to be handed on"),
    ("says", {"result": {"_message": 1}}, "invalid_output", "no message"),
]


async def test_an_error_of_the_call_is_its_failure(open_house: OpenHouse) -> None:
    house = await open_house([], **SIDE_BY_SIDE)

    async def ends(tool: str, arguments: dict[str, Any], code: str, said: str) -> None:
        call = await house.call(tool, arguments)
        failure = await call.failure()
        assert (failure.type, failure.non_retryable) == (code, True)
        assert said in failure.message
        assert (await call.status())["status"] == "failed"
        assert (await call.told())[-1] == "error"

    await asyncio.gather(*(ends(*row) for row in ERRORS))


async def test_a_principal_acts_with_its_scopes(open_house: OpenHouse) -> None:
    ada = {"id": "ada", "scopes": ["orders:write"]}
    assert (await (await (await open_house([])).call("scoped", principal=ada)).result())[
        "output"
    ] == "done"


async def test_a_tool_that_stops_the_run_stops_it(open_house: OpenHouse) -> None:
    result = await (await (await open_house([])).call("stops")).result()
    assert (result["status"], result["output"]) == ("stopped", "enough")


async def test_its_log_can_be_read_when_it_is_over(open_house: OpenHouse) -> None:
    call = await (await open_house([])).call("look_up", {"id": "4"})
    await call.result()
    assert await call.told() == ["tool_call t1c1", "tool_start t1c1", "tool_end t1c1", "done"]
    assert await call.handle.query("state") == {"item": {"id": 4, "name": "item 4"}}
    assert await call.handle.query("approvals") == []
    [asked] = [entry for entry in await call.context() if entry.get("message", {}).get("calls")]
    assert asked["message"]["calls"][0]["arguments"] == {"id": "4"}


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

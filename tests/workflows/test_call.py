"""Single calls: their ends and their approvals."""

import asyncio
import uuid
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationErrorCategory, CancelledError

from tests.support.backend import SIDE_BY_SIDE, Launch, Run, ledger_has
from tests.support.eventually import eventually

# What is asked for, and the text of the failure.
NO_CALLS: list[tuple[dict[str, Any], str]] = [
    ({"tool": "look_ap"}, "there is no tool `look_ap`; did you mean `look_up`"),
    ({"tool": {"_tool": "x", "_activity": "ecko"}}, "no activity `ecko`; did you mean `echo`"),
    ({"tool": {"_tool": "latent"}}, "no activity `latent` to run the tool"),
    ({"tool": {"_activity": "echo"}}, "the tool has no name"),
    ({"tool": {"_tool": "x", "_activty": "echo"}}, "_activty"),
    ({"tool": ""}, "`tool`: "),
    ({"tool": "echo", "arguments": [1]}, "`arguments`: "),
    ({"tool": "echo", "argumens": {}}, "unknown field `argumens`; did you mean `arguments`"),
    ({"tool": "echo", "approvals": "perhaps"}, "`approvals`: "),
    ({"tool": "echo", "principal": "ada"}, "`principal`: "),
]


async def test_what_makes_no_call_is_an_invalid_request(launch: Launch) -> None:
    backend = await launch([], **SIDE_BY_SIDE)
    calls = await asyncio.gather(*(backend.call(**request) for request, _ in NO_CALLS))
    for call, (_, said) in zip(calls, NO_CALLS, strict=True):
        failure = await call.failure()
        assert failure.type == "invalid_request"
        assert failure.category is ApplicationErrorCategory.BENIGN
        assert said in failure.message


async def test_a_call_that_is_cancelled_as_it_runs_may_have_taken_effect(
    launch: Launch,
) -> None:
    call = await (await launch([])).call("held_payment", {"name": "rent"})
    await ledger_has()
    await call.handle.cancel()
    with pytest.raises(WorkflowFailureError) as failed:
        await call.result()
    assert isinstance(failed.value.cause, CancelledError)
    assert (await call.error())["code"] == "outcome_unknown"
    assert (await call.status())["status"] == "cancelled"


async def test_it_takes_no_messages(launch: Launch) -> None:
    call = await (await launch([])).call("pay", {"amount": 5})
    await call.waiting()
    await call.handle.signal("message", {"content": "hurry"})
    with pytest.raises(WorkflowUpdateFailedError):
        await call.handle.execute_update("send", "hurry")
    await call.decide("t1c1", "approve")
    assert (await call.result())["output"] == {"paid": 5.0}


async def test_pending_approvals_of_runs_and_single_calls_are_one_list(launch: Launch) -> None:
    backend = await launch([])
    call = await backend.call("pay", {"amount": 5}, principal={"id": "bob"})
    await call.waiting()
    waits = 'AgentStatus = "awaiting_approval" AND PendingTools = "pay" AND AgentPrincipal = "bob"'
    query = f'{waits} AND WorkflowId = "{call.id}"'

    async def listed() -> bool:
        return [found.id async for found in backend.client.list_workflows(query)] == [call.id]

    await eventually(listed)
    await call.decide("t1c1", "deny")
    await call.failure()
    ended = f'AgentStatus = "failed" AND AgentName IS NULL AND WorkflowId = "{call.id}"'

    async def failed() -> bool:
        return bool([found async for found in backend.client.list_workflows(ended)])

    await eventually(failed)


async def test_a_number_that_float64_would_change_is_refused(launch: Launch) -> None:
    backend, amount = await launch([]), "0.1234567890123456789"

    def payload(text: str) -> RawValue:
        return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=text.encode()))

    request = payload(f'{{"tool": "pay", "arguments": {{"amount": {amount}}}}}')
    id = f"call-{uuid.uuid4().hex[:12]}"
    handle = await backend.client.start_workflow(
        "CallWorkflow", request, id=id, task_queue=backend.task_queue
    )
    failure = await Run(handle, backend.client).failure()
    assert failure.type == "invalid_request"
    assert "would be changed by float64; write it as a text" in failure.message
    call = await backend.call("pay", {"amount": 5})
    await call.waiting()
    edit = f'{{"callId": "t1c1", "decision": "edit", "arguments": {{"amount": {amount}}}}}'
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await call.handle.execute_update("decide", payload(edit))
    assert "would be changed by float64" in str(refused.value.cause)
    await call.decide("t1c1", "deny")


async def test_a_failure_names_its_code_once(launch: Launch) -> None:
    failure = await (await (await launch([])).call("pay", {"amount": "much"})).failure()
    assert (failure.type, failure.message[:7]) == ("invalid_arguments", "amount:")

"""`CallWorkflow`: a call that waits for people, as a call of a run does."""

import asyncio
from collections.abc import Awaitable

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError, CancelledError

from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import SIDE_BY_SIDE, OpenHouse, Run

SIGNED_OFF = {
    "_tool": "pay",
    "properties": {"amount": {"type": "number"}},
    "_activity": "pay",
    "_sideEffects": True,
    "_approval": {"approvers": ["finance"], "quorum": 2, "notBy": "principal", "remind": "150ms"},
}


async def paying(open_house: OpenHouse, **settings: object) -> Run:
    """A payment that waits."""
    call = await (await open_house([], **settings)).call("pay", {"amount": 5})
    await call.waiting()
    return call


async def test_it_waits_shows_what_it_would_do_and_is_carried_out_once(
    open_house: OpenHouse,
) -> None:
    call = await paying(open_house)
    [waiting] = await call.waiting()
    assert (waiting["callId"], waiting["kind"], waiting["label"]) == ("t1c1", "call", "Pay")
    assert waiting["arguments"] == {"amount": 5}
    assert tools.read() == []
    status = await call.status()
    assert (status["status"], status["turn"]) == ("awaiting_approval", 0)
    assert [one["callId"] for one in status["pending"]] == ["t1c1"]
    described = await call.handle.describe()
    assert list(described.raw_description.pending_activities) == []

    receipt = await call.decide("t1c1", "approve", by="ada", digest=waiting["digest"])
    assert receipt == {"callId": "t1c1", "decision": "approve", "decided": True, "missing": 0}
    assert (await call.result())["output"] == {"paid": 5.0}
    assert tools.read() == [f"pay 5 {call.id}/t1c1"]


async def test_a_denial_fails_it_with_the_reason(open_house: OpenHouse) -> None:
    call = await paying(open_house)
    await call.decide("t1c1", "deny", reason="not before Friday", by="ada")
    failure = await call.failure()
    assert (failure.type, failure.message) == ("denied", "not before Friday")
    assert tools.read() == []


async def test_an_edit_is_checked_before_it_is_carried_out(open_house: OpenHouse) -> None:
    call = await paying(open_house)
    before = (await call.handle.describe()).history_length
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await call.decide("t1c1", "edit", arguments={"amount": "much"})
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "invalid_decision"
    assert (await call.handle.describe()).history_length == before
    await call.decide("t1c1", "edit", arguments={"amount": "3"}, by="ada")
    assert (await call.result())["output"] == {"paid": 3.0}


async def test_a_persons_answer_is_its_result(open_house: OpenHouse) -> None:
    call = await paying(open_house)
    await call.decide("t1c1", "respond", result={"paid": "in cash"})
    assert (await call.result())["output"] == {"paid": "in cash"}
    assert tools.read() == []


async def test_a_decision_that_comes_first_is_kept(open_house: OpenHouse) -> None:
    house = await open_house([])
    handle = await house.client.start_workflow(
        "CallWorkflow",
        {"tool": "pay", "arguments": {"amount": 5}},
        id=f"early-{house.task_queue}",
        task_queue=house.task_queue,
        start_signal="approve",
        start_signal_args=[{"callId": "t1c1", "decision": "approve", "by": "ada"}],
    )
    assert (await Run(handle).result())["output"] == {"paid": 5.0}


async def test_people_are_told_and_reminded_and_a_quorum_of_them_decides(
    open_house: OpenHouse,
) -> None:
    house = await open_house([], notify="notify")
    call = await house.call(SIGNED_OFF, {"amount": 5}, principal={"id": "bob"})

    async def told_twice() -> bool:
        return tools.read().count("notify t1c1 call") >= 2

    await eventually(told_twice)
    with pytest.raises(WorkflowUpdateFailedError):
        await call.decide("t1c1", "approve", by="bob", groups=["finance"])
    for by, missing in (("ada", 1), ("eve", 0)):
        receipt = await call.decide("t1c1", "approve", by=by, groups=["finance"])
        assert receipt["missing"] == missing
    assert (await call.result())["output"] == {"paid": 5.0}


async def test_a_wait_that_nobody_ends(open_house: OpenHouse) -> None:
    house = await open_house([], **SIDE_BY_SIDE)

    def left(way: str) -> Awaitable[Run]:
        policy = {"timeout": "100ms", "onTimeout": way}
        return house.call({**SIGNED_OFF, "_approval": policy}, {"amount": 5})

    denied, failed, approved = await asyncio.gather(*map(left, ("deny", "fail", "approve")))
    assert (await approved.result())["output"] == {"paid": 5.0}
    for call in (denied, failed):
        assert (await call.failure()).type == "approval_timeout"
    assert tools.read() == [f"pay 5 {approved.id}/t1c1"]


async def test_one_that_must_not_wait_is_denied(open_house: OpenHouse) -> None:
    call = await (await open_house([])).call("pay", {"amount": 5}, approvals="deny")
    assert (await call.failure()).type == "denied"


async def test_an_unknown_end_is_asked_about_and_never_repeated(open_house: OpenHouse) -> None:
    call = await (await open_house([])).call("held_payment", {"name": "rent"})
    [waiting] = await call.waiting()
    assert waiting["kind"] == "reconcile"
    await call.decide("t1c1", "happened", result="paid after all")
    assert (await call.result())["output"] == "paid after all"
    assert tools.read() == [f"paid rent {call.id}/t1c1"]


async def test_one_that_is_cancelled_as_it_waits_has_its_one_result(open_house: OpenHouse) -> None:
    call = await paying(open_house)
    await call.handle.cancel()
    with pytest.raises(WorkflowFailureError) as failed:
        await call.result()
    assert isinstance(failed.value.cause, CancelledError)
    assert (await call.error())["code"] == "cancelled"
    assert await call.handle.query("approvals") == []
    assert tools.read() == []


async def test_waiting_calls_of_runs_and_single_ones_are_one_list(open_house: OpenHouse) -> None:
    house = await open_house([])
    call = await house.call("pay", {"amount": 5}, principal={"id": "bob"})
    await call.waiting()
    waits = 'AgentStatus = "awaiting_approval" AND PendingTools = "pay" AND AgentPrincipal = "bob"'
    query = f'{waits} AND WorkflowId = "{call.id}"'

    async def listed() -> bool:
        return [found.id async for found in house.client.list_workflows(query)] == [call.id]

    await eventually(listed)
    await call.decide("t1c1", "deny")
    await call.failure()
    ended = f'AgentStatus = "failed" AND AgentName IS NULL AND WorkflowId = "{call.id}"'

    async def failed() -> bool:
        return bool([found async for found in house.client.list_workflows(ended)])

    await eventually(failed)


async def test_temporals_ui_shows_it_as_a_call_in_no_turn(open_house: OpenHouse) -> None:
    call = await paying(open_house)
    metadata: WorkflowMetadata = await call.handle.query("__temporal_workflow_metadata")
    details = metadata.current_details
    assert details.startswith("This run is one call, without any AI, of **Pay**: “Pay an amount")
    assert f"holdfast decide {call.id} t1c1 approve" in details
    assert "Turn" not in details
    await call.decide("t1c1", "approve", by="ada")
    await call.result()
    summaries = [
        event.user_metadata.summary.data.decode()
        for event in await call.history()
        if event.HasField("user_metadata")
    ]
    assert any("waits for a person (see User Metadata): Pay" in line for line in summaries)
    assert any("Pay, approved by ada" in line for line in summaries)
    assert not any("Turn" in line for line in summaries)

"""Approvals by a person, on a real server with the workflow cache off."""

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from tests.support import tools
from tests.support.backend import Launch, Run
from tests.support.model_server import Answer, call

PAYS = [Answer(calls=[call("pay", amount=5, _reasoningForCall="they asked")]), Answer("paid")]


async def refusal(run: Run, call_id: str, decision: str, **more: object) -> ApplicationError:
    """Why the update refuses a decision."""
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await run.decide(call_id, decision, **more)
    assert isinstance(refused.value.cause, ApplicationError)
    return refused.value.cause


async def test_a_call_with_side_effects_waits_and_shows_what_it_would_do(
    launch: Launch,
) -> None:
    run = await (await launch(PAYS)).start(["pay"])
    [waiting] = await run.waiting()
    assert waiting["kind"] == "call"
    assert waiting["tool"] == "pay"
    assert waiting["label"] == "Pay"
    assert waiting["arguments"] == {"amount": 5}
    assert waiting["reasoning"] == "they asked"
    assert waiting["quorum"] == 1
    assert waiting["expiresAt"] > waiting["requestedAt"]
    assert tools.read() == []
    assert (await run.status())["status"] == "awaiting_approval"
    assert list((await run.handle.describe()).raw_description.pending_activities) == []

    receipt = await run.decide("t1c1", "approve", by="ada", digest=waiting["digest"])
    assert receipt == {"callId": "t1c1", "decision": "approve", "decided": True, "missing": 0}
    assert (await run.result())["output"] == "paid"
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]
    told = await run.event_lines()
    assert told == [
        "turn_start",
        "tool_call t1c1",
        "confirmation_required t1c1",
        "tool_start t1c1",
        "tool_end t1c1",
        "turn_end",
        "turn_start",
        "turn_end",
        "done",
    ]


async def test_decide_refuses_what_fails_and_history_does_not_grow(launch: Launch) -> None:
    run = await (await launch(PAYS)).start(["pay"])
    await run.waiting()
    before = (await run.handle.describe()).history_length
    assert (await refusal(run, "t9c9", "approve")).type == "no_such_call"
    assert (await refusal(run, "t1c1", "approve", digest="0" * 64)).type == "invalid_decision"
    assert (await refusal(run, "t1c1", "edit")).type == "invalid_decision"
    assert (await refusal(run, "t1c1", "perhaps")).type == "invalid_decision"
    assert (await refusal(run, "t1c1", "approve", nonsense=1)).type == "invalid_decision"
    assert (await run.handle.describe()).history_length == before
    await run.decide("t1c1", "approve")
    await run.result()


async def test_an_approval_expires(launch: Launch) -> None:
    policy = {"timeout": "100ms"}
    run = await (await launch(PAYS)).start(["pay"], agent={"approval": policy})
    await run.result()
    assert (await run.error())["code"] == "approval_timeout"
    assert tools.read() == []


async def test_pending_approvals_with_large_arguments_can_be_listed_and_decided(
    launch: Launch,
) -> None:
    blob = {"text": "x" * 250_000}
    tool = {
        "_tool": "send",
        "properties": {"text": {"type": "string"}},
        "_activity": {"type": "echo"},
        "_sideEffects": True,
    }
    answers = [Answer(calls=[("send", blob)] * 4), Answer("sent")]
    run = await (await launch(answers)).start([tool])
    waiting = await run.waiting(4)
    assert {one["cut"] for one in waiting} == {250_011}
    for one in waiting:
        await run.decide(one["callId"], "deny", digest=one["digest"])
    await run.result()

"""Conversations: what a `send` receives, and messages that are not read."""

from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateStage
from temporalio.exceptions import ApplicationError

from tests.support import tools
from tests.support.backend import Launch, Run, ledger_has
from tests.support.model_server import Answer, call

LOOK = Answer(calls=[call("look_up", id=7)])
HELD = {"_tool": "hold", "_activity": "held", "properties": {"name": {"type": "string"}}}


async def _send(run: Run, message: Any) -> Any:
    return await run.handle.execute_update("send", message)


async def _refusal(run: Run, message: Any, update: str = "send") -> ApplicationError:
    with pytest.raises(WorkflowUpdateFailedError) as failed:
        await run.handle.execute_update(update, message)
    assert isinstance(failed.value.cause, ApplicationError)
    return failed.value.cause


async def test_a_send_that_ends_on_a_budget_answers_with_it(launch: Launch) -> None:
    backend = await launch([Answer("one"), LOOK, Answer("three")])
    budget = {"maxTurns": 4, "perMessage": {"maxTurns": 1}, "total": {"maxTurns": 3}}
    run = await backend.start(["look_up"], conversation=True, agent={"budget": budget})
    await run.idle()

    used_up = await _refusal(run, "look it up")
    assert used_up.type == "budget_exceeded"
    assert "maxTurns (1) of this message is used up" in used_up.message
    assert await _send(run, "and now?") == "three"
    over = await _refusal(run, "and again")
    assert (over.type, over.message) == (
        "budget_exceeded",
        "the run has ended: its budget maxTurns is used up",
    )
    result = await run.result()
    assert (result["status"], result["turns"]) == ("budget_exceeded", 3)
    assert [message["text"] for message in result["undelivered"]] == ["and again"]


async def test_messages_are_queued_withdrawn_and_for_people(launch: Launch) -> None:
    backend = await launch([Answer(calls=[call("hold", name="a")]), Answer("done")])
    run = await backend.start([HELD], conversation=True)
    await ledger_has("started a")
    await run.handle.signal("message", {"content": "It is on hold.", "audience": "people"})
    wrong = await run.handle.start_update(
        "send", "Drop it.", wait_for_stage=WorkflowUpdateStage.ACCEPTED
    )
    await run.handle.signal("message", "Hurry up.")
    assert (await run.status())["queued"] == [
        {"number": 1, "role": "user", "delivery": "steer", "text": "Drop it."},
        {"number": 2, "role": "user", "delivery": "steer", "text": "Hurry up."},
    ]
    assert await run.handle.execute_update("withdraw", {"message": 1}) == {"message": 1}
    with pytest.raises(WorkflowUpdateFailedError) as failed:
        await wrong.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "withdrawn"
    assert (await _refusal(run, {"message": 1}, "withdraw")).type == "no_such_message"
    for wrong_message in ({"content": "x", "audience": "people"}, {"content": "x", "skill": "a"}):
        assert (await _refusal(run, wrong_message)).type == "invalid_request"
    tools.write("open a")
    await run.idle()

    asked = str(backend.model.requests[-1])
    assert ("Hurry up." in asked, "Drop it." in asked, "on hold" in asked) == (True, False, False)
    [remark] = [event for event in await run.events() if event["type"] == "remark"]
    assert remark["content"] == "It is on hold."
    await run.handle.signal("close")
    assert "undelivered" not in await run.result()

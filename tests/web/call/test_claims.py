"""A claim over HTTP: in the name of the sender alone, kept by the run, and no lock."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from holdfast.schemas import names
from holdfast.web.pages import address
from tests.support.backend import SIDE_BY_SIDE, Backend, Run, backend
from tests.support.inbox import Stage, inbox
from tests.support.model_server import Answer, call

pytestmark = pytest.mark.usefixtures("ledger")

FOR_FINANCE: dict[str, Any] = {"_tool": "pay_out", "_activity": "pay", "_sideEffects": True}
FOR_FINANCE["_approval"] = {"require": "always", "approvers": ["finance"]}
IS_LOOKING = "is looking at this until"


@pytest.fixture
async def made(client: Client, tmp_path: Path) -> AsyncIterator[Backend]:
    pays = [Answer(calls=[call("pay_out", amount=5)]), Answer("Paid.")]
    async with backend(client, tmp_path, pays, **SIDE_BY_SIDE) as made:
        yield made


async def pending(made: Backend) -> tuple[Run, str]:
    """A run that waits for `finance`, and the address of its claims."""
    run = await made.start([FOR_FINANCE])
    await run.waiting()
    return run, f"/runs/{run.id}/claims"


async def claims(stage: Stage, path: str, **more: Any) -> tuple[int, str]:
    """Send a claim; the status, and the code of a refusal."""
    answer = await stage.send(path, {"callId": "t1c1", **more})
    return answer.status_code, answer.json().get("code", "")


async def test_every_inbox_shows_a_claim_also_after_the_one_that_took_it_has_stopped(
    client: Client, made: Backend
) -> None:
    run, path = await pending(made)
    page, before = address("waiting", run.id, "t1c1"), len(await run.history())
    async with inbox(client, by="ann", groups=["finance"]) as first:
        assert await claims(first, path) == (200, "")
    # No timer, no activity and no search attribute.
    assert {each.event_type for each in (await run.history())[before:]} == {
        EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
        EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED,
        EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED,
    }

    async with inbox(client, by="bob", groups=["finance"]) as second:
        assert f"Ann {IS_LOOKING}" in (await second.get(page)).text
        assert await claims(second, path, giveBack=True) == (422, "invalid_decision")
        decided = await second.send(
            f"/runs/{run.id}/decisions", {"callId": "t1c1", "decision": "approve"}
        )
        assert decided.json()["decided"]
        assert (await run.result())["output"] == "Paid."
        assert await claims(second, path) == (409, "ended")


async def test_a_claim_has_the_name_of_its_sender_and_only_approvers_claim(
    client: Client, made: Backend
) -> None:
    run, path = await pending(made)
    async with inbox(client, by="eve", groups=["legal"]) as stage:
        assert await claims(stage, path) == (422, "invalid_decision")
        assert await claims(stage, path, by="ann", groups=["finance"]) == (422, "invalid_request")
        form = {"claim": "take", "by": "ann", "groups": "finance"}
        sent = await stage.post(f"{address('waiting', run.id, 't1c1')}/claim", form)
        assert sent.status_code == 422
        assert "only these groups decide" in sent.text
        forged = await stage.http.post(
            f"{address('waiting', run.id, 't1c1')}/claim", data={"claim": "take"}
        )
        assert forged.status_code == 403
    [waiting] = await run.handle.query(names.APPROVALS)
    assert "claim" not in waiting

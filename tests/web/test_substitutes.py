"""A substitute, as people use one: set on a page, decided in the inbox, recorded by the run."""

import uuid
from typing import Any

import pytest

from holdfast.client.errors import RejectedError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval
from holdfast.web.auth.sessions import Person
from holdfast.web.services import Services
from tests.support.backend import Launch
from tests.support.model_server import Answer, call
from tests.workflows.approvals.test_absences import absence_of

ADA, BOB, EVE = (Person(name, ("finance",)) for name in ("ada", "bob", "eve"))
MALLORY = Person("mallory", ("sales",))


def pays(turn: int, body: dict[str, Any]) -> Answer:
    return Answer(calls=[call("pay", amount=5)]) if turn == 1 else Answer("done")


async def test_a_substitute_decides_once_in_their_own_name_and_gets_no_right(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await launch(pays)
    monkeypatch.setattr(names, "ABSENCES_ID", f"absences-{uuid.uuid4().hex[:8]}")
    inbox = Services(HoldfastClient(backend.client, backend.task_queue))
    policy = {"approvers": ["finance"], "quorum": 2, "notBy": "principal"}
    run = await backend.start(["pay"], agent={"approval": policy})
    own = await backend.start(["pay"], agent={"approval": policy}, principal={"id": "ada"})
    away = absence_of("ada", "bob").to_json()["away"]
    await inbox.set_absence(ADA, away)
    await inbox.set_absence(EVE, {**away, "to": "mallory"})

    async def approve(person: Person, run_id: str) -> None:
        [waiting] = await HoldfastClient(backend.client).run(run_id).approvals()
        shown = PendingApproval.read(waiting.to_json())
        await inbox.decide_by(person, run_id, shown, {"decision": "approve"})

    await run.waiting()
    with pytest.raises(RejectedError, match="only these groups decide"):
        await approve(MALLORY, run.id)
    for _ in range(2):
        await approve(BOB, run.id)
    await inbox.set_absence(ADA, None)
    await approve(ADA, run.id)
    assert (await run.result())["status"] == "completed"
    decided = [each["decided"] for each in await run.context() if each["type"] == "decision"]
    votes = [(one["by"], one.get("onBehalfOf")) for one in decided]
    assert votes == [("bob", ["ada"]), ("ada", None)]

    await own.waiting()
    await inbox.set_absence(ADA, away)
    with pytest.raises(RejectedError, match="the principal of the run has no substitute"):
        await approve(BOB, own.id)
    await own.handle.cancel()

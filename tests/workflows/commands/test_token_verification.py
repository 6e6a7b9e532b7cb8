"""Signed decisions and principals."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from holdfast.schemas.decision import Decision
from holdfast.workflows.decisions import count_decision
from tests.engine.asking import asks, open_question
from tests.engine.driver import NOON
from tests.support import tools
from tests.support.backend import Backend, Launch, Run
from tests.support.identity.signing import SIGNED_PAY, Approver, write_keys
from tests.support.model_server import Answer, call

PAYS = [Answer(calls=[call("pay_out", amount=5)]), Answer("paid")]
MARKER = "marker_recorded_event_attributes"
Opened = Callable[..., Awaitable[Backend]]


@pytest.fixture
def ann() -> Approver:
    """Whose key the worker knows."""
    return Approver()


@pytest.fixture
def keys(tmp_path: Path, ann: Approver) -> Path:
    """The keys that the worker knows."""
    return write_keys(tmp_path / "keys.json", ann)


@pytest.fixture
def open_signed(launch: Launch, keys: Path) -> Opened:
    """Open a backend whose worker has the keys."""

    async def open_(answers: Any = PAYS, **settings: Any) -> Backend:
        return await launch(answers, **{"keys": str(keys), **settings})

    return open_


async def refusal(run: Run, decision: str, **more: Any) -> str:
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await run.decide("t1c1", decision, **more)
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "invalid_decision"
    return refused.value.cause.message


def paid(run: Run) -> list[str]:
    return [f"pay 5 {run.id}/t1c1"]


async def test_a_signed_approval_is_executed(open_signed: Opened, ann: Approver) -> None:
    run = await (await open_signed()).start([SIGNED_PAY])
    [waiting] = await run.waiting()
    assert waiting["signed"] is True
    receipt = await run.decide("t1c1", "approve", by="eve", token=ann.on(run.id, waiting))
    assert receipt["decided"]
    assert (await run.result())["output"] == "paid"

    [decided] = [entry for entry in await run.context() if entry["type"] == "decision"]
    assert (decided["decided"]["by"], decided["decided"]["signed"]) == ("ann", True)
    assert tools.read() == paid(run)


async def test_a_signal_with_a_token_counts_and_one_without_does_not(
    open_signed: Opened, ann: Approver
) -> None:
    run = await (await open_signed()).start([SIGNED_PAY])
    [waiting] = await run.waiting()
    await run.signal("t1c1", "approve", by="ann", groups=["finance"], digest=waiting["digest"])
    await run.signal("t1c1", "approve", token=ann.on("another", waiting))
    await run.signal("t1c1", "approve", token=Approver().on(run.id, waiting))
    await run.signal("t1c1", "approve", token=ann.on(run.id, waiting))
    await run.result()

    ignored = [entry["ignored"] for entry in await run.context() if "ignored" in entry]
    assert [why.partition(":")[0] for why in ignored] == [
        "this call accepts only signed decisions",
        "the token is for another run",
        "the token's signature is wrong",
    ]
    assert tools.read() == paid(run)
    markers = [event for event in await run.history() if event.HasField(MARKER)]
    assert len(markers) == 3, "the agent, and the two tokens that might have counted"


async def test_without_keys_no_decision_is_signed(launch: Launch, ann: Approver) -> None:
    run = await (await launch(PAYS)).start([SIGNED_PAY])
    [waiting] = await run.waiting()

    said = await refusal(run, "approve", token=ann.on(run.id, waiting))
    assert "no keys" in said
    assert "--keys" in said


NEEDS_SCOPE = {**SIGNED_PAY, "_approval": {"require": "never"}, "_requires": ["pay"]}


@pytest.mark.parametrize(
    "claims", [{"scopes": ["pay"]}, {"scope": "read pay"}], ids=["scopes", "scope"]
)
async def test_a_principal_holds_the_scopes_of_its_token(
    open_signed: Opened, ann: Approver, claims: dict[str, Any]
) -> None:
    token = ann.principal(**claims)
    run = await (await open_signed()).start([NEEDS_SCOPE], principal={"token": token})
    await run.result()
    assert tools.read() == paid(run)
    assert token not in str(await run.context())


async def test_a_principal_whose_token_is_forged_begins_nothing(
    open_signed: Opened, ann: Approver
) -> None:
    backend = await open_signed()
    for token in (Approver(ann.id).principal(scopes=["pay"]), ann.token(scopes=["pay"])):
        failure = await (await backend.start([NEEDS_SCOPE], principal={"token": token})).failure()
        assert failure.type == "invalid_request"
        assert failure.message.startswith("`principal.token`: the token")
        failure = await (
            await backend.call(NEEDS_SCOPE, {"amount": 5}, principal={"token": token})
        ).failure()
        assert failure.type == "invalid_request"
    assert tools.read() == []


ASK = {
    "_tool": "ask",
    "description": "Have it done.",
    "_delegate": "anonymous",
    "_output": {"type": "object", "properties": {"said": {"type": "string"}}},
}


async def test_a_worker_can_insist_on_tokens(open_signed: Opened, ann: Approver) -> None:
    main = [Answer(calls=[("ask", {})]), Answer("thanks")]

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        return main[turn - 1] if "tools" in body else Answer('{"said": "done"}')

    backend = await open_signed(answer, principal_tokens=True)
    for principal in (None, {"id": "ada", "scopes": ["pay"]}):
        run = await backend.start([NEEDS_SCOPE], principal=principal)
        assert "requires a token of each principal" in (await run.failure()).message
        single = await backend.call(NEEDS_SCOPE, {"amount": 5}, principal=principal)
        assert (await single.failure()).type == "invalid_request"

    token = ann.principal()
    run = await backend.start([ASK], principal={"token": token})
    assert (await run.result())["output"] == "thanks"
    assert await run.results() == {"t1c1": '{"said": "done"}'}, "its delegate needs none"


async def test_a_worker_can_insist_on_its_catalog(open_signed: Opened) -> None:
    backend = await open_signed([], catalog_only=True)
    assert "name one of its catalog" in (await (await backend.start(["pay"])).failure()).message
    assert (
        await (await backend.call(SIGNED_PAY, {"amount": 5})).failure()
    ).type == "invalid_request"

    named = await backend.call("pay", {"amount": 5})
    await named.waiting()
    await named.decide("t1c1", "approve")
    assert (await named.result())["output"] == {"paid": 5}


async def test_nothing_is_logged_after_the_end() -> None:
    play = asks()
    open_question(play)
    play.run.cancel()
    entries = len(play.log)

    late = Decision.model_validate({"callId": "t1c1", "decision": "approve"})
    await count_decision(play.run, late, NOON, play.run.state.limits)
    assert len(play.log) == entries

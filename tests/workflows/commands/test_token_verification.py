"""Signed decisions and principals."""

import json
import time
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
from tests.support.backend import Backend, Launch, Run, ledger_has
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


async def test_a_call_without_room_has_the_scopes_of_a_token_that_is_renewed_meanwhile(
    open_signed: Opened, ann: Approver
) -> None:
    pad, now = {"pad": {"type": "string"}}, int(time.time())
    held = {"_tool": "held", "_activity": "held", "properties": {"name": {}, **pad}}
    whole = {"_tool": "whole", "_activity": {"type": "whole", "input": "call"}, "properties": pad}
    helper = {"_tool": "helper", "_delegate": "anonymous", "properties": pad}
    calls = [call(each, name=each, pad="†state.pad") for each in ("held", "whole", "helper")]
    calls.insert(0, call("held", name="first", pad="†state.pad"))

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        return Answer(calls=calls) if turn == 1 and body.get("tools") else Answer("done")

    backend = await open_signed(answer)
    run = await backend.start(
        [held, whole, helper],
        state={"pad": "x" * 880_000},
        principal={"token": ann.principal(scopes=["read", "pay"], exp=now + 600)},
    )
    await ledger_has("started first", "started held")
    renewed = ann.principal(scopes=["read"], jti=run.id, exp=now + 601)
    await run.handle.execute_update("renew", {"token": renewed})
    run_id = (await run.handle.describe()).run_id
    tools.write("open first")
    tools.write("open held")
    await run.result()
    # After the turn, the run continued as new.
    first = Run(run.client.get_workflow_handle(run.id, run_id=run_id), run.client)
    events = [each.activity_task_scheduled_event_attributes for each in await first.history()]
    [scheduled] = [each for each in events if each.activity_id == "t1c3"]
    scoped = json.loads(scheduled.input.payloads[2].data)
    assert scoped["_call"]["principal"]["scopes"] == ["read"]
    started = (await run.delegate("t1c4").history())[0].workflow_execution_started_event_attributes
    assert json.loads(started.input.payloads[0].data)["principal"]["scopes"] == ["read"]


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

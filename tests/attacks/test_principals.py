"""§11: a principal's token, which any reader of histories has, is good for what it is for,
and for nothing else."""

import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from holdfast.activities.check_token import CheckTokenActivity
from holdfast.runtime.identity.key_sets import load_key_sets
from holdfast.schemas.settings.keys import AUDIENCES
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Backend, Launch, Run
from tests.support.identity.signing import NONCE, Approver, write_keys
from tests.support.model_server import Answer, call
from tests.web.auth.test_sign_in_methods import bearer, for_programs
from tests.workflows.commands.test_child_workflows import ASK, agents, by_agent, waits
from tests.workflows.test_continue_as_new import runs_of

ANN = Approver("ann")
DECISION: dict[str, Any] = {"digest": "0" * 64, "nonce": NONCE, "workflowId": "run-1"}


async def test_a_token_is_good_for_one_use(tmp_path: Path) -> None:
    """One set of keys, for all uses, of a worker and an inbox."""
    nowhere = await Client.connect("127.0.0.1:1", lazy=True)
    keys = str(write_keys(tmp_path / "keys.json", ANN))
    sets = load_key_sets(keys, httpx.AsyncClient())
    checker = CheckTokenActivity(sets)
    caught = {"a principal": ANN.principal("ann"), "all": ANN.token(aud=[*AUDIENCES.values()])}
    async with for_programs(nowhere, *sets) as inbox:
        for what, token in caught.items():
            answer = await inbox.http.get("/", headers=bearer(token))
            assert (answer.status_code, "`aud`" in answer.text) == (401, True), what
        assert (await inbox.http.get("/", headers=bearer(ANN.program()))).is_success
    for purpose, good in (("decision", "decisions"), ("principal", "principals")):
        for use, audience in AUDIENCES.items():
            claims = DECISION if purpose == "decision" else {"jti": "run-1"}
            token = ANN.token(sub="ann", aud=audience, **claims)
            check = {"token": token, "nonce": NONCE, "runs": ["run-1"]}
            if use == good:
                await checker.check_token({**check, "purpose": purpose})
                continue
            with pytest.raises(ApplicationError, match="another audience"):
                await checker.check_token({**check, "purpose": purpose})


PAY = {
    "_tool": "pay_out",
    "_activity": "pay",
    "_sideEffects": True,
    "_requires": ["pay"],
    "properties": {"amount": {"type": "number"}},
}
NOT_ASKED = {**PAY, "_approval": {"require": "never"}}
AGENT = {"name": "desk", "instructions": "Pay.", "model": {"endpoint": "fake", "name": "fake"}}


@pytest.fixture
async def strict(launch: Launch, tmp_path: Path) -> Backend:
    """A backend that takes principals by token alone."""
    keys = str(write_keys(tmp_path / "keys.json", ANN))
    return await launch([], keys=keys, principal_tokens=True, **SIDE_BY_SIDE)


def token(**claims: Any) -> str:
    return ANN.principal(**{"scopes": ["pay", "look"], **claims})


async def expired(home: Backend) -> Run:
    """A payment that is approved when the token of its principal has expired. Within the leeway of
    the clocks it does so right after the start."""
    late = {"token": token(exp=time.time() - 1)}
    run = await home.call(PAY, {"amount": 5}, principal=late)
    assert [one["kind"] for one in await run.waiting()] == ["call"]
    await run.decide("t1c1", "approve", by="bob")
    return run


async def renewal(run: Run, token: str) -> str:
    """Why a token does not renew the principal's."""
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await renew(run, token)
    return str(refused.value.cause)


async def renew(run: Run, token: str) -> dict[str, Any]:
    renewed: dict[str, Any] = await run.handle.execute_update("renew", {"token": token})
    return renewed


async def test_a_token_starts_nothing_but_its_own_run(strict: Backend) -> None:
    """A copy of it, out of the history of the run that it was for."""
    caught = {"token": token()}
    run = await strict.call(PAY, {"amount": 5}, principal=caught)
    await run.waiting()
    for kind, request in (
        ("CallWorkflow", {"tool": NOT_ASKED, "arguments": {"amount": 6}}),
        ("AgentWorkflow", {"agent": AGENT, "input": "go"}),
    ):
        for id_ in (f"{run.id}-2", f"{run.id}.t1c1", run.id.upper()):
            handle = await strict.client.start_workflow(
                kind, {**request, "principal": caught}, id=id_, task_queue=strict.task_queue
            )
            assert "its workflow id as `jti`" in (await Run(handle).failure()).message
    assert tools.read() == []


async def test_who_is_no_longer_known_pays_nothing_until_they_are_again(strict: Backend) -> None:
    run = await expired(strict)

    [waiting] = await run.waiting()
    assert (waiting["kind"], waiting["callId"]) == ("principal_expired", "t1c1")
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await run.decide("t1c1", "approve", by="bob", digest=waiting["digest"])
    assert "send the update `renew`" in str(refused.value.cause)
    for wrong, why in {
        token(jti=run.id, sub="eve"): "another principal",
        token(jti=f"{run.id}x"): "its workflow id as `jti`",
        token(jti=run.id, exp=time.time() - 5): "expires no later",
        Approver("ann").principal(jti=run.id): "signature is wrong",
        ANN.program("ada", jti=run.id): "another audience",
        "x": "no JWT",
    }.items():
        assert why in await renewal(run, wrong)
    assert tools.read() == []
    assert (await renew(run, token(jti=run.id)))["id"] == "ada"
    assert (await run.result())["output"] == {"paid": 5}
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]


async def test_a_renewed_token_is_good_after_the_run_continues_as_new(
    launch: Launch, tmp_path: Path
) -> None:
    keys = str(write_keys(tmp_path / "keys.json", ANN))
    pays = [Answer(calls=[call("pay_out", amount=each)]) for each in (1, 2)]
    home = await launch(
        [*pays, Answer("paid")], keys=keys, principal_tokens=True, continue_after=10, **SIDE_BY_SIDE
    )
    run = await home.start([NOT_ASKED], principal={"token": token(exp=time.time() - 1)})
    await run.waiting()
    await renew(run, token(jti=run.id, scopes=["pay"]))
    await run.result()

    assert len(await runs_of(run)) > 1
    asked = [one for one in await run.context() if one["type"] == "confirmation_required"]
    assert [one["callId"] for one in asked] == ["t1c1"]
    assert tools.read() == [f"pay {each} {run.id}/t{each}c1" for each in (1, 2)]


async def test_a_delegate_waits_for_a_token_that_is_for_it_or_its_root(
    launch: Launch, tmp_path: Path
) -> None:
    """One for a run in between, or for a sibling, is for another."""
    catalog = agents(tmp_path / "catalog", helper={"tools": [NOT_ASKED]})
    asks = [Answer(calls=[call("ask", task="Pay 5.")]), Answer("done")]
    pays = [Answer(calls=[call("pay_out", amount=5)]), Answer("paid")]
    keys = str(write_keys(tmp_path / "keys.json", ANN))
    said = by_agent(Test=asks, helper=pays)
    home = await launch(said, catalog=catalog, keys=keys, principal_tokens=True, **SIDE_BY_SIDE)
    late = {"token": token(exp=time.time() - 1)}
    run = await home.start([ASK], principal=late)
    child = run.delegate("t1c1")
    assert [one["kind"] for one in await waits(child)] == ["principal_expired"]

    for other in (f"{run.id}.t1c2", f"{child.id}.t1c1"):
        assert "its workflow id as `jti`" in await renewal(child, token(jti=other))
    assert "its workflow id as `jti`" in await renewal(run, token(jti=child.id))
    assert (await renew(run, token(jti=run.id)))["id"] == "ada"
    assert [one["kind"] for one in await child.waiting()] == ["principal_expired"]
    assert (await renew(child, token(jti=run.id)))["id"] == "ada"
    await run.result()
    assert tools.read() == [f"pay 5 {child.id}/t1c1"]

"""§7: a decision counts once, on the one call that it was given on."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.service import RPCError

from holdfast.schemas.base import canonical_json, sha256
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Backend, Launch, Run
from tests.support.eventually import eventually
from tests.support.identity.signing import SIGNED_PAY, Approver, write_keys
from tests.support.model_server import Answer, call

ANN = Approver("ann")


@pytest.fixture
async def paid_once(launch: Launch, tmp_path: Path) -> tuple[Backend, Run, str]:
    """A call that was paid by one signal, and the token in its history. Without an `iat`, no clock
    keeps it from a later run."""
    keys = write_keys(tmp_path / "keys.json", ANN)
    backend = await launch([], keys=str(keys), **SIDE_BY_SIDE)
    run = await backend.call(SIGNED_PAY, {"amount": 5})
    [waiting] = await run.waiting()
    caught = ANN.on(run.id, waiting)
    await run.signal("t1c1", "approve", token=caught)
    await run.result()
    return backend, run, caught


async def ignored(run: Run) -> list[str]:
    """Why decisions were rejected, as soon as one was; the call is still pending."""

    async def noted() -> list[str]:
        with suppress(RPCError):  # a reset run is not there yet
            return [entry["ignored"] for entry in await run.context() if "ignored" in entry]
        return []

    found = await eventually(noted)
    await run.waiting()
    return found


async def test_a_token_is_good_for_no_second_run_of_the_same_id(
    paid_once: tuple[Backend, Run, str],
) -> None:
    backend, run, caught = paid_once
    said = {"callId": "t1c1", "decision": "approve", "token": caught}
    handle = await backend.client.start_workflow(
        "CallWorkflow",
        {"tool": SIGNED_PAY, "arguments": {"amount": 5}},
        id=run.id,
        task_queue=backend.task_queue,
        start_signal="approve",
        start_signal_args=[said],
    )
    again = Run(handle)

    assert "another execution of the run (`nonce`)" in (await ignored(again))[0]
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]
    [waiting] = await again.waiting()
    assert (await again.decide("t1c1", "approve", token=ANN.on(run.id, waiting)))["decided"]
    await again.result()


async def test_a_token_that_is_sent_again_after_a_reset_is_rejected(
    paid_once: tuple[Backend, Run, str],
) -> None:
    """Temporal itself sends it again. After what was decided before the point of the reset, the
    replay continues as it did."""
    _, run, _ = paid_once
    again = await run.reset(0)

    assert "another execution of the run (`nonce`)" in (await ignored(again))[0]
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]


async def test_a_token_that_counted_before_a_reset_still_does(
    paid_once: tuple[Backend, Run, str],
) -> None:
    _, run, _ = paid_once
    again = await run.reset(-1)

    assert (await again.result())["output"] == {"paid": 5}
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]


async def attempts(run: Run, count: int) -> dict[str, Any]:
    """The question on a call, once so many of its attempts have an unknown outcome."""

    async def asked() -> dict[str, Any] | None:
        with suppress(RPCError):  # a reset run is not there yet
            [waiting] = await run.waiting()
            return waiting if len(waiting["attempts"]) == count else None
        return None

    return await eventually(asked)


async def test_a_call_runs_again_with_the_digest_and_nonce_of_its_attempt_and_execution_alone(
    launch: Launch,
) -> None:
    """By update and by signal; also where a signal is replayed, or sent again by Temporal."""
    backend = await launch([Answer(calls=[call("unsure")]), Answer("done")], **SIDE_BY_SIDE)
    run = await backend.start(["unsure"])
    asked = await attempts(run, 1)
    digest, nonce = asked["digest"], asked["nonce"]
    foreign = sha256(canonical_json(["another execution", "t1c1", 1]))
    halves: list[dict[str, Any]] = [
        {},
        {"digest": digest},
        {"nonce": nonce},
        {"digest": digest, "nonce": foreign},
    ]
    for half in halves:
        with pytest.raises(WorkflowUpdateFailedError):
            await run.decide("t1c1", "did_not_happen", **half)
        await run.signal("t1c1", "did_not_happen", **half)

    async def are_ignored() -> bool:
        return len(await ignored(run)) == len(halves)

    await eventually(are_ignored)
    assert tools.read() == ["unsure"]

    await run.signal("t1c1", "did_not_happen", digest=digest, nonce=nonce)
    asked = await attempts(run, 2)
    assert not {digest, nonce} & {asked["digest"], asked["nonce"]}
    for send in (run.decide, run.signal):
        with suppress(WorkflowUpdateFailedError):
            await send("t1c1", "did_not_happen", digest=asked["digest"], nonce=nonce)
    await run.run_again()
    await attempts(run, 3)

    again = await run.reset(-1)  # the replay continues as it did
    asked = await attempts(again, 3)
    assert asked["nonce"] != sha256(canonical_json([run.handle.result_run_id, "t1c1", 3]))
    assert tools.read() == ["unsure"] * 3
    await again.decide("t1c1", "give_up")
    await again.result()

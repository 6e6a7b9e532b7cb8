"""`holdfast evidence` and `holdfast verify`: what happened in a run, shown to a third person."""

import json
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError

from holdfast.client.records.evidence_file import write_lines
from holdfast.client.signing import Signer
from holdfast.schemas.decision import digest_of
from tests.cli.conftest import Holdfast
from tests.support.backend import Launch
from tests.support.eventually import eventually
from tests.support.identity.signing import BOB, SIGNED_PAY, Approver, write_keys
from tests.support.model_server import MANY, Answer, call

PAYS = Answer(calls=[*(call("pay", amount=n) for n in (1, 2, 3)), call("pay_out", amount=4)])
LOOKS = [Answer(calls=[call("look_up", id=1)])] * 6


async def test_an_execution_that_retention_has_removed_is_missed(
    launch: Launch, holdfast: Holdfast, tmp_path: Path
) -> None:
    backend = await launch([*LOOKS, Answer("done")], continue_after=20)
    run = await backend.start(["look_up"], agent=MANY)
    await run.result()
    client, first = backend.client, str(run.handle.first_execution_run_id)
    request = DeleteWorkflowExecutionRequest(
        namespace=client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=run.id, run_id=first),
    )
    await client.workflow_service.delete_workflow_execution(request)

    async def is_deleted() -> bool:
        try:
            await client.get_workflow_handle(run.id, run_id=first).describe()
        except RPCError:
            return True
        return False

    await eventually(is_deleted)
    file = tmp_path / "rest.jsonl"
    assert (await holdfast("evidence", run.id, "--out", str(file))).code == 0
    said = await holdfast("verify", str(file))
    assert f"run {run.id} of tester, completed, in part: the rest was deleted before" in said.out


async def test_a_call_of_its_own_is_shown_too_and_that_its_evidence_is_not_signed(
    launch: Launch, holdfast: Holdfast, tmp_path: Path
) -> None:
    run = await (await launch([])).call("look_up", {"id": 1})
    await run.result()
    file = str(tmp_path / "call.jsonl")
    assert (await holdfast("evidence", run.id, "--out", file)).code == 0
    assert json.loads(Path(file).read_text().splitlines()[1])["record"]["type"] == "tool"
    said = await holdfast("verify", file)
    assert said.code == 1
    assert "and not signed: anyone may have written them; sign with evidence --key" in said.err


async def test_signatures_of_several_people_are_proven_also_after_a_reset(
    launch: Launch, holdfast: Holdfast, tmp_path: Path
) -> None:
    """Bob edits, and Ann is shown the edit; the reset keeps both decisions."""
    bob, ann, keys = Approver(), Approver("key-2"), tmp_path / "keys.json"
    backend = await launch(
        [Answer(calls=[call("pay_out", amount=4)]), Answer("done")],
        keys=str(write_keys(keys, bob, ann)),
    )
    two = {"_approval": {"signed": True, "quorum": 2}}
    run = await backend.start([{**SIGNED_PAY, **two}], agent=MANY)
    [waiting] = await run.waiting()
    edited = digest_of("pay_out", {"amount": 20}, "call", 1)
    token = bob.on(run.id, {**waiting, "digest": edited}, "bob", decision="edit")
    await run.decide("t1c1", "edit", token=token, arguments={"amount": 20})
    [waiting] = await run.waiting()
    await run.decide("t1c1", "approve", token=ann.on(run.id, waiting, decision="approve"))
    await run.result()
    await (await run.reset(-1)).result()

    file = str(tmp_path / "reset.jsonl")
    assert (await holdfast("evidence", run.id, "--out", file)).code == 0
    said = await holdfast("verify", file, "--keys", str(keys))
    assert [line.partition(" ")[2] for line in said.out.splitlines()[1:]] == [
        "t1c1 pay_out: approved with changes by bob (signed); shown, not signed: amount=4;"
        ' arguments: {"amount": 20}',
        "t1c1 pay_out: approved by ann (signed); shown: amount=20",
    ]
    assert (said.code, "not signed: anyone may have written them" in said.err) == (1, True)


async def test_the_operator_cannot_sign_for_a_person(holdfast: Holdfast, tmp_path: Path) -> None:
    keys, file, at = tmp_path / "keys.json", tmp_path / "forged.jsonl", "2026-01-02T03:04:05.678Z"
    keys.write_text(json.dumps({"keys": [BOB.jwk()]}))
    decided = {"decision": "approve", "by": "ann", "at": at, "digest": "d", "signed": True}
    entry = {"at": at, "n": 1, "type": "decision", "callId": "t1c1", "decided": decided}
    header: dict[str, Any] = {"type": "header", "version": 1, "run": "r"}
    records = [header, {"type": "log", "entry": entry}]
    file.write_bytes(b"".join(write_lines(records, "r", Signer(BOB.private))))
    said = await holdfast("verify", str(file), "--keys", str(keys))
    assert (said.code, "(signed)" in said.out) == (1, False)
    assert "t1c1: approved by ann (unverified); NOT PROVEN: the log has it as signed" in said.out
    assert "and decisions that are NOT PROVEN above: 1; ask the approvers" in said.err


async def test_a_file_of_other_values_is_no_evidence_and_no_error(
    holdfast: Holdfast, tmp_path: Path
) -> None:
    public, file = tmp_path / "public.json", tmp_path / "odd.jsonl"
    public.write_text(json.dumps({"keys": [BOB.jwk()]}))
    header = {"type": "header", "version": 1, "run": ["order"]}
    sent = {"type": "sent", "decision": {"callId": 7, "token": "\ud800"}}
    file.write_bytes(b"".join(write_lines([header, {"entry": 5}, {"entry": {}}, sent], "", None)))
    said = await holdfast("verify", str(file), "--keys", str(public))
    assert (said.code, said.err.partition(",")[0]) == (1, "holdfast: 5 lines")
    first = "run \"['order']\" of None, None, in part: the rest was deleted before"
    assert said.out.startswith(first)
    file.write_bytes(b"".join(write_lines([{**header, "version": 2}], "", None)))
    said = await holdfast("verify", str(file))
    assert (said.code, "line 1: it is no header of version 1; rely on no" in said.err) == (2, True)

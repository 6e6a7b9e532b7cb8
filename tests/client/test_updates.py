"""Updates whose answer is lost, and updates that are sent again."""

from pathlib import Path
from typing import Any

import pytest
from temporalio.client import (
    Client,
    Interceptor,
    OutboundInterceptor,
    StartWorkflowUpdateInput,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)

from holdfast.client.errors import (
    UNREACHABLE,
    DecisionRejectedError,
    NoWorkerError,
    UnansweredUpdateError,
)
from holdfast.client.run import Run
from holdfast.schemas.decision import Decision
from tests.support import tools
from tests.support.backend import Launch
from tests.support.backend import Run as BackendRun
from tests.support.eventually import eventually
from tests.support.identity.signing import SIGNED_PAY, Approver, write_keys
from tests.support.model_server import Answer, call

APPROVES = Decision(call_id="t1c1", decision="approve", by="ada")
MARKER = "marker_recorded_event_attributes"
QUESTION = [("nonce", "digest")]


class LostAnswers(Interceptor):
    """Loses the answers to updates that the server has received."""

    def __init__(self) -> None:
        self.sent: list[str | None] = []

    def intercept_client(self, next_: OutboundInterceptor) -> OutboundInterceptor:
        sent = self.sent

        class Updates(OutboundInterceptor):
            async def start_workflow_update(self, input: StartWorkflowUpdateInput) -> Any:
                sent.append(input.update_id)
                await super().start_workflow_update(input)
                raise WorkflowUpdateRPCTimeoutOrCancelledError

        return Updates(next_)


def losing(client: Client, run_id: str) -> tuple[Run, LostAnswers]:
    """A run, by a client that loses the answers to its updates."""
    lost = LostAnswers()
    return Run(Client(**(client.config() | {"interceptors": [lost]})), run_id), lost


async def test_a_decision_whose_answer_is_lost_counts_once_when_it_is_repeated(
    client: Client, launch: Launch
) -> None:
    made = await launch([Answer(calls=[call("pay", amount=5)]), Answer("paid")])
    run = await made.start(["pay"])
    await run.waiting()
    remote, lost = losing(client, run.id)
    with pytest.raises(UnansweredUpdateError) as unanswered:
        await remote.decide(APPROVES)
    [id] = lost.sent
    line = f"sent, may still count: run {run.id} has not answered update {id}; repeat it with"
    assert unanswered.value.line() == f"holdfast: {line} --update-id {id}: it counts once"
    assert unanswered.value.exit_code == UNREACHABLE
    again = await Run(client, run.id).decide(APPROVES, update_id=id)
    assert (again.decision, again.decided) == ("approve", True)
    assert (await run.result())["output"] == "paid"
    assert len(tools.read()) == 1


async def test_a_message_whose_answer_is_lost_is_read_once_when_it_is_repeated(
    client: Client, launch: Launch
) -> None:
    made = await launch([Answer("one"), Answer("two"), Answer("three")])
    run = await made.start([], conversation=True)
    remote, lost = losing(client, run.id)

    async def is_idle() -> bool:
        return bool((await run.status())["status"] == "awaiting_message")

    await eventually(is_idle)
    with pytest.raises(UnansweredUpdateError):
        await remote.send("and two?")
    [id] = lost.sent
    assert await Run(client, run.id).send("and two?", update_id=str(id)) == "two"
    said = [one["message"]["content"] for one in await run.context() if "message" in one]
    assert said.count("and two?") == 1


async def test_without_a_worker_nothing_is_sent(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.remote_run.NO_WORKER_SECONDS", 0.3)
    id = "no-worker-for-updates"
    await client.start_workflow("AgentWorkflow", {}, id=id, task_queue="no-worker-at-all")
    remote, lost = losing(client, id)
    for sending in (remote.decide(APPROVES), remote.send("hello"), remote.withdraw(1)):
        with pytest.raises(NoWorkerError):
            await sending
    assert lost.sent == []


def test_an_id_is_that_of_one_persons_decision_on_one_question() -> None:
    ann, id = Approver(), APPROVES.update_id("run-1", QUESTION)
    others = [
        APPROVES.model_copy(update={"by": "bob"}),
        APPROVES.model_copy(update={"decision": "deny"}),
        APPROVES.model_copy(update={"reason": "why"}),
        APPROVES.model_copy(update={"remember": True}),
        Decision(call_id="t1c1", decision="edit", by="ada", arguments={"amount": 1}),
        Decision(call_id="t1c1", decision="respond", by="ada", result=None),
        Decision(call_id="t1c1", decision="respond", by="ada", result=0),
    ]
    ids = {each.update_id("run-1", QUESTION) for each in others}
    ids |= {APPROVES.update_id("run-2", QUESTION), APPROVES.update_id("run-1", [("n", "digest")])}
    assert len({id, *ids}) == len(others) + 3
    assert APPROVES.model_copy(update={"groups": ["x"]}).update_id("run-1", QUESTION) == id
    signed = [
        APPROVES.model_copy(update={"by": None, "token": ann.token(sub=sub, exp=exp)})
        for sub, exp in (("ann", 1), ("ann", 2), ("bob", 1))
    ]
    first, later, other = (each.update_id("run-1", QUESTION) for each in signed)
    assert first == later != other


async def test_a_wrong_token_blocks_no_right_one_of_the_same_decision(
    client: Client, launch: Launch, tmp_path: Path
) -> None:
    ann, answers = Approver(), [Answer(calls=[call("pay_out", amount=5)]), Answer("paid")]
    made = await launch(answers, keys=str(write_keys(tmp_path / "keys.json", ann)))

    async def signed(*signers: Approver) -> tuple[BackendRun, list[Decision]]:
        run = await made.start([{**SIGNED_PAY, "_approval": {"signed": True, "quorum": 2}}])
        [waiting] = await run.waiting()
        tokens = [one.on(run.id, waiting) for one in signers]
        return run, [Decision(call_id="t1c1", decision="approve", token=one) for one in tokens]

    run, [first, again] = await signed(ann, ann)
    receipts = [await Run(client, run.id).decide(one) for one in (first, again)]
    assert [one.missing for one in receipts] == [1, 1], "it counts once, and is answered twice"
    await run.handle.cancel()
    # The forged one has the public claims of a decision that Ann has not made yet.
    run, [forged, right] = await signed(Approver(), ann)
    for _ in range(2):
        with pytest.raises(DecisionRejectedError, match="signature is wrong"):
            await Run(client, run.id).decide(forged)
    assert (await Run(client, run.id).decide(right)).missing == 1
    markers = [one for one in await run.history() if one.HasField(MARKER)]
    assert len(markers) == 4, "the agent, the forged token with either id, and the right one"

"""A program that starts runs, decides in them, and reads their results in its own types."""

import json
import uuid
from pathlib import Path
from typing import Any, assert_type

import pytest
from pydantic import BaseModel

from holdfast import (
    Agent,
    DecisionRejectedError,
    HoldfastClient,
    HoldfastError,
    PendingCall,
    Run,
    RunFailedError,
    RunFilter,
)
from holdfast.client.start import RunExistsError, StartRequest
from holdfast.schemas import names
from holdfast.schemas.log_entry import DoneEntry, ErrorEntry
from holdfast.schemas.run import RunRequest
from tests.support.backend import SIDE_BY_SIDE, Backend, Launch
from tests.support.eventually import eventually
from tests.support.identity.signing import Approver, write_keys
from tests.support.model_server import Answer, call

PAY = {"_tool": "pay", "_sideEffects": True, "properties": {"amount": {"type": "number"}}}
NAMED = Agent("clerk", model="fake:fake", tools=["pay"])


class RefundOutput(BaseModel):
    """What the agent of these tests returns."""

    amount: float
    reasons: frozenset[str] = frozenset()


def agent(*tools: Any, **more: Any) -> dict[str, Any]:
    model = {"endpoint": "fake", "name": "fake"}
    return {"name": "tester", "instructions": "Test.", "model": model, "tools": [*tools], **more}


def agents_of(backend: Backend) -> HoldfastClient:
    return HoldfastClient(backend.client, backend.task_queue)


def new_id() -> str:
    return f"order-{uuid.uuid4().hex[:8]}"


async def test_a_start_with_an_id_in_use_returns_that_run_open_or_ended(launch: Launch) -> None:
    agents, id = agents_of(await launch([Answer("Done.")])), new_id()
    first = await agents.start(agent(), "go", id=id)
    assert (await agents.start(agent(), "another", id=id)).id == id
    assert await first.result() == "Done."
    again = await agents.start(agent(), "go", id=id, output=str)
    assert await again.result() == "Done."

    request = {"agent": "clerk", "input": "go"}
    new = StartRequest.of(RunRequest.model_validate(request), request)
    with pytest.raises(RunExistsError, match=f"there is a run with the id {id}"):
        await agents.start_request(new, id)
    with pytest.raises(HoldfastError, match="that is no run: `skill`"):
        await agents.start("clerk", "go", skill=7)  # type: ignore[call-overload]
    with pytest.raises(HoldfastError, match="there is nothing to do; write the task as `input`"):
        await agents.start("clerk")


async def written_attributes(agents: HoldfastClient, run: Run[Any]) -> list[dict[str, Any]]:
    """Return the search attributes of the start request, then each change of them by the run."""
    found = []
    async for event in agents.temporal.get_workflow_handle(run.id).fetch_history_events():
        started = event.workflow_execution_started_event_attributes
        changed = event.upsert_workflow_search_attributes_event_attributes
        for attributes in (started.search_attributes, changed.search_attributes):
            fields = attributes.indexed_fields.items()
            if fields:
                found.append({name: json.loads(each.data or "null") for name, each in fields})
    return found


async def test_a_start_has_the_search_attributes_that_its_run_would_write_first(
    launch: Launch,
) -> None:
    agents = agents_of(await launch([Answer("Done.")]))
    run = await agents.start(agent(), "go", principal={"id": "ann"})
    assert await run.result() == "Done."
    first = {"AgentName": "tester", "AgentPrincipal": "ann", "AgentStatus": "running"}
    assert await written_attributes(agents, run) == [first, {"AgentStatus": "completed"}]


async def test_a_refused_run_keeps_no_principal_that_was_not_verified(
    launch: Launch, tmp_path: Path
) -> None:
    keys = str(write_keys(tmp_path / "keys.json", Approver("ann")))
    agents = agents_of(await launch([], keys=keys, principal_tokens=True))
    run = await agents.start(agent(), "go", principal={"id": "ann"})
    with pytest.raises(RunFailedError):
        await run.result()
    [first, last] = await written_attributes(agents, run)
    assert first["AgentPrincipal"] == "ann"
    assert last == {"AgentStatus": "failed", "AgentPrincipal": None}


async def test_without_the_search_attributes_a_run_starts_all_the_same(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = agents_of(await launch([Answer("Done.")]))
    monkeypatch.setattr(names, "AGENT_NAME", "NobodyKnowsThis")
    for _ in range(2):
        run = await agents.start(agent(), "go")
        assert await run.result() == "Done."
        [started, *_] = await written_attributes(agents, run)
        assert started == {"AgentStatus": "running"}


async def test_a_result_has_the_type_that_the_program_names(launch: Launch) -> None:
    backend = await launch([Answer('{"amount": 20, "reasons": ["broken"]}')])
    schema = {"type": "object", "properties": {"amount": {"type": "number"}}}
    run = await agents_of(backend).start(agent(output=schema), "go", output=RefundOutput)
    assert await run.result() == RefundOutput(amount=20, reasons=frozenset({"broken"}))
    same = agents_of(backend).run(run.id)
    assert await same.result() == {"amount": 20, "reasons": ["broken"]}
    with pytest.raises(RunFailedError, match=r"its output does not fit: .*list") as error:
        await agents_of(backend).run(run.id, list[str]).result()
    assert error.value.code == "invalid_output"


async def test_a_run_of_an_agent_in_python_is_that_of_the_workers_catalog(launch: Launch) -> None:
    run = await agents_of(await launch([Answer("Filed.")])).start(NAMED, {"order": 7})
    assert_type(await run.result(), str)
    assert await run.result() == "Filed."
    assert (await run.status()).status == "completed"


async def test_events_and_tokens_are_followed_to_the_end(launch: Launch) -> None:
    agents = agents_of(await launch([Answer("I echo.", [call("echo", text="a")]), Answer("Done.")]))
    run = await agents.start(agent("echo"), "go")
    events = [record async for record in run.events()]
    assert [event.entry.type for event in events] == [
        *("turn_start", "tool_call", "tool_start", "tool_end", "turn_end"),
        *("turn_start", "turn_end", "done"),
    ]
    assert events[-1].entry == DoneEntry(status="completed", output="Done.")
    assert [one.n async for one in run.events(events[-2].n)] == [events[-1].n]
    texts = [(part.turn, part.text) async for part in run.tokens()]
    assert "".join(text for turn, text in texts if turn == 2) == "Done."


async def test_pending_calls_of_all_runs_are_decided_as_they_were_fetched(launch: Launch) -> None:
    answers = [Answer("", [call("pay", amount=1)]), Answer("Paid.")]
    agents, prefix = agents_of(await launch(answers, **SIDE_BY_SIDE)), new_id()
    runs = [await agents.start(agent("pay"), "go", id=f"{prefix}-{n}") for n in range(2)]
    where = RunFilter(id_prefix=prefix, status="awaiting_approval")

    async def all_listed() -> bool:
        return await agents.count_runs(where) == 2

    await eventually(all_listed)
    found = {call.run_id: call async for call in agents.approvals(where)}
    assert {*found} == {run.id for run in runs}
    first, second = (found[run.id] for run in runs)
    assert (await first.approve(by="ada")).decided
    assert (await second.edit({"amount": 9}, by="ada", reason="It costs 9.")).decision == "edit"
    assert [await run.result() for run in runs] == ["Paid.", "Paid."]
    with pytest.raises(HoldfastError, match="has ended"):
        await first.deny(by="ben")


async def test_each_pending_call_is_yielded_once_until_the_run_has_ended(launch: Launch) -> None:
    calls = [call("pay", amount=1), call("pay", amount=2)]
    agents = agents_of(await launch([Answer("", calls), Answer("", calls[:1]), Answer("Paid.")]))
    run = await agents.start(agent("pay"), "go")
    decided = []
    async for pending in run.approval_requests():
        decided.append(pending.call_id)
        await pending.approve(by="ada")
    assert decided == ["t1c1", "t1c2", "t2c1"]
    assert await run.result() == "Paid."


async def test_a_call_that_an_edit_brings_under_another_rule_is_yielded_again(
    launch: Launch,
) -> None:
    small = {"properties": {"amount": {"maximum": 100}}}
    rules = [{"when": small, "approvers": ["support"]}, {"approvers": ["finance"]}]
    agents = agents_of(await launch([Answer("", [call("pay", amount=1)]), Answer("Paid.")]))
    run = await agents.start(agent({**PAY, "_approval": rules}), "go")
    amounts = []
    async for pending in run.approval_requests():
        amounts.append(pending.arguments["amount"])
        if len(amounts) < 3:
            edited = {"amount": 1 if len(amounts) == 2 else 200}
            await pending.edit(edited, by="ada", groups=pending.approvers)
        else:
            await pending.approve(by="bob", groups=pending.approvers)
    assert amounts == [1, 200, 1]
    assert await run.result() == "Paid."


async def test_a_decision_on_a_call_that_has_changed_is_rejected(launch: Launch) -> None:
    two = {"approvers": ["finance"], "quorum": 2}
    agents = agents_of(await launch([Answer("", [call("pay", amount=1)]), Answer("Paid.")]))
    run = await agents.start(agent("pay", approval=two), "go")
    before = await pending(run)
    receipt = await before.edit({"amount": 2}, by="ada", groups=["finance"])
    assert (receipt.decided, receipt.missing) == (False, 1)
    with pytest.raises(DecisionRejectedError, match="read it again") as rejected:
        await before.approve(by="ben", groups=["finance"])
    assert rejected.value.code == names.INVALID_DECISION
    now = await pending(run)
    assert now.arguments == {"amount": 2}
    with pytest.raises(HoldfastError, match="that is no decision: `reason`"):
        await now.deny(by="ben", reason="x" * 20_000)
    assert (await now.approve(by="ben", groups=["finance"])).decided
    assert await run.result() == "Paid."


async def pending(run: Run[Any]) -> PendingCall:
    async def waits() -> list[PendingCall]:
        return await run.approvals()

    [call] = await eventually(waits)
    return call


async def test_a_run_without_its_result_raises_why(launch: Launch) -> None:
    backend = await launch([Answer(status=400, body={"error": {"message": "no such model"}})])
    failed = await agents_of(backend).start(agent(), "go")
    with pytest.raises(RunFailedError, match=r"ended as failed: model_error: .*no such") as error:
        await failed.result()
    assert (error.value.code, error.value.exit_code) == (names.MODEL_ERROR, 1)

    waiting = await launch([Answer("", [call("pay", amount=1)])], **SIDE_BY_SIDE)
    cancelled, terminated = [await agents_of(waiting).start(agent("pay"), "go") for _ in range(2)]
    await pending(cancelled)
    await cancelled.cancel()
    with pytest.raises(RunFailedError, match="ended as cancelled"):
        await cancelled.result()
    await pending(terminated)
    await waiting.client.get_workflow_handle(terminated.id).terminate(reason="enough")
    with pytest.raises(RunFailedError, match="ended as terminated: enough"):
        await terminated.result()
    *_, last = [record async for record in terminated.events()]
    assert (last.n, last.entry) == (0, ErrorEntry(code="terminated", message="enough"))
    with pytest.raises(HoldfastError, match="there is no run nothing"):
        await agents_of(waiting).run("nothing").status()

"""Delegates as child workflows."""

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import CancelledError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from holdfast.activities.resolve import DefinitionResolver
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Backend, Launch, Run, ledger_has
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call

ASK: dict[str, Any] = {
    "_tool": "ask",
    "description": "Have the helper do it.",
    "properties": {"task": {"type": "string"}},
    "required": ["task"],
    "_delegate": "helper",
}
ONCE = {"_sideEffects": True, "_approval": {"require": "never"}}
ASKS = Answer(calls=[call("ask", task="help")])


def agents(folder: Path, **instructions: dict[str, Any]) -> Path:
    """A catalog with these agents; each one's instructions are its name."""
    (folder / "agents").mkdir(parents=True)
    for name, more in instructions.items():
        agent = {"model": {"endpoint": "fake", "name": "fake"}, "instructions": name, **more}
        (folder / f"agents/{name}.json").write_text(json.dumps(agent))
    return folder


def by_agent(**answers: Any) -> Any:
    """Answers for each agent, turn by turn; `Test` are those of the run that a test starts.

    A function chooses an agent's by itself.
    """

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        system = body["messages"][0]["content"]
        found = next(each for name, each in answers.items() if system.startswith(name))
        chosen: Answer = found(turn, body) if callable(found) else found[min(turn, len(found)) - 1]
        return chosen

    return answer


@pytest.fixture
async def family(launch: Launch, tmp_path: Path) -> Any:
    """Open a backend with these answers, by agent, and these agents."""

    async def open_(answers: dict[str, list[Answer]], **more: dict[str, Any]) -> Backend:
        catalog = agents(tmp_path / "catalog", **{"helper": {}, **more})
        return await launch(by_agent(**answers), catalog=catalog, **SIDE_BY_SIDE)

    return open_


async def waits(run: Run) -> list[dict[str, Any]]:
    """The pending approvals of a run that may not have started yet, once there are some."""

    async def has_started() -> bool:
        try:
            await run.handle.describe()
        except RPCError:
            return False
        return True

    await eventually(has_started)
    return await run.waiting()


async def ends(run: Run, status: WorkflowExecutionStatus) -> None:
    """Wait until a workflow is over, in this way."""

    async def over() -> bool:
        return (await run.handle.describe()).status is not WorkflowExecutionStatus.RUNNING

    await eventually(over)
    assert (await run.handle.describe()).status is status


async def test_a_call_in_a_delegate_of_a_delegate_is_shown_above_and_decided_where_it_waits(
    family: Any,
) -> None:
    home = await family(
        {
            "Test": [ASKS, Answer("thanks")],
            "helper": [Answer(calls=[call("ask", task="pay")]), Answer("I did")],
            "payer": [Answer(calls=[call("pay", amount=5)]), Answer("paid")],
        },
        helper={"tools": [{**ASK, "_delegate": "payer"}]},
        payer={"tools": ["pay"]},
    )
    run = await home.start([ASK])
    payer = run.delegate("t1c1").delegate("t1c1")
    await waits(payer)

    async def shown() -> Any:
        return [one for one in (await run.status())["delegates"] if one["pending"]]

    [delegate] = await eventually(shown)
    assert delegate == {
        "callId": "t1c1",
        "tool": "ask",
        "agent": "helper",
        "workflowId": f"{run.id}.t1c1",
        "status": "awaiting_approval",
        "pending": [
            {
                "workflowId": payer.id,
                "callId": "t1c1",
                "kind": "call",
                "tool": "pay",
                "label": "Pay",
                "arguments": "amount=5",
            }
        ],
    }
    assert await run.handle.query("approvals") == []
    page = await run.handle.query("__temporal_workflow_metadata")
    assert f"holdfast decide {payer.id} t1c1 approve" in str(page)

    await payer.decide("t1c1", "approve", by="ada")
    assert (await run.result())["output"] == "thanks"
    assert tools.read() == [f"pay 5 {payer.id}/t1c1"]
    assert (await run.status())["delegates"] == []


async def test_the_parents_clock_stands_while_its_delegate_waits_for_a_person(family: Any) -> None:
    home = await family(
        {
            "Test": [ASKS, Answer("thanks")],
            "helper": [Answer(calls=[call("pay", amount=5)]), Answer("paid")],
        },
        helper={"tools": ["pay"]},
    )
    run = await home.start([ASK], budget={"maxDuration": "60s"})
    await waits(run.delegate("t1c1"))

    async def stands() -> bool:
        kinds = [event.event_type for event in await run.history()]
        timers = (EventType.EVENT_TYPE_TIMER_STARTED, EventType.EVENT_TYPE_TIMER_CANCELED)
        return [kinds.count(kind) for kind in timers] == [2, 2]

    await eventually(stands)
    await run.delegate("t1c1").decide("t1c1", "approve")
    assert (await run.result())["output"] == "thanks"


async def test_cancelling_a_run_cancels_its_delegate(family: Any) -> None:
    home = await family(
        {"Test": [ASKS], "helper": [Answer(calls=[call("pay", amount=5)])]},
        helper={"tools": ["pay"]},
    )
    run = await home.start([ASK])
    await waits(run.delegate("t1c1"))
    await run.handle.cancel()
    with pytest.raises(WorkflowFailureError) as failed:
        await run.handle.result()

    assert isinstance(failed.value.cause, CancelledError)
    await ends(run.delegate("t1c1"), WorkflowExecutionStatus.CANCELED)
    assert (await run.error())["code"] == "cancelled"
    assert tools.read() == []


async def test_a_delegate_that_is_cancelled_alone_has_failed(family: Any) -> None:
    home = await family(
        {"Test": [ASKS, Answer("so be it")], "helper": [Answer(calls=[call("pay", amount=5)])]},
        helper={"tools": ["pay"]},
    )
    run = await home.start([ASK])
    await waits(run.delegate("t1c1"))
    await run.delegate("t1c1").handle.cancel()

    assert (await run.result())["output"] == "so be it"
    assert await run.error() == {"code": "delegate_failed", "message": "`ask` was cancelled"}


async def test_of_a_delegate_cancelled_in_a_payment_the_outcome_is_unknown_above(
    family: Any,
) -> None:
    pays = Answer(calls=[call("held_payment", name="rent")])
    home = await family(
        {"Test": [ASKS, Answer("so be it")], "helper": [pays]},
        helper={"tools": ["held_payment"]},
    )
    run = await home.start([ASK])
    await ledger_has()
    await run.delegate("t1c1").handle.cancel()
    assert (await run.result())["output"] == "so be it"
    tools.write("open rent")
    below = await run.delegate("t1c1").error()
    above = await run.error()
    assert below["code"] == above["code"] == "outcome_unknown"
    assert "whether `held_payment` took effect is unknown" in above["message"]


async def test_delegates_whose_files_were_deleted_run_from_the_snapshot_of_the_run(
    family: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolvers: list[DefinitionResolver] = []
    begin = DefinitionResolver.__init__

    def recorded(self: DefinitionResolver, *args: Any, **more: Any) -> None:
        resolvers.append(self)
        begin(self, *args, **more)

    monkeypatch.setattr(DefinitionResolver, "__init__", recorded)
    below = {**ASK, "_delegate": "second"}
    home = await family(
        {
            "Test": [Answer(calls=[call("pay", amount=5)]), ASKS, Answer("thanks")],
            "helper": [ASKS, Answer("asked")],
            "second": [Answer("done")],
        },
        helper={"tools": [below]},
        second={},
    )
    run = await home.start(["pay", ASK])
    await waits(run)
    agents: Any = resolvers[-1]._shelf.catalog.agents
    for name in ("helper", "second"):
        del agents[name]
    await run.decide("t1c1", "approve")
    assert (await run.result())["output"] == "thanks"
    assert (await run.results())["t2c1"] == "asked"


async def test_a_delegate_that_fails_reports_the_reason_and_its_usage(family: Any) -> None:
    # The words of a refused start, after it has run: it does not run again.
    refuses = Answer(status=400, body={"error": {"message": "there is no agent `helper`"}})
    home = await family(
        {
            "Test": [ASKS, Answer("so be it")],
            "helper": [Answer(calls=[call("echo", text="a")]), refuses],
        },
        helper={"tools": ["echo"]},
    )
    run = await home.start([ASK])
    result = await run.result()

    error = await run.error()
    assert error["code"] == "delegate_failed"
    assert "there is no agent `helper`" in error["message"]
    assert (result["turns"], result["calls"], result["usage"]["inputTokens"]) == (3, 2, 30)
    assert len(home.model.requests) == 4


async def test_a_delegate_that_may_act_once_and_was_lost_is_asked_about(family: Any) -> None:
    home = await family(
        {
            "Test": [ASKS, Answer("thanks")],
            "helper": [Answer(calls=[call("held", name="a")]), Answer("I did")],
        },
        helper={"tools": ["held"]},
    )
    run = await home.start([{**ASK, **ONCE}])
    await ledger_has("started a")
    await run.delegate("t1c1").handle.terminate()
    [waiting] = await run.waiting()
    assert waiting["kind"] == "reconcile"
    tools.write("open a")
    await run.run_again()

    assert (await run.result())["output"] == "thanks"
    assert await run.results() == {"t1c1": "I did"}


@workflow.defn
class UsersWorkflow:
    """A workflow of a user's own."""

    @workflow.run
    async def run(self, request: dict[str, Any], task_queue: str) -> Any:
        """Start a run, as a child."""
        return await workflow.execute_child_workflow(
            "AgentWorkflow", request, id=f"{workflow.info().workflow_id}.own", task_queue=task_queue
        )


@pytest.fixture
async def elsewhere(client: Client) -> AsyncIterator[str]:
    """The task queue of a user's own worker."""
    queue = f"own-{uuid.uuid4().hex[:8]}"
    async with Worker(
        client,
        task_queue=queue,
        workflows=[UsersWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        yield queue


async def test_a_child_of_a_foreign_workflow_sends_it_nothing(
    client: Client, launch: Launch, elsewhere: str
) -> None:
    backend = await launch([Answer(calls=[call("pay", amount=5)]), Answer("paid")])
    agent = {"instructions": "Test.", "model": {"endpoint": "fake"}, "tools": ["pay"]}
    parent = await client.start_workflow(
        UsersWorkflow.run,
        args=[{"agent": agent, "input": "go"}, backend.task_queue],
        id=f"somebody-{uuid.uuid4().hex[:8]}",
        task_queue=elsewhere,
    )
    run = Run(client.get_workflow_handle(f"{parent.id}.own"))

    await waits(run)
    await run.decide("t1c1", "approve")
    assert (await parent.result())["output"] == "paid"
    signals = EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED
    assert signals not in [event.event_type for event in await run.history()]


FIX_ME: dict[str, Any] = {
    "_tool": "look",
    "_activity": "look_up",
    "_repair": {"agent": "fixer"},
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
}


async def test_an_agent_repairs_arguments_in_a_run_of_its_own_which_the_run_pays_for(
    family: Any,
) -> None:
    answers = {"Test": [Answer(calls=[call("look", id="seven")]), Answer("It is item 7.")]}
    backend = await family(
        {**answers, "fixer": [Answer('{"id": 7}')]}, fixer={"output": {"type": "object"}}
    )
    run = await backend.start([FIX_ME])

    result = await run.result()
    assert (result["output"], result["turns"]) == ("It is item 7.", 3)
    assert (await run.results())["t1c1"] == '{"id": 7, "name": "item 7"}'
    log = await run.delegate("t1c1-repair").context()
    task = next(entry["message"] for entry in log if entry["type"] == "message")
    assert task["content"][0]["data"] == {
        "tool": "look",
        "arguments": {"id": "seven"},
        "errors": ['id: "seven" is not of type "integer"'],
        "schema": {key: FIX_ME[key] for key in ("properties", "required")} | {"type": "object"},
    }


async def test_an_agent_that_repairs_waits_for_no_person(family: Any) -> None:
    pays = [Answer(calls=[call("pay", amount=5)]), Answer("I may not.")]
    backend = await family(
        {"Test": [Answer(calls=[call("look", id="x")]), Answer("done")], "fixer": pays},
        fixer={"tools": ["pay"]},
    )
    run = await backend.start([FIX_ME])

    assert (await run.result())["output"] == "done"
    assert (await run.delegate("t1c1-repair").error())["code"] == "denied"
    assert (await run.error())["code"] == "blocked"
    assert "the hook `_repair` failed: " in (await run.error())["message"]

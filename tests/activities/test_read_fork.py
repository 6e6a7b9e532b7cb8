"""Runs that begin with the log and the state of another one."""

import uuid
from functools import partial
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from tests.encryption.keys import OLD, key_file
from tests.support.backend import SIDE_BY_SIDE, Backend, Launch, Run, backend, ledger_has
from tests.support.eventually import eventually
from tests.support.identity.signing import Approver, write_keys
from tests.support.model_server import Answer, call
from tests.support.tools import read as ledger
from tests.support.traces import Recorder

PAID = [
    Answer("I look.", [call("look_up", id=7)]),
    Answer("I pay.", [call("pay", amount=5)]),
    Answer("I pay again.", [call("pay", amount=6)]),
    Answer("Paid twice."),
]


async def forked(backend: Backend, source: Run, turn: int | None = None, **more: Any) -> Run:
    """Start a fork of a run of the backend."""
    fork = {"run": source.id, **({} if turn is None else {"turn": turn})}
    return await backend.start(["look_up", "pay"], fork=fork, **{"input": None, **more})


async def paid(backend: Backend, **more: Any) -> Run:
    """A run that looked up an item and paid twice, with one approval for all of it."""
    source = await backend.start(["look_up", "pay"], **more)
    await source.waiting()
    await source.decide("t2c1", "approve", remember=True)
    await source.result()
    return source


async def test_a_fork_has_the_log_and_the_state_repeats_no_effect_and_asks_again(
    launch: Launch,
) -> None:
    backend = await launch(PAID, **SIDE_BY_SIDE)
    source = await paid(backend)
    before, log = ledger(), await source.context()

    run = await forked(backend, source, 2, budget={"maxTurns": 2, "maxCalls": 1})
    [asked] = await run.waiting()

    assert (asked["callId"], asked["arguments"]) == ("t3c1", {"amount": 6})
    assert ledger() == before
    own = await run.context()
    end = next(n for n, one in enumerate(log) if one["type"] == "turn_end" and one["turn"] == 2)
    assert own[: end + 1] == log[: end + 1]
    assert own[end + 1]["forkedFrom"] == source.id
    await run.decide("t3c1", "deny")
    result = await run.result()
    assert (result["turns"], result["calls"], result["output"]) == (2, 1, "Paid twice.")
    assert result["state"] == {"item": {"id": 7, "name": "item 7"}}
    read, was = backend.model.requests[-2]["messages"], backend.model.requests[2]["messages"]
    assert read == was, "the model reads what it read after that turn"
    memo = await (await run.handle.describe()).memo()
    assert memo["ForkedFrom"] == {"run": source.id, "turn": 2}
    assert await source.context() == log


async def test_a_long_run_is_forked_at_its_end_with_a_message_and_continues_as_new(
    launch: Launch,
) -> None:
    many = {"budget": {"maxTurns": 50, "maxIterations": 50, "maxCalls": 100}}
    looks = [Answer(calls=[call("look_up", id=n)]) for n in range(8)]
    answers = [*looks, Answer("Eight."), *looks, Answer("Sixteen.")]
    backend = await launch(answers, continue_after=25, **SIDE_BY_SIDE)
    source = await backend.start(["look_up"], agent=many)
    await source.result()

    run = await forked(backend, source, input="Eight more.", agent=many, state={"more": True})

    result = await run.result()
    assert (result["output"], result["turns"], result["calls"]) == ("Sixteen.", 9, 8)
    assert result["state"] == {"item": {"id": 7, "name": "item 7"}, "more": True}
    info = (await run.handle.describe()).raw_description.workflow_execution_info
    assert info.first_run_id != info.execution.run_id
    whole = await run.context()
    assert [one["n"] for one in whole] == [*range(1, len(whole) + 1)]
    assert whole[: len(await source.context()) - 1] == (await source.context())[:-1]


async def test_a_fork_has_entries_that_are_larger_than_a_page_and_a_log_larger_than_a_result(
    launch: Launch,
) -> None:
    noises = [Answer(calls=[call("noise", seed=n)]) for n in range(2)]
    backend = await launch([*noises, Answer("Loud.")], **SIDE_BY_SIDE)
    source = await backend.start(["noise"])
    await source.result()

    run = await backend.start(["noise"], input="And now?", fork={"run": source.id})

    assert (await run.result())["output"] == "Loud."
    *_, was, now = (each["messages"] for each in backend.model.requests)
    assert now[: len(was)] == was, "the model reads what it read"
    assert [len(one["content"]) for one in now if one["role"] == "tool"] == [1_200_000] * 2
    read = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in await run.history()
    ]
    assert read.count("read_fork") == 2


async def test_a_fork_has_another_agent_whose_turns_continue_from_there(launch: Launch) -> None:
    answers = [*PAID[:2], Answer("No.")]
    backend = await launch(answers, **SIDE_BY_SIDE)
    source = await backend.start(["look_up", "pay"], input={"order": 7})
    await source.waiting()

    other = {"name": "other", "instructions": "Do not pay.", "output": {"type": "string"}}
    run = await forked(backend, source, 1, agent=other, approvals="deny")

    assert (await run.result())["output"] == "No."
    assert [*await run.results()] == ["t1c1", "t2c1"]
    assert (await run.error("t2c1"))["code"] == "denied"
    system = backend.model.requests[-1]["messages"][0]
    assert system["content"].startswith("Do not pay.")
    assert [one["callId"] for one in await source.waiting()] == ["t2c1"]
    [skipped] = [one for one in await run.context() if one["type"] == "forked"]
    assert skipped["turn"] == 1


async def test_a_fork_of_a_fork_has_the_input_of_the_first_run(launch: Launch) -> None:
    says = [PAID[0], Answer(calls=[call("echo", text="†input")]), Answer("Done.")]
    backend = await launch(says, **SIDE_BY_SIDE)
    source = await backend.start(["look_up", "echo"], input="Order 7")
    await source.result()

    run = await backend.start(["look_up", "echo"], input=None, fork={"run": source.id, "turn": 1})
    await run.result()
    again = await backend.start(["echo"], input="Again.", fork={"run": run.id, "turn": 1})

    assert (await again.result())["output"] == "Done."
    assert (await again.results())["t2c1"] == "Order 7"
    sources = [one["forkedFrom"] for one in await again.context() if one["type"] == "forked"]
    assert sources == [run.id]


async def test_a_run_that_was_terminated_in_a_call_continues_with_an_unknown_outcome(
    launch: Launch,
) -> None:
    backend = await launch([Answer(calls=[call("held", name="a")]), Answer("Unknown.")])
    source = await backend.start(["held"])
    await ledger_has("started a")
    await source.handle.terminate()

    run = await forked(backend, source)

    assert (await run.result())["output"] == "Unknown."
    assert (await run.error("t1c1"))["code"] == "outcome_unknown"
    assert ledger() == ["started a"]


async def refusal(run: Run) -> str:
    failure = await run.failure()
    assert failure.type == "invalid_request"
    return failure.message


async def test_a_run_that_cannot_be_read_is_refused_with_the_reason(launch: Launch) -> None:
    backend = await launch([PAID[0], Answer("Seen.")], **SIDE_BY_SIDE)
    source = await backend.start(["look_up"])
    await source.result()

    single = await backend.call("look_up", {"id": 7})
    for which, turn, why in (
        (single, None, "it is a CallWorkflow, and no run of an agent"),
        (source, 9, "no turn 9 has ended in it; the last is 2"),
        (source, None, "write a new message as `input`"),
    ):
        assert why in await refusal(await forked(backend, which, turn))
    execution = WorkflowExecution(workflow_id=source.id)
    await backend.client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(
            namespace=backend.client.namespace, workflow_execution=execution
        )
    )

    async def is_deleted() -> bool:
        try:
            await source.handle.describe()
        except RPCError as error:
            return error.status == RPCStatusCode.NOT_FOUND
        return False

    await eventually(is_deleted)
    deleted = "there is no such run, or Temporal has deleted its history"
    assert deleted in await refusal(await forked(backend, source, 1))


async def test_a_fork_waits_for_the_worker_of_the_other_run(
    launch: Launch, client: Client, tmp_path: Path
) -> None:
    queue = f"queue-{uuid.uuid4().hex[:8]}"
    serve = partial(backend, client, tmp_path, PAID, task_queue=queue, **SIDE_BY_SIDE)
    async with serve() as theirs:
        source = await theirs.start(["look_up", "pay"])
        await source.waiting()
        await source.handle.terminate()
    home = await launch(PAID, **SIDE_BY_SIDE)

    run = await forked(home, source, 1)
    await home.client.get_workflow_handle(run.id).query("status")
    async with serve():
        await run.waiting()


async def test_a_verified_principal_forks_its_own_runs_and_with_a_scope_those_of_others(
    launch: Launch, tmp_path: Path
) -> None:
    ann = Approver()
    keys = str(write_keys(tmp_path / "keys.json", ann))
    backend = await launch(
        [PAID[0], Answer("Seen.")], keys=keys, principal_tokens=True, **SIDE_BY_SIDE
    )

    def token(who: str, *scopes: str) -> dict[str, str]:
        return {"token": ann.principal(sub=who, scopes=[*scopes])}

    source = await backend.start(["look_up"], principal=token("ann"))
    await source.result()

    other = await forked(backend, source, 1, principal=token("bob", "pay"))
    assert "it acts for another principal" in await refusal(other)
    assert [one["type"] for one in await other.context()] == ["error"]
    for who in (token("ann"), token("bob", "holdfast:read")):
        run = await forked(backend, source, 1, principal=who)
        assert (await run.result())["output"] == "Seen."


async def test_with_permits_a_run_of_another_task_queue_is_no_start_of_a_fork(
    launch: Launch, tmp_path: Path
) -> None:
    theirs = await launch([PAID[0], Answer("Seen.")], **SIDE_BY_SIDE)
    source = await theirs.start(["look_up"])
    await source.result()
    permits = key_file(tmp_path, [OLD])
    home = await launch([PAID[0], Answer("Seen.")], permits=permits, **SIDE_BY_SIDE)
    assert "it is of another task queue" in await refusal(await forked(home, source, 1))
    own = await home.start(["look_up"])
    await own.result()
    assert (await (await forked(home, own, 1)).result())["output"] == "Seen."


async def test_what_the_other_run_did_is_in_its_own_trace(launch: Launch) -> None:
    recorder = Recorder()
    says = [PAID[0], Answer("Seen.")]
    backend = await launch(says, telemetry=recorder.telemetry, **SIDE_BY_SIDE)
    source = await backend.start(["look_up"])
    await source.result()

    run = await forked(backend, source, 1)
    await run.result()

    async def are_over() -> bool:
        names = [one.name for one in recorder.seen()]
        return names.count("invoke_agent tester") == 2

    await eventually(are_over)
    assert [one.name for one in recorder.seen()].count("execute_tool look_up") == 1

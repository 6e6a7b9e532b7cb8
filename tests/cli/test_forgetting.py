"""`holdfast forget`: what is kept of a person is deleted, and nothing of another."""

import uuid
from typing import Any

from temporalio.client import Client

from holdfast.schemas import names
from tests.cli.conftest import Holdfast
from tests.support.backend import Backend, Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call

KEEPER = {"name": "keeper", "model": {"endpoint": "fake", "name": "fake"}, "memory": True}
REMEMBERS = [Answer(calls=[call("memory_write", key="tea", value="milk")]), Answer("done")]


async def started(backend: Backend, who: str | None, **more: Any) -> Run:
    principal = {} if who is None else {"principal": {"id": who}}
    handle = await backend.client.start_workflow(
        "AgentWorkflow",
        {"agent": KEEPER, "input": "tea", **principal, **more},
        id=f"run-{uuid.uuid4().hex[:12]}",
        task_queue=backend.task_queue,
    )
    return Run(handle, backend.client)


async def kept(client: Client, who: str) -> list[str]:
    """The executions of a person that Temporal lists, by their types."""
    memory = names.memory_id("keeper", who, inline=True)
    query = f'{names.AGENT_PRINCIPAL} = "{who}" OR WorkflowId = "{memory}"'
    return sorted([each.workflow_type async for each in client.list_workflows(query)])


async def test_a_person_s_memory_is_deleted_and_with_runs_their_finished_runs(
    launch: Launch, holdfast: Holdfast
) -> None:
    backend = await launch(REMEMBERS)
    client = backend.client
    ann, bob = (f"{name}-{uuid.uuid4().hex[:6]}" for name in ("ann", "bob"))
    for who in (ann, bob, None):
        await (await started(backend, who)).result()
    both = ["AgentWorkflow", "MemoryWorkflow"]

    async def is_listed() -> bool:
        return await kept(client, ann) == await kept(client, bob) == both

    await eventually(is_listed)
    said = await holdfast("forget", ann)
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        f"Memories of {ann} deleted: 1.\n"
        f"Finished runs of {ann} kept until the namespace's retention ends: 1.\n"
        f"To delete them: holdfast forget {ann} --runs\n"
    )

    async def is_forgotten() -> bool:
        return await kept(client, ann) == ["AgentWorkflow"]

    await eventually(is_forgotten)
    said = await holdfast("forget", ann, "--runs")
    assert said.out.splitlines()[1:] == [f"Finished runs of {ann} deleted: 1."]

    async def nothing_is_kept() -> bool:
        return await kept(client, ann) == []

    await eventually(nothing_is_kept)
    assert await kept(client, bob) == both
    memory = client.get_workflow_handle("memory-inline.keeper")
    assert (await memory.query("read", {"key": "tea"}))["value"] == "milk"


async def test_a_person_with_an_open_run_is_not_forgotten_yet(
    launch: Launch, holdfast: Holdfast
) -> None:
    backend = await launch(REMEMBERS)
    ann = f"ann-{uuid.uuid4().hex[:6]}"
    run = await started(backend, ann, conversation=True)

    async def is_listed() -> bool:
        return await kept(backend.client, ann) == ["AgentWorkflow", "MemoryWorkflow"]

    await eventually(is_listed)
    said = await holdfast("forget", ann)
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        f"holdfast: open runs of {ann} could write to a memory again: {run.id}; end them first,"
        f" as with holdfast cancel {run.id}\n"
    )
    assert await is_listed()


async def test_a_principal_that_temporal_cannot_search_for_is_refused(holdfast: Holdfast) -> None:
    for principal in ('ann "the" cook', "a" * 201):
        said = await holdfast("forget", principal)
        assert said.code == 2
        assert "cannot search for the principal" in said.err

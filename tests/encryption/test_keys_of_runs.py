"""Runs and their keys (§13): rotation, a key that is missing, and what was there before any key."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus

from holdfast.client import remote_run
from holdfast.hosting.worker import WorkerSettings, build_worker
from holdfast.runtime.encryption.codec import DecryptError
from tests.encryption.conftest import Holdfast, Keyed
from tests.encryption.keys import NEW, OLD, key_file
from tests.encryption.reader import Reader, payloads, plain
from tests.support.backend import CATALOG, TOOLS, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call, serve

AGENT = {
    "name": "tester",
    "instructions": "Test.",
    "model": {"endpoint": "fake", "name": "fake"},
    "tools": ["pay"],
}
# By which a workflow task that has failed is tried again.
SOON = timedelta(seconds=2)
# A worker for each holder of this client, for as long as the block runs.
Working = Callable[[Client], AbstractAsyncContextManager[None]]


@pytest.fixture
def queue() -> str:
    return f"queue-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def working(queue: str, tmp_path: Path, ledger: Path) -> Any:
    answers = [Answer(calls=[call("pay", amount=5)]), Answer("done")]
    with serve(answers) as model:
        endpoints = tmp_path / "endpoints.yaml"
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}'}}\n")
        settings = WorkerSettings(
            endpoints=endpoints, task_queue=queue, tools=[str(TOOLS)], catalog=CATALOG
        )

        @asynccontextmanager
        async def working_(client: Client) -> AsyncIterator[None]:
            async with build_worker(client, settings):
                yield

        yield working_


async def start(client: Client, queue: str) -> Run:
    """A run that asks whether it may pay, and has logged that."""
    handle = await client.start_workflow(
        "AgentWorkflow",
        {"agent": AGENT, "input": "go"},
        id=f"run-{uuid.uuid4().hex[:12]}",
        task_queue=queue,
        task_timeout=SOON,
    )
    run = Run(handle, client)
    await run.waiting()
    return run


def seen_by(client: Client, run: Run) -> Run:
    """The run, for another client."""
    return Run(client.get_workflow_handle(run.id), client)


async def has_failed_a_task(run: Run) -> bool:
    """Whether the worker could not continue the run."""
    kinds = {event.event_type for event in await run.history()}
    return EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED in kinds


async def keys_of(reader: Reader, run: Run) -> set[bytes]:
    """The ids of the keys that its history is encrypted with."""
    found = [payload for event in await reader.history(run.id) for _, payload in payloads(event)]
    return {each.metadata.get("encryption-key-id", b"") for each in found} - {b""}


async def test_a_run_waits_for_a_missing_key_and_continues_with_it(
    working: Working,
    queue: str,
    keyed: Keyed,
    client: Client,
    holdfast: Holdfast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, after, both = keyed(OLD), keyed(NEW), keyed(NEW, OLD)
    async with working(before):
        run = await start(before, queue)
    async with working(after):
        await seen_by(after, run).signal("t1c1", "approve")
        await eventually(lambda: has_failed_a_task(run))
        monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 1)
        key_file(tmp_path, [NEW, OLD])
        said = await holdfast("show", run.id)
    assert (said.code, said.err) == (
        3,
        f"holdfast: the worker on task queue {queue} cannot continue run {run.id}: this is "
        "encrypted with the key `2026-01`, which is not among those here; add it to the file that "
        "HOLDFAST_ENCRYPTION or `--encryption` names; fix that, and the run continues by itself; "
        "the worker's log has more\n",
    )
    assert (await run.handle.describe()).status is WorkflowExecutionStatus.RUNNING
    async with working(both):
        rotated = seen_by(both, run)
        assert (await rotated.result())["output"] == "done"
        assert (await rotated.results())["t1c1"] == '{"paid": 5.0}'
        with pytest.raises(DecryptError, match="with the key `2026-08`, which is not among"):
            await seen_by(before, run).context()
    assert await keys_of(Reader(client), run) == {OLD.encode(), NEW.encode()}


async def test_a_run_from_before_the_keys_continues_with_encrypted_payloads(
    working: Working, queue: str, keyed: Keyed, client: Client
) -> None:
    async with working(keyed()):
        run = await start(keyed(), queue)
    reader = Reader(client)
    length = len(await reader.history(run.id))
    async with working(keyed(NEW)):
        # Who has no key is still understood.
        await run.signal("t1c1", "approve", reason="because")
        assert (await seen_by(keyed(NEW), run).result())["output"] == "done"
    history = await reader.history(run.id)
    assert [place[-2] for place in plain(history[0])] == ["input"]
    assert [place[-2] for event in history[length:] for place in plain(event)] == ["input"]


async def test_a_command_with_other_keys_names_the_key_of_the_run(
    working: Working,
    queue: str,
    keyed: Keyed,
    holdfast: Holdfast,
    tmp_path: Path,
) -> None:
    """The worker cannot read the query, and its answer is encrypted."""
    before = keyed(OLD)
    async with working(before):
        run = await start(before, queue)
        key_file(tmp_path, [NEW])
        for words in (("show", run.id), ("show", run.id, "--json"), ("watch", run.id)):
            said = await holdfast(*words)
            assert (said.code, said.out) == (2, "")
            assert said.err.startswith(
                "holdfast: this is encrypted with the key `2026-01`, which is not among those here;"
            )
        key_file(tmp_path, [OLD])
        assert (await holdfast("show", run.id)).code == 0

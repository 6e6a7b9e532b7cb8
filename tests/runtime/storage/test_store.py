"""What of a run goes into its worker's store, and what never does: on a real server.

A store must not be noticed by any process but the worker of the run itself: clients and workers in
other languages cannot read Temporal's references to it.
"""

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import (
    StorageDriverActivityInfo,
    StorageDriverSelectContext,
    StorageDriverWorkflowInfo,
)
from temporalio.worker import Worker

from holdfast.activities.interceptors.chain import ActivityInterceptors
from holdfast.activities.interceptors.results import CheckedResults
from holdfast.runtime.data_converter import with_store
from holdfast.runtime.storage.folder import FolderStore
from holdfast.runtime.storage.store import is_for_store, payload_writer
from holdfast.schemas import names
from tests.encryption.reader import payloads
from tests.support.eventually import eventually

LARGE = 400_000
PAGE = b"\x78\x9c" + bytes(range(256)) * 400
SOON = timedelta(minutes=2)


@activity.defn
async def large(size: int) -> str:
    return "r" * size


@activity.defn
async def length(text: str) -> int:
    activity.heartbeat(text)
    return len(text)


@workflow.defn(name=names.AGENT_WORKFLOW, sandboxed=False)
class LargeValuesWorkflow:
    """Goes every way that a large value can go; it carries bytes to its second generation."""

    def __init__(self) -> None:
        self.text = "q" * LARGE
        self.asked = False

    @workflow.run
    async def run(self, generation: int, page: bytes) -> str:
        if generation == 1:
            remote = await workflow.execute_activity(large, LARGE, start_to_close_timeout=SOON)
            local = await workflow.execute_local_activity(large, LARGE, start_to_close_timeout=SOON)
            size = await workflow.execute_activity(length, remote, start_to_close_timeout=SOON)
            assert remote == local
            assert size == LARGE
            workflow.continue_as_new(args=[2, page])
        await workflow.wait_condition(lambda: self.asked)
        assert page == PAGE
        return self.text

    @workflow.query
    def state(self) -> str:
        return self.text

    @workflow.update
    async def send(self, text: str) -> str:
        self.asked = True
        return text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
async def queue(client: Client, root: Path) -> AsyncIterator[str]:
    """A worker with a store and no cache: it reads everything again each time."""
    named = f"queue-{uuid.uuid4().hex[:8]}"
    config = client.config()
    config["data_converter"] = with_store(client.data_converter, FolderStore(root))
    keeping = Client(**config)
    writer = payload_writer(keeping.data_converter)
    async with Worker(
        keeping,
        task_queue=named,
        workflows=[LargeValuesWorkflow],
        activities=[large, length],
        interceptors=[ActivityInterceptors(partial(CheckedResults, store=writer))],
        max_cached_workflows=0,
    ):
        yield named


async def kinds(client: Client, id: str, run_id: str) -> dict[str, list[str]]:
    """Of each event of a history, how its larger payloads are sent."""
    found: dict[str, list[str]] = {}
    async for event in client.get_workflow_handle(id, run_id=run_id).fetch_history_events():
        name = str(event.WhichOneof("attributes")).removesuffix("_event_attributes")
        for _, payload in payloads(event):
            if payload.external_payloads:
                found.setdefault(name, []).append("reference")
            elif payload.ByteSize() > LARGE // 4:
                found.setdefault(name, []).append("whole")
    return found


RUN = StorageDriverWorkflowInfo(namespace="default", type=names.AGENT_WORKFLOW)
THEIRS = StorageDriverWorkflowInfo(namespace="default", type="Others")
ALONE = StorageDriverActivityInfo(namespace="default", type="big")


@pytest.mark.parametrize(
    ("target", "encoding", "marked", "stored"),
    [
        (RUN, b"json/plain", False, False),
        (RUN, b"json/plain", True, True),
        (RUN, b"binary/plain", False, True),
        (THEIRS, b"binary/plain", False, False),
        (ALONE, b"binary/plain", False, False),
        (None, b"binary/plain", False, False),
    ],
)
def test_what_is_marked_goes_into_the_store_and_the_bytes_of_runs(
    target: Any, encoding: bytes, marked: bool, stored: bool
) -> None:
    mark = {names.FOR_STORE: b"true"} if marked else {}
    payload = Payload(metadata={"encoding": encoding, **mark}, data=b"x")
    assert is_for_store(StorageDriverSelectContext(target), payload) is stored


async def test_only_what_the_runs_own_worker_reads_again_is_sent_as_a_reference(
    client: Client, queue: str, root: Path
) -> None:
    handle = await client.start_workflow(
        names.AGENT_WORKFLOW, args=[1, PAGE], id=f"run-{uuid.uuid4().hex}", task_queue=queue
    )
    first = handle.result_run_id or ""
    current = client.get_workflow_handle(handle.id)

    async def has_continued() -> bool:
        return (await current.describe()).run_id != first

    await eventually(has_continued)
    assert await current.query("state") == "q" * LARGE
    assert await current.execute_update("send", "u" * LARGE) == "u" * LARGE
    assert await handle.result() == "q" * LARGE
    last = (await current.describe()).run_id
    assert await kinds(client, handle.id, first) == {
        "workflow_execution_started": ["whole"],  # a client began it
        "activity_task_completed": ["reference"],
        "marker_recorded": ["reference"],
        "activity_task_scheduled": ["whole"],  # any worker may execute it
        "workflow_execution_continued_as_new": ["reference"],
    }
    assert await kinds(client, handle.id, last) == {
        "workflow_execution_started": ["reference"],
        "workflow_execution_update_accepted": ["whole"],
        "workflow_execution_update_completed": ["whole"],
        "workflow_execution_completed": ["whole"],
    }
    kept = [path for path in root.rglob("*") if path.is_file()]
    assert len(kept) == 2, "the result, and the page, each once"

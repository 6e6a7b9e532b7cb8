"""A worker that dies is missed soon: it heartbeats for each activity that does not do so itself.

Each case is an activity of a workflow on a real server.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from temporalio import activity, exceptions, workflow
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.worker import Worker

from holdfast.activities.interceptors import auto_heartbeat
from holdfast.activities.interceptors.auto_heartbeat import AutoHeartbeat, OutlivedAttempts
from holdfast.activities.interceptors.chain import ActivityInterceptors
from holdfast.workflows.commands.interceptors import CommandInterceptor
from tests.support.eventually import eventually

TIMEOUT = timedelta(seconds=2)
TWICE = RetryPolicy(maximum_attempts=2, initial_interval=timedelta(milliseconds=1))
Handle = WorkflowHandle[Any, Any]
SLOTS = 3
HANGING = ["silent", "stubborn", "hangs_in_thread"]


class ActivityGate:
    """Holds activities until it is opened."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.steps: list[str] = []

    @activity.defn
    async def silent(self) -> int:
        await self.open.wait()
        return activity.info().attempt

    @activity.defn
    async def reports(self) -> int:
        """Report its progress, in the first attempt alone, and fail in that."""
        if activity.info().attempt == 1:
            activity.heartbeat("half", 50)
            raise ApplicationError("again")
        return await self.silent()

    @activity.defn
    async def pays(self) -> None:
        """Two steps, of which none is to be without the other."""
        self.steps.append("started")
        while not self.open.is_set():
            self._note()
            await asyncio.sleep(0.01)
        self.steps.append("ended")

    @activity.defn
    def pays_in_thread(self) -> None:
        """The same, in a thread."""
        self.steps.append("started")
        while not self.open.is_set():
            self._note()
            time.sleep(0.01)
        self.steps.append("ended")

    def _note(self) -> None:
        if activity.is_cancelled() and self.steps[-1] != "unwanted":
            self.steps.append("unwanted")

    @activity.defn
    async def stubborn(self) -> None:
        """Hang, and take no notice of a cancellation."""
        while not self.open.is_set():
            with suppress(asyncio.CancelledError):
                await self.open.wait()

    @activity.defn
    def hangs_in_thread(self) -> None:
        """Hang in a thread, which cannot be interrupted."""
        while not self.open.is_set():
            time.sleep(0.01)

    @activity.defn
    async def unknown(self) -> int:
        """Is none of what the worker beats for."""
        return await self.silent()


@workflow.defn(sandboxed=False)
class Begin:
    """Run an activity, by `queue`; `own` is how long it declares that it may be silent."""

    @workflow.run
    async def run(self, name: str, own: float | None, queue: str | None) -> Any:
        return await workflow.execute_activity(
            name,
            task_queue=queue,
            start_to_close_timeout=timedelta(minutes=1),
            heartbeat_timeout=None if own is None else timedelta(seconds=own),
            retry_policy=TWICE,
        )


@workflow.defn(sandboxed=False)
class Briefly:
    """Execute an activity, which may take twice as long as it may be silent."""

    @workflow.run
    async def run(self, name: str) -> Any:
        return await workflow.execute_activity(
            name, start_to_close_timeout=TIMEOUT * 2, retry_policy=TWICE
        )


class GatedWorker:
    """A worker, and the gate at which its activities wait."""

    def __init__(
        self, client: Client, queue: str, gate: ActivityGate, outlived: OutlivedAttempts
    ) -> None:
        self._client, self._queue, self.gate, self.outlived = client, queue, gate, outlived

    async def begin(self, name: str, own: float | None = None, queue: str | None = None) -> Handle:
        id = f"begin-{uuid.uuid4().hex}"
        args = [name, own, queue]
        return await self._client.start_workflow("Begin", args=args, id=id, task_queue=self._queue)

    async def begin_briefly(self, name: str) -> Handle:
        id = f"briefly-{uuid.uuid4().hex}"
        return await self._client.start_workflow("Briefly", name, id=id, task_queue=self._queue)

    async def steps(self, *steps: str) -> None:
        """Wait until the activity has come so far."""

        async def there() -> bool:
            return self.gate.steps == list(steps)

        await eventually(there)

    async def pending(self, handle: Handle) -> PendingActivityInfo:
        """The activity, once the server has it."""

        async def found() -> list[PendingActivityInfo]:
            return list((await handle.describe()).raw_description.pending_activities)

        return (await eventually(found))[0]

    async def beats(self, handle: Handle, count: int = 4) -> PendingActivityInfo:
        """The activity, once it was reported so many times: four take longer than the timeout."""
        heard: set[int] = set()

        async def enough() -> PendingActivityInfo | None:
            pending = await self.pending(handle)
            heard.add(pending.last_heartbeat_time.ToNanoseconds())
            return pending if len(heard - {0}) >= count else None

        return await eventually(enough)


@pytest.fixture
async def scene(client: Client) -> AsyncIterator[GatedWorker]:
    queue, gate = f"pulse-{uuid.uuid4().hex[:8]}", ActivityGate()
    carried = ["silent", "reports", "pays", "pays_in_thread", *HANGING]
    outlived = OutlivedAttempts(SLOTS)
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[Begin, Briefly],
        activities=[
            *(gate.silent, gate.reports, gate.unknown, gate.pays, gate.pays_in_thread),
            *(gate.stubborn, gate.hangs_in_thread),
        ],
        activity_executor=ThreadPoolExecutor(4 * SLOTS),
        max_concurrent_activities=SLOTS,
        interceptors=[
            ActivityInterceptors(partial(AutoHeartbeat, activity_types=carried, outlived=outlived)),
            CommandInterceptor(carried, TIMEOUT),
        ],
        max_heartbeat_throttle_interval=TIMEOUT / 10,
    )
    async with worker:
        yield GatedWorker(client, queue, gate, outlived)
        gate.open.set()


async def test_a_silent_activity_outlasts_the_timeout(scene: GatedWorker) -> None:
    handle = await scene.begin("silent")
    assert (await scene.beats(handle)).activity_options.heartbeat_timeout.ToTimedelta() == TIMEOUT
    scene.gate.open.set()
    assert await handle.result() == 1


async def test_the_details_of_an_activity_are_repeated_also_in_its_next_attempt(
    scene: GatedWorker,
) -> None:
    handle = await scene.begin("reports")
    pending = await scene.beats(handle)
    assert pending.attempt == 2
    assert [payload.data for payload in pending.heartbeat_details.payloads] == [b'"half"', b"50"]
    scene.gate.open.set()
    assert await handle.result() == 2


async def test_an_activity_with_its_own_bound_of_silence_is_missed_then(scene: GatedWorker) -> None:
    handle = await scene.begin("silent", own=0.3)
    with pytest.raises(WorkflowFailureError) as failed:
        async with asyncio.timeout(120):
            await handle.result()
    assert isinstance(failed.value.cause, ActivityError)
    timeout = failed.value.cause.cause
    assert isinstance(timeout, exceptions.TimeoutError)
    assert timeout.type == TimeoutType.HEARTBEAT


@pytest.mark.parametrize(("name", "queue"), [("silent", "another"), ("unknown", None)])
async def test_an_activity_that_another_worker_runs_keeps_its_options(
    scene: GatedWorker, name: str, queue: str | None
) -> None:
    handle = await scene.begin(name, queue=queue)
    pending = await scene.pending(handle)
    assert pending.activity_options.heartbeat_timeout.ToTimedelta() == timedelta()
    await handle.terminate()


@pytest.mark.parametrize("name", ["pays", "pays_in_thread"])
async def test_a_started_activity_is_not_cut_off_when_its_run_is_cancelled(
    scene: GatedWorker, name: str
) -> None:
    handle = await scene.begin(name)
    await scene.beats(handle, 1)
    await handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    await scene.steps("started", "unwanted")
    scene.gate.open.set()
    await scene.steps("started", "unwanted", "ended")


async def test_calls_that_hang_take_no_slot_for_long(
    scene: GatedWorker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Twice as many attempts as there are slots; one that cannot be interrupted is counted."""
    monkeypatch.setattr(auto_heartbeat, "GRACE_SECONDS", 0.1)
    for handle in [await scene.begin_briefly(name) for name in HANGING]:
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
        assert isinstance(failed.value.cause, ActivityError)
        assert isinstance(failed.value.cause.cause, exceptions.TimeoutError)
    quick = await scene.begin("reports")
    await scene.beats(quick, 1)

    async def counted() -> bool:
        return len(scene.outlived) == 4  # none of `silent`

    await eventually(counted)
    assert "`hangs_in_thread` (1 of briefly-" in caplog.text
    scene.gate.open.set()
    assert await quick.result() == 2

    async def none_left() -> bool:
        return not scene.outlived

    await eventually(none_left)

"""A request that waits for its turn at an endpoint with a limit is told of while it waits (§12)."""

import asyncio
import io
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.service import RPCError

from holdfast.cli.screens import follow
from holdfast.cli.screens.follow import Line
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client.run_handle import RunHandle, queued_request
from holdfast.hosting.worker import WorkerSettings
from holdfast.schemas.names import request_queue
from tests.support.eventually import eventually
from tests.support.model_server import Answer
from tests.workflows.commands.test_request_queues import houses

WAITS = " waits      for its turn at the model (maxRequestsPerMinute)\n"


async def test_it_is_said_once_that_a_request_waits_for_its_turn(
    client: Client, tmp_path: Path
) -> None:
    settings = WorkerSettings(
        endpoints=tmp_path / "endpoints.yaml",
        task_queue="limited",
        heartbeat_timeout=timedelta(seconds=2),
        max_cached_workflows=100,
    )
    # One or two are given out at once, and the next one in a minute.
    async with houses(client, settings, lambda turn, body: Answer("done"), limit=1) as house:
        runs = [await house.start() for _ in range(4)]
        last, out = RunHandle(client, runs[-1].id), io.StringIO()

        async def in_line() -> bool:
            return (await last.observe()).queued_request is not None

        async def told() -> bool:
            return WAITS in out.getvalue()

        async def until_told() -> None:
            await eventually(told)
            await last.cancel()

        await eventually(in_line)
        screen = PlainScreen(out, last.id)
        code, _ = await asyncio.gather(follow.follow(client, last.id, out=screen), until_told())
        for run in runs:
            with suppress(RPCError):  # it is over
                await run.handle.terminate()
    assert code == 1
    assert out.getvalue().count(WAITS) == 1


def pending(queue: str, *, attempt: int = 1, started: bool = False) -> PendingActivityInfo:
    """A request on a queue: given to a worker, or not."""
    made = PendingActivityInfo(activity_id="7", attempt=attempt)
    made.activity_options.task_queue.name = queue
    made.state = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    if started:
        made.state = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    return made


def test_only_what_no_worker_was_given_yet_stands_in_line() -> None:
    limited = request_queue("desk", "claude")
    assert queued_request("desk", [pending("desk"), pending(limited)]) == "7"
    assert queued_request("desk", [pending("desk")]) is None
    assert queued_request("desk", [pending(limited, started=True)]) is None
    assert queued_request("desk", [pending(limited, attempt=2)]) is None, "it is made again, later"


def test_each_request_is_told_of_once_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(follow, "monotonic", lambda: now)
    line = Line()
    assert not line.waits_long("1")
    now += 0.9
    assert not line.waits_long("1")
    now += 0.2
    assert line.waits_long("1")
    now += 60
    assert not line.waits_long("1"), "that was said"
    assert not line.waits_long(None)
    assert not line.waits_long("2")
    now += 1.1
    assert line.waits_long("2")

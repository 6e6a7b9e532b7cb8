"""An operator pauses, unpauses, resets and changes the activity of a call that may happen once, and
resets its run; on a real server. It happens once, and where that is unknown, a person is asked."""

import asyncio
import re
import threading
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.client import Client

from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Launch, Run, backend
from tests.support.eventually import eventually
from tests.support.identity.operators import LATER, SOON, Operator, change_request
from tests.support.model_server import Answer

PAYS = {
    "_tool": "slow_payment",
    "_sideEffects": True,
    "_approval": {"require": "never"},
    "_activity": {"type": "held_payment", "startToCloseTimeout": "4m"},
    "properties": {"name": {"type": "string"}},
}
AT_ONCE = timedelta(milliseconds=1)
LETS_GO = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED

Commands = Callable[[Operator], Awaitable[None]]


async def retried(operator: Operator) -> None:
    await operator.retry(5, AT_ONCE, SOON)


async def reset_between(operator: Operator) -> None:
    await operator.end_attempt()
    await operator.reset()


async def unpaused_between(operator: Operator) -> None:
    await operator.end_attempt()
    await operator.pause()
    await operator.unpause(afresh=True)


async def restored_between(operator: Operator) -> None:
    """Two attempts in all, and the second begins under the options of the first."""
    await operator.retry(5, 5 * SOON, SOON)

    async def waits() -> bool:
        return [each.state for each in await operator.pending()] == [LETS_GO]

    await eventually(waits)
    await operator.restore()


async def reset_run(operator: Operator) -> None:
    handle = operator.client.get_workflow_handle(operator.workflow_id)
    await handle.signal("approve", {"callId": "t9c9", "decision": "deny"})

    async def is_delivered() -> bool:
        events = [event.event_type async for event in handle.fetch_history_events()]
        signaled = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
        completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
        return completed in events[events.index(signaled) :]

    await eventually(is_delivered)
    await operator.reset_run()


async def paused(operator: Operator) -> None:
    await operator.pause()


async def unpaused(operator: Operator) -> None:
    await operator.pause()
    await operator.unpause(afresh=True)


async def reset(operator: Operator) -> None:
    await operator.reset()


async def restored(operator: Operator) -> None:
    await operator.retry(5, SOON, LATER)
    await operator.restore()


RUNS_AGAIN: list[Commands] = [
    *(retried, reset_between, unpaused_between, restored_between, reset_run)
]
RUNS_ON: list[Commands] = [paused, unpaused, reset, restored]
STILL_RUNS = r"(since|scheduled at) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, and may still be running"


async def paying(run: Run) -> list[str]:
    """What the run has paid, once it has."""

    async def paid() -> list[str]:
        return [line for line in tools.read() if line.endswith(f"{run.id}/t1c1")]

    return await eventually(paid)


@pytest.mark.usefixtures("ledger")
async def test_what_may_have_happened_is_not_run_again(launch: Launch) -> None:
    home = await launch([], **SIDE_BY_SIDE)

    async def attacked(commands: Commands) -> None:
        run = await home.call(PAYS, {"name": commands.__name__})
        await paying(run)
        await commands(Operator(home.client, run.id))
        run = Run(home.client.get_workflow_handle(run.id))  # it may have been reset
        [question] = await run.waiting()
        assert question["kind"] == "reconcile"
        assert re.search(STILL_RUNS, question["question"]), question
        assert len(await paying(run)) == 1, commands
        tools.write(f"open {commands.__name__}")
        await run.run_again()
        assert (await run.result())["output"] == commands.__name__
        assert len(await paying(run)) == 2, commands

    await asyncio.gather(*(attacked(commands) for commands in RUNS_AGAIN))


@pytest.mark.usefixtures("ledger")
async def test_a_payment_that_a_stopping_worker_cuts_off_is_not_run_again(
    client: Client, tmp_path: Path
) -> None:
    """Its SDK reports an error like any other, after the payment."""
    where: dict[str, Any] = {"task_queue": uuid.uuid4().hex, "graceful_timeout": SOON}
    async with backend(client, tmp_path, [], **where) as home:
        run = await home.call(PAYS, {"name": "cut off"})
        await paying(run)
    async with backend(client, tmp_path, [], **where):
        [question] = await run.waiting()
        assert question["kind"] == "reconcile"
        assert re.search(STILL_RUNS, question["question"]), question
        await run.handle.terminate()


@pytest.mark.usefixtures("ledger")
async def test_a_payment_that_an_operator_pauses_or_resets_ends_with_its_result(
    launch: Launch,
) -> None:
    home = await launch([], **SIDE_BY_SIDE)

    async def attacked(commands: Commands) -> None:
        run = await home.call(PAYS, {"name": commands.__name__})
        await paying(run)
        await commands(Operator(home.client, run.id))
        # The worker receives it with a heartbeat before it ends.
        for _ in range(2):
            [pending] = await Operator(home.client, run.id).pending()
            heard = pending.last_heartbeat_time.ToNanoseconds()

            async def has_beaten_again(run: Run = run, heard: int = heard) -> bool:
                [pending] = await Operator(home.client, run.id).pending()
                return pending.last_heartbeat_time.ToNanoseconds() > heard

            await eventually(has_beaten_again)
        tools.write(f"open {commands.__name__}")
        assert (await run.result())["output"] == commands.__name__
        assert len(await paying(run)) == 1, commands

    await asyncio.gather(*(attacked(commands) for commands in RUNS_ON))


async def test_a_request_that_an_operator_changes_between_two_attempts_is_made_again(
    launch: Launch,
) -> None:
    """Temporal schedules its next attempt for 1970, and reports that it did not start in time."""
    hold = threading.Event()
    home = await launch([Answer("done", hold=hold)], **SIDE_BY_SIDE)
    run = await home.start()
    await change_request(run)
    hold.set()
    assert (await run.result())["output"] == "done"
    [late] = [
        event.activity_task_timed_out_event_attributes
        for event in await run.history()
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT
    ]
    assert late.failure.message == "activity ScheduleToStart timeout"

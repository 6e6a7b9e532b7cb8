"""Decisions that a run reads after an expiry, since no worker ran: each counts as of its time."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.worker import _workflow
from temporalio.worker._workflow_instance import _WorkflowLogicFlag

from holdfast.activities import find_signals
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Backend, Run, backend
from tests.support.eventually import eventually
from tests.support.identity.signing import SIGNED_PAY, Approver, write_keys
from tests.support.model_server import Answer, call

pytestmark = pytest.mark.usefixtures("ledger")

PAY, TWO = [call("pay", amount=5)], [call("pay", amount=5), call("pay", amount=5)]
ANN, BOB = {"by": "ann", "groups": ["desk"]}, {"by": "bob", "groups": ["board"]}
FORWARD = {"approvers": ["desk"], "forward": [{"after": "2s", "to": ["board"]}], "timeout": "1h"}
PAID, DENIED, EXPIRED = "ok", "denied", "approval_timeout"
Sent = tuple[str, dict[str, Any]]
YES: Sent = ("approve", {})
NO: Sent = ("deny", {})
ALWAYS: Sent = ("approve", {"remember": True})


@dataclass
class Outage:
    """What is sent before the worker stops, in time while none runs, and late; what comes of it."""

    outcome: str
    policy: dict[str, Any] = field(default_factory=dict)
    before: list[Sent] = field(default_factory=list)
    in_time: list[Sent] = field(default_factory=list)
    late: list[Sent] = field(default_factory=list)
    update: bool = False
    calls: int = 1


QUORUM = {"quorum": 2}
CASES = {
    "late approval": Outage(EXPIRED, late=[YES]),
    "late update": Outage(EXPIRED, late=[YES], update=True),
    "approval in time": Outage(PAID, in_time=[YES]),
    "approval in time, and again": Outage(PAID, in_time=[YES], late=[YES, NO]),
    "denial in time": Outage(DENIED, {"onTimeout": "approve"}, in_time=[NO], late=[YES]),
    "late denial": Outage(PAID, {"onTimeout": "approve"}, late=[NO]),
    "fails": Outage(EXPIRED, {"onTimeout": "fail"}, late=[YES]),
    "late vote": Outage(EXPIRED, QUORUM, before=[("approve", ANN)], late=[("approve", BOB)]),
    "vote in time": Outage(PAID, QUORUM, before=[("approve", ANN)], in_time=[("approve", BOB)]),
    "remembered": Outage(PAID, in_time=[ALWAYS], calls=2),
    "forwarded": Outage(PAID, FORWARD, late=[("approve", BOB)]),
}
BATCH = ("late approval", "approval in time", "denial in time", "remembered")
UNREADABLE = {
    "approval of unknown time": Outage(EXPIRED, in_time=[YES]),
    "denial of unknown time": Outage(DENIED, {"onTimeout": "approve"}, in_time=[NO]),
}


def answers(asked: int, request: dict[str, Any]) -> Answer:
    """Make the calls that the run's input names, then end."""
    if any(message["role"] == "tool" for message in request["messages"]):
        return Answer("done")
    return Answer(calls=TWO if "two" in str(request["messages"][-1]["content"]) else PAY)


class SlowHistory:
    """How times of signals are read: never on the queue `unreadable`, on `slow` once they may."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self._find = find_signals._events

    async def events(self, *asked: Any) -> Any:
        queue = activity.info().task_queue
        if queue.startswith("unreadable"):
            raise ApplicationError("no permission", non_retryable=True)
        if queue.startswith("slow"):
            self.begun.set()
            await self.may_end.wait()
        return await self._find(*asked)


@asynccontextmanager
async def workers(
    client: Client, folder: Path, queues: list[str], patch: pytest.MonkeyPatch
) -> AsyncIterator[list[Backend]]:
    """Run a worker for each queue; the second applies all jobs of a workflow task at once."""
    batch = frozenset({_WorkflowLogicFlag.PROCESS_WORKFLOW_ACTIVATION_JOBS_AS_SINGLE_BATCH})
    async with AsyncExitStack() as stack:
        started = []
        for number, queue in enumerate(queues):
            with patch.context() as flags:
                if number == 1:
                    flags.setattr(_workflow, "_DEFAULT_ENABLED_WORKFLOW_LOGIC_FLAGS", batch)
                one = backend(client, folder, answers, task_queue=queue, **SIDE_BY_SIDE)
                started.append(await stack.enter_async_context(one))
        yield started


async def begin(home: Backend, case: Outage) -> Run:
    """Start the run of a case; its approval is pending, with the previous decisions."""
    policy = {"timeout": "12s", **case.policy}
    run = await home.start(
        ["pay"], agent={"approval": policy}, input=["one", "two"][case.calls - 1]
    )
    await run.waiting(case.calls)
    for verdict, more in case.before:
        await run.decide("t1c1", verdict, **more)
    return run


async def timer_fired(run: Run) -> bool:
    """Return whether Temporal's own timer of the run has fired, which no worker has seen."""
    return any(e.event_type == EventType.EVENT_TYPE_TIMER_FIRED for e in await run.history())


async def clock_is_after(seconds: float) -> bool:
    """Return whether a time has passed."""
    return time.time() > seconds


async def is_ignored(run: Run) -> bool:
    """Return whether the run has read a decision that it rejects."""
    return any("ignored" in entry for entry in await run.context())


async def refused(run: Run, verdict: str, more: dict[str, Any]) -> ApplicationError:
    """Decide by an update, which is rejected; return why."""
    with pytest.raises(WorkflowUpdateFailedError) as failed:
        await run.decide("t1c1", verdict, **more)
    assert isinstance(failed.value.cause, ApplicationError)
    return failed.value.cause


async def check(run: Run, name: str, case: Outage) -> None:
    """Check the outcome of each call of a run, and its effects."""
    if case.policy.get("onTimeout") == "fail":
        assert (await run.failure()).type == EXPIRED
    else:
        await run.result()
        ends = [event for event in await run.events() if event["type"] == "tool_end"]
        outcomes = [event["error"]["code"] if "error" in event else PAID for event in ends]
        assert (name, outcomes) == (name, [case.outcome] * case.calls)
    paid = [line for line in tools.read() if f"{run.id}/" in line]
    assert len(paid) == (case.calls if case.outcome == PAID else 0)


async def test_a_decision_counts_as_of_its_time_if_no_worker_ran_at_the_expiry(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("order", "batch", "unreadable", "slow")
    queues = [f"{name}-{uuid.uuid4().hex[:8]}" for name in names]
    reading = SlowHistory()
    monkeypatch.setattr(find_signals, "_events", reading.events)
    slow = {"late approval, again and again": CASES["late approval"]}
    each = [CASES, {name: CASES[name] for name in BATCH}, UNREADABLE, slow]
    async with workers(client, tmp_path, queues, monkeypatch) as homes:
        pairs = [
            (home, name, case)
            for home, cases in zip(homes, each, strict=True)
            for name, case in cases.items()
        ]
        runs = await asyncio.gather(*(begin(home, case) for home, _, case in pairs))
    begun = [(run, name, case) for run, (_, name, case) in zip(runs, pairs, strict=True)]
    for run, _, case in begun:
        for verdict, more in case.in_time:
            await run.signal("t1c1", verdict, **more)
    updates = []
    for run, _, case in begun:
        await eventually(partial(timer_fired, run))
        for verdict, more in case.late:
            if case.update:
                updates.append(asyncio.create_task(refused(run, verdict, more)))
            else:
                await run.signal("t1c1", verdict, **more)

    async with workers(client, tmp_path, queues, monkeypatch):
        # A decision of a later workflow task does not hold the expiry any longer.
        held = begun[-1][0]
        await reading.begun.wait()
        await held.signal("t1c1", "approve")
        await eventually(partial(is_ignored, held))
        reading.may_end.set()
        for run, name, case in begun:
            await check(run, name, case)
        for update in updates:
            error = await update
            assert error.type == "already_decided"
            assert "the approval of call t1c1 expired at" in error.message


async def test_a_signed_decision_counts_if_its_token_was_valid_when_it_was_sent(
    client: Client, tmp_path: Path
) -> None:
    ann = Approver()
    write_keys(tmp_path / "jwks.json", ann)
    keys = tmp_path / "keys.yaml"
    keys.write_text("staff: {file: jwks.json, leeway: 1s}")
    at = {"task_queue": f"signed-{uuid.uuid4().hex[:8]}", "keys": str(keys), **SIDE_BY_SIDE}
    pays = [Answer(calls=[call("pay_out", amount=5)]), Answer("paid")]
    tool = {**SIGNED_PAY, "_approval": {"signed": True, "timeout": "12s"}}
    async with backend(client, tmp_path, pays, **at) as home:
        run = await home.start([tool])
        [waiting] = await run.waiting()
    expiry = int(time.time()) + 5
    await run.signal("t1c1", "approve", token=ann.on(run.id, waiting, exp=expiry))
    await eventually(partial(timer_fired, run))
    await eventually(partial(clock_is_after, expiry + 1))

    async with backend(client, tmp_path, pays, **at):
        assert (await run.result())["output"] == "paid"
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]


async def test_a_late_message_by_update_finds_its_conversation_ended(
    client: Client, tmp_path: Path
) -> None:
    at: dict[str, Any] = {"task_queue": f"idle-{uuid.uuid4().hex[:8]}", **SIDE_BY_SIDE}
    talk: dict[str, Any] = {"conversation": {"idleTimeout": "2s"}}
    async with backend(client, tmp_path, [Answer("hello")], **at) as home:
        runs = [await home.start(**talk), await home.start(**talk)]
        for run in runs:
            await run.idle()
    await runs[0].handle.signal("message", "more")
    for run in runs:
        await eventually(partial(timer_fired, run))
    late = [asyncio.create_task(run.handle.execute_update("send", "late")) for run in runs]

    async with backend(client, tmp_path, lambda asked, request: Answer(f"{asked}"), **at):
        outcomes = await asyncio.gather(*late, return_exceptions=True)
        assert "no open conversation" in str(getattr(outcomes[1], "cause", None))
        assert (await runs[1].result())["output"] == "hello"
        assert isinstance(outcomes[0], str), "a message that was sent in time continued it"
        await runs[0].handle.signal("close")
        await runs[0].result()

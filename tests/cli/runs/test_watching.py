"""A run is watched from outside: what happens as it happens, for as long as it lasts."""

import asyncio
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import (
    Client,
    DescribeWorkflowInput,
    Interceptor,
    OutboundInterceptor,
    WorkflowExecutionDescription,
)
from temporalio.service import RPCError, RPCStatusCode

from holdfast.cli.prompts.answers import AnswerSource, Approver
from holdfast.cli.prompts.question_loop import ApprovalPrompts
from holdfast.cli.run_commands import without_calls
from holdfast.cli.screens import follow as following
from holdfast.cli.screens.follow import RunFollower, follow
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client import remote_run
from holdfast.client.errors import NO_SUCH, UNREACHABLE, BusyWorkerError, HoldfastError
from holdfast.client.remote_run import Entry, RunStart, queued_request
from holdfast.client.result import RunEnding
from holdfast.client.run import PendingCall
from holdfast.client.run import Run as ClientRun
from holdfast.client.stream import run_watch
from holdfast.client.stream.heartbeats import PendingActivity
from holdfast.client.stream.run_watch import MAX_LOST_LOOKS, RunDescription, RunWatches
from holdfast.runtime.text_safety import format_clock
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decision, PendingApproval, Receipt
from holdfast.schemas.names import request_queue
from holdfast.schemas.run import RunReport
from tests.cli.conftest import Holdfast
from tests.support.backend import Launch
from tests.support.eventually import eventually
from tests.support.inbox import watches
from tests.support.model_server import MANY, Answer, call

PAYS = [Answer("I pay.", [call("pay", amount=5), call("pay", amount=6)]), Answer("Paid.")]
PAYS_ONE = [Answer("I pay.", [call("pay", amount=5)]), Answer("Paid.")]


GROWING = {
    "status": "awaiting_approval",
    "pending": [{"callId": "t1c1", "kind": "call", "tool": "pay", "label": "Pay"}],
}


class Keyboard:
    """A pipe for answers, whose end stays open until it is closed."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self.answers = AnswerSource(self._reading, Approver("anna"))

    def type(self, text: str) -> None:
        os.write(self._writing, text.encode())

    def hang_up(self) -> None:
        os.close(self._writing)
        self._writing = -1

    def close(self) -> None:
        for end in (self._reading, self._writing):
            if end >= 0:
                os.close(end)


@pytest.fixture
def keyboard() -> Iterator[Keyboard]:
    board = Keyboard()
    yield board
    board.close()


async def written(out: io.StringIO, text: str) -> None:
    async def is_there() -> bool:
        return text in out.getvalue()

    await eventually(is_there)


async def test_a_run_without_a_worker_is_watched_all_the_same(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 0.2)
    run = await client.start_workflow("AgentWorkflow", {}, id="alone", task_queue="empty")
    out = io.StringIO()

    async def end() -> None:
        await written(out, "no worker answers queries")
        await run.terminate(reason="enough")

    code, _ = await asyncio.gather(
        follow(ClientRun(client, run.id), out=PlainScreen(out, run.id)), end()
    )

    assert code == 1
    silence = "no worker answers queries on task queue empty; start one"
    assert out.getvalue().count(silence) == 1
    assert "terminated: enough" in out.getvalue()


@pytest.mark.parametrize(("seconds", "told"), [(2, 0), (20, 1)])
async def test_a_busy_worker_has_time_to_repeat_a_task_before_it_is_reported(
    monkeypatch: pytest.MonkeyPatch, seconds: int, told: int
) -> None:
    now = iter(range(0, 1000, seconds))
    monkeypatch.setattr(following, "monotonic", lambda: next(now))
    monkeypatch.setattr(run_watch, "FASTEST_SECONDS", 0)
    out, looks = io.StringIO(), iter(range(5))

    class Busy(Asked):
        async def observe(self) -> RunDescription:
            return RunDescription(("r", 1), next(looks) == 4, streaming=None)

        async def status(self) -> RunReport:
            raise BusyWorkerError("desk", 7)

        async def page(self, log: str, after: int, limit: int) -> list[Entry]:
            return []

        async def ending(self, *, unread: str = "", execution: str = "") -> RunEnding:
            return RunEnding("cancelled")

    run, screen = Busy(), PlainScreen(out, "run-1")
    await RunFollower(run, screen, ApprovalPrompts(run, screen, None)).follow()

    assert out.getvalue().count("a worker does not answer, though one polled") == told


async def test_a_workflow_that_is_no_run_of_an_agent_is_distinguished(
    client: Client, holdfast: Holdfast
) -> None:
    await client.start_workflow("Other", id="other", task_queue="empty")

    nothing, other = await holdfast("watch", "nothing"), await holdfast("watch", "other")

    assert nothing.code == other.code == 4
    assert nothing.err == "holdfast: there is no run nothing; holdfast list shows the runs\n"
    assert "other is a Other, not an agent's run" in other.err


async def test_when_the_answers_end_the_run_is_left_waiting(
    client: Client, launch: Launch, keyboard: Keyboard
) -> None:
    backend = await launch(PAYS)
    run = await backend.start(["pay"])
    out = io.StringIO()
    keyboard.type("y\n")
    keyboard.hang_up()

    code = await follow(
        ClientRun(client, run.id), out=PlainScreen(out, run.id), ask=keyboard.answers
    )

    assert code == 1
    assert [waiting["callId"] for waiting in await run.waiting()] == ["t1c2"]
    told = out.getvalue().partition("The input has ended")[2]
    assert f"holdfast decide {run.id} t1c2 approve|deny|edit|respond" in told
    assert f"holdfast watch {run.id}" in told


WAITS = " waiting    for its turn at the model (maxRequestsPerMinute)\n"


def pending(queue: str, *, attempt: int = 1, started: bool = False) -> PendingActivityInfo:
    """A request on a queue: given to a worker, or not."""
    made = PendingActivityInfo(activity_id="7", attempt=attempt)
    made.activity_options.task_queue.name = queue
    made.state = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    if started:
        made.state = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    return made


def test_only_a_request_that_no_worker_has_received_is_queued() -> None:
    limited = request_queue("desk", "claude")
    assert queued_request("desk", [pending("desk"), pending(limited)]) == "7"
    assert queued_request("desk", [pending("desk")]) is None
    assert queued_request("desk", [pending(limited, started=True)]) is None
    assert queued_request("desk", [pending(limited, attempt=2)]) is None, "it is made again, later"


ASKED = {"requestedAt": "2026-01-01T10:00:00Z", "expiresAt": "2026-01-08T10:00:00Z"}
CALL = {"callId": "t1c1", "kind": "call", "tool": "pay", "label": "Pay", **ASKED}
AWAY = HoldfastError("Temporal does not answer", "check it", UNREACHABLE)


def waiting(amount: int = 4, **more: Any) -> PendingApproval:
    arguments = {"amount": amount}
    digest = sha256(canonical_json({"tool": "pay", "arguments": arguments}))
    return PendingApproval.read(
        {**CALL, "arguments": arguments, "digest": digest, "quorum": 2, **more}
    )


@dataclass
class Asked(ClientRun):
    """A run that nothing happens in but what is decided. `lost` is what comes of its next looks."""

    id: str = "run-1"
    waits: list[PendingCall] = field(default_factory=list)
    lost: list[HoldfastError] = field(default_factory=list)
    decided: list[Decision] = field(default_factory=list)
    _watches: RunWatches = field(default_factory=watches)

    async def observe(self) -> RunDescription:
        if self.lost:
            raise self.lost.pop()
        return RunDescription(("r", 1), closed=False, streaming=None)

    async def approvals(self) -> list[PendingCall]:
        return self.waits

    async def decide(self, decision: Decision, update_id: str | None = None) -> Receipt:
        self.decided.append(decision)
        return Receipt(
            call_id=decision.call_id, decision=decision.decision, decided=False, missing=1
        )


@pytest.fixture
def answers() -> Iterator[AnswerSource]:
    reading, writing = os.pipe()
    os.write(writing, b"a\n" * 9)
    os.close(writing)
    yield AnswerSource(reading, Approver("anna"))
    os.close(reading)


async def test_a_question_is_put_once_and_again_when_it_is_another(answers: AnswerSource) -> None:
    run = Asked()
    people = ApprovalPrompts(run, PlainScreen(io.StringIO(), run.id), answers)
    later = {**ASKED, "requestedAt": "2026-01-02T10:00:00Z"}
    for one in (waiting(), waiting(), waiting(5), waiting(5, **later), waiting(5, **later)):
        assert await people.ask_new([one])
    assert [one.digest for one in run.decided] == [
        *(waiting().digest, waiting(5).digest, waiting(5).digest),
    ]


async def test_what_led_to_a_question_is_drawn_before_it() -> None:
    class Growing(Asked):
        """A run that has requested a second approval since it returned its status."""

        async def status(self) -> RunReport:
            return RunReport.read({**GROWING, "log": {"entries": 1}})

        async def page(self, log: str, after: int, limit: int) -> list[Entry]:
            entries = [{"n": n, "type": "notice", "text": f"note {n}"} for n in (1, 2)]
            return entries[after : after + limit]

    run, out = Growing(), io.StringIO()
    screen = PlainScreen(out, run.id)
    follower = RunFollower(run, screen, ApprovalPrompts(run, screen, None))
    await follower._catch_up(await run.observe())
    assert "note 2" in out.getvalue()


async def test_who_has_decided_on_it_already_is_not_asked(answers: AnswerSource) -> None:
    run = Asked()
    people = ApprovalPrompts(run, PlainScreen(io.StringIO(), run.id), answers)
    one = {"decision": "approve", "at": ASKED["requestedAt"], "digest": waiting().digest}
    await people.ask_new([waiting(decisions=[{**one, "by": "anna"}])])
    assert run.decided == []
    other = {**one, "digest": waiting(5).digest}
    await people.ask_new([waiting(5, decisions=[{**other, "by": "bea"}, other])])
    assert [each.by for each in run.decided] == ["anna"]
    edited = {**one, "digest": waiting(6).digest, "decision": "edit", "by": "bea"}
    await people.ask_new([waiting(6, decisions=[{**one, "by": "anna"}, edited])])
    assert len(run.decided) == 2, "the edit of another person restarts the count"


async def test_what_is_left_of_a_plan_is_approved_as_it_was_read() -> None:
    shown = {"tool": "plan", "arguments": {"calls": [{"id": "t1c1"}, {"id": "t1c2"}]}}
    digest = sha256(canonical_json({**shown, "kind": "plan", "round": 1}))
    plan = PendingApproval.read(
        {**CALL, **shown, "callId": "t1-plan", "kind": "plan", "digest": digest}
    )
    meant = Decision(call_id="t1-plan", decision="approve")
    left = without_calls(meant, plan, ["t1c2"])
    assert (left.decision, left.arguments, left.digest) == (
        *("edit", {"calls": [{"id": "t1c1"}]}, digest),
    )


@dataclass
class Ending(Asked):
    """A run that ends after some looks: the time, and the request that waits."""

    looks_before: list[tuple[float, str | None]] = field(default_factory=list)
    now: float = 0.0

    async def observe(self) -> RunDescription:
        look = await super().observe()
        if not self.looks_before:
            return replace(look, closed=True)
        self.now, queued = self.looks_before.pop(0)
        return replace(look, queued_request=queued)

    async def status(self) -> RunReport:
        return RunReport(status="running")

    async def page(self, log: str, after: int, limit: int) -> list[Entry]:
        return []

    async def ending(self, *, unread: str = "", execution: str = "") -> RunEnding:
        return RunEnding("cancelled")

    async def drawn(self) -> str:
        """All that is drawn of it to its end."""
        out = io.StringIO()
        screen = PlainScreen(out, self.id)
        follower = RunFollower(self, screen, ApprovalPrompts(self, screen, None))
        assert await follower.follow() == 1
        return out.getvalue()


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([(0, "1"), (0.9, "1")], 0),
        ([(0, "1"), (0.9, "1"), (1.1, "1"), (60, "1"), (61, None)], 1),
        ([(0, "1"), (2, "1"), (3, "2"), (3.9, "2")], 1),
        ([(0, "1"), (2, "1"), (3, "2"), (4.1, "2")], 2),
    ],
)
async def test_each_request_that_waits_long_for_its_turn_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, looks: list[tuple[float, str | None]], told: int
) -> None:
    run = Ending(looks_before=looks)
    monkeypatch.setattr(following, "monotonic", lambda: run.now)
    monkeypatch.setattr(run_watch, "FASTEST_SECONDS", 0)
    assert (await run.drawn()).count(WAITS) == told


AT = datetime(2026, 1, 2, 10, 0, tzinfo=UTC)


@dataclass
class Failing(Ending):
    """A run with these failing activities in its looks, one after the other."""

    failing: list[list[PendingActivity]] = field(default_factory=list)

    async def observe(self) -> RunDescription:
        look = await super().observe()
        if not self.failing:
            return look
        return replace(look, closed=False, failing=self.failing.pop(0))


async def test_a_failure_of_an_activity_is_written_each_time_that_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_watch, "FASTEST_SECONDS", 0)

    def request(attempt: int, failure: str, **more: Any) -> PendingActivity:
        return PendingActivity("7", "generate", AT, "", attempt, last_failure=failure, **more)

    waits = {"is_started": False, "next_attempt_at": AT}
    call = PendingActivity("t1c1", "pay", AT, "", 4, last_failure="down", is_paused=True)
    looks = [
        [],
        [request(2, "busy", **waits)],
        [request(3, "busy", **waits)],
        [request(3, "broken"), call],
        [],
        [call, PendingActivity("t1c2", "pay", AT, "gone-queue", is_started=False)],
    ]
    lines = (await Failing(failing=looks).drawn()).splitlines()
    clock = format_clock(AT.isoformat())
    assert [line.partition(" waiting    ")[2] for line in lines if " waiting " in line] == [
        f"for attempt 2 of the model's answer at {clock} UTC; the last one failed: busy",
        "for attempt 3 of the model's answer (running); the last one failed: broken",
        "for attempt 4 of t1c1 (paused); the last one failed: down",
        "for a worker on task queue gone-queue to take t1c2",
    ]


async def test_a_request_that_is_made_again_later_is_watched_and_shown_with_its_failure(
    client: Client, launch: Launch, holdfast: Holdfast
) -> None:
    slow = Answer(status=429, body={"error": "slow down"}, headers={"retry-after": "600"})
    backend = await launch([slow])
    run = await backend.start([])
    out = io.StringIO()
    watching = asyncio.create_task(follow(ClientRun(client, run.id), out=PlainScreen(out, run.id)))
    await written(out, "answered 429: slow down")
    shown = (await holdfast("show", run.id)).out
    await run.handle.terminate()
    assert await watching == 1
    for text in (out.getvalue(), shown):
        assert re.search(
            r"waiting +for attempt 2 of the model's answer at \d\d:\d\d:\d\d UTC; the", text
        )
        assert text.count("answered 429: slow down") == 1


async def test_a_watch_waits_for_an_unreachable_server_and_for_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_watch, "SLOWEST_SECONDS", 0)
    most, away = MAX_LOST_LOOKS, "Temporal does not answer; check it; still trying"
    assert (await Ending(lost=[AWAY] * (most - 1)).drawn()).count(away) == most - 1
    with pytest.raises(HoldfastError, match="does not answer"):
        await Ending(lost=[AWAY] * most).drawn()
    with pytest.raises(HoldfastError, match="there is no run"):
        await Ending(lost=[HoldfastError("there is no run", "see", NO_SUCH)]).drawn()


class Retention(Interceptor):
    """A server that has removed every part of a run but its latest."""

    def intercept_client(self, next_: OutboundInterceptor) -> OutboundInterceptor:
        return _Forgetful(next_)


class _Forgetful(OutboundInterceptor):
    async def describe_workflow(self, input: DescribeWorkflowInput) -> WorkflowExecutionDescription:
        if input.run_id:
            raise RPCError("workflow execution not found", RPCStatusCode.NOT_FOUND, b"")
        return await super().describe_workflow(input)


async def test_of_a_run_whose_first_parts_were_removed_the_latest_start_is_known(
    client: Client, launch: Launch
) -> None:
    looks = [Answer(calls=[call("look_up", id=7)])] * 4
    backend = await launch([*looks, Answer("Done.")], continue_after=20)
    run = await backend.start(["look_up"], agent=MANY)
    first = await run.handle.describe()
    await run.result()
    last, config = await run.handle.describe(), client.config()
    config["interceptors"] = [Retention()]
    assert await ClientRun(client, run.id).start_info() == RunStart(first.start_time, None)
    left = await ClientRun(Client(**config), run.id).start_info()
    assert left == RunStart(last.start_time, None)
    assert last.start_time > first.start_time

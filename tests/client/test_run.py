"""How long a run is queried, and what is reported where it does not answer (§11)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
from temporalio import exceptions
from temporalio.api.workflowservice.v1 import ResetStickyTaskQueueRequest
from temporalio.client import (
    Client,
    Interceptor,
    OutboundInterceptor,
    QueryWorkflowInput,
    WorkflowExecution,
    WorkflowExecutionCount,
    WorkflowFailureError,
    WorkflowQueryFailedError,
)
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, TimeoutType
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client import remote_run
from holdfast.client.errors import (
    RUN_FAILED,
    UNREACHABLE,
    BusyWorkerError,
    HoldfastError,
    NoWorkerError,
)
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.remote_run import NO_WORKER_SECONDS, Entry
from holdfast.client.result import (
    RunEnding,
    RunFailedError,
    ending_lines,
    ending_of_failure,
    ending_of_result,
)
from holdfast.client.run import Run
from holdfast.client.run_lists import (
    ANSWER,
    RunFilter,
)
from holdfast.client.start import (
    MAX_STATE_CHARACTERS,
    StartRequest,
    environment_caller,
    trace_caller,
)
from holdfast.client.stream.run_watch import RunWatches
from holdfast.schemas import names
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import CallRequest, RunReport, RunRequest, Spent
from tests.support.backend import SIDE_BY_SIDE, backend
from tests.support.inbox import watches
from tests.support.model_server import Answer


@dataclass
class FailingQueries:
    """A Temporal that fails so, one query after the other, and then answers."""

    fails: list[RPCStatusCode | Exception]
    given: list[timedelta] = field(default_factory=list)
    said: Any = field(default_factory=lambda: {"status": "running"})
    data_converter: DataConverter = DataConverter.default
    namespace: str = "default"
    resets: list[ResetStickyTaskQueueRequest] = field(default_factory=list)

    @property
    def workflow_service(self) -> Self:
        return self

    async def reset_sticky_task_queue(
        self, request: ResetStickyTaskQueueRequest, timeout: timedelta
    ) -> None:
        self.resets.append(request)

    def get_workflow_handle(self, run_id: str) -> Self:
        return self

    async def describe(self) -> SimpleNamespace:
        return SimpleNamespace(workflow_type=names.CALL_WORKFLOW)

    async def query(self, name: str, *, rpc_timeout: timedelta, **_: Any) -> Any:
        self.given.append(rpc_timeout)
        if self.fails:
            failure = self.fails.pop(0)
            raise failure if isinstance(failure, Exception) else RPCError("no", failure, b"")
        return self.said


def run(temporal: FailingQueries) -> Run:
    return Run(cast(Client, temporal), "run-1")


async def test_a_query_that_got_lost_is_asked_again_within_its_time() -> None:
    temporal = FailingQueries([RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED])
    assert await run(temporal).status() == RunReport(status="running")
    assert len(temporal.given) == 3
    assert sum(temporal.given, timedelta()) == timedelta(seconds=NO_WORKER_SECONDS)
    assert [each.execution.workflow_id for each in temporal.resets] == ["run-1"]


async def test_a_query_that_got_lost_once_leaves_the_run_with_its_worker() -> None:
    temporal = FailingQueries([RPCStatusCode.DEADLINE_EXCEEDED])
    assert await run(temporal).status() == RunReport(status="running")
    assert temporal.resets == []


async def test_a_run_that_its_worker_replays_is_asked_again_and_not_for_ever() -> None:
    replayed = WorkflowQueryFailedError(names.AHEAD_MESSAGE)
    assert await run(FailingQueries([replayed])).status() == RunReport(status="running")
    always = FailingQueries([replayed] * 100)
    with pytest.raises(HoldfastError, match="does not answer `status`: a query moved"):
        await run(always).status()
    assert len(always.given) == remote_run._UNSEEN_TRIES


async def test_a_server_that_is_asked_too_much_is_no_reason_to_give_the_run_up() -> None:
    with pytest.raises(HoldfastError, match="has too much to do: no; try again") as refused:
        await run(FailingQueries([RPCStatusCode.RESOURCE_EXHAUSTED])).status()
    assert refused.value.exit_code == UNREACHABLE


async def test_a_pending_approval_of_another_version_is_reported_as_such() -> None:
    with pytest.raises(HoldfastError, match="of run run-1 are of another version") as refused:
        await run(FailingQueries([], said=[{"kind": "of tomorrow"}])).approvals()
    assert refused.value.exit_code == RUN_FAILED


UNSEEN = "no poller seen for task queue recently, worker may be down"


class Overlooking(Interceptor):
    """Temporal, where it has seen no poller for a while, and reports that so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def intercept_client(self, next_: OutboundInterceptor) -> OutboundInterceptor:
        overlooking = self

        class Queries(OutboundInterceptor):
            async def query_workflow(self, input: QueryWorkflowInput) -> Any:
                overlooking.times -= 1
                if overlooking.times >= 0:
                    raise RPCError(UNSEEN, RPCStatusCode.FAILED_PRECONDITION, b"")
                return await super().query_workflow(input)

        return Queries(next_)


def overlooked(client: Client, run_id: str, overlooking: Overlooking) -> Run:
    """A run, by a client whose server overlooks workers."""
    return Run(Client(**(client.config() | {"interceptors": [overlooking]})), run_id)


async def test_a_worker_that_is_overlooked_is_asked_again_and_not_for_ever(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "_UNSEEN_PAUSE_SECONDS", 0)
    async with backend(client, tmp_path, [Answer("Done.")], **SIDE_BY_SIDE) as made:
        run = await made.start([])
        await run.result()
        seen = overlooked(client, run.id, Overlooking(remote_run._UNSEEN_TRIES - 1))
        assert (await seen.status()).status == "completed"
        overlooking = Overlooking(1000)
        with pytest.raises(BusyWorkerError, match="a worker does not answer, though one polled"):
            await overlooked(client, run.id, overlooking).status()
        assert 1000 - overlooking.times == remote_run._UNSEEN_TRIES


async def test_a_task_queue_that_no_worker_polled_is_not_queried_again(
    client: Client,
) -> None:
    await client.start_workflow("AgentWorkflow", {}, id="unseen", task_queue="nobody-at-all")
    overlooking = Overlooking(1000)
    with pytest.raises(NoWorkerError):
        await overlooked(client, "unseen", overlooking).status()
    assert overlooking.times == 999


def ended(cause: BaseException) -> RunEnding:
    return ending_of_failure(WorkflowFailureError(cause=cause))


SPENT = Spent(turns=3, calls=2, usage=Usage(input_tokens=7))


@pytest.mark.parametrize(
    ("cause", "ending"),
    [
        (
            ApplicationError("too dear", SPENT.to_json(), type="budget_exceeded"),
            RunEnding("failed", "budget_exceeded", "too dear", spent=SPENT),
        ),
        (ApplicationError("no", type="denied"), RunEnding("failed", "denied", "no")),
        (ApplicationError("no", "a text", type="x"), RunEnding("failed", "x", "no")),
        (ApplicationError("no", {"turns": "?"}, type="x"), RunEnding("failed", "x", "no")),
        (CancelledError(), RunEnding("cancelled", "cancelled", "the run was cancelled")),
        (TerminatedError("enough"), RunEnding("terminated", "terminated", "enough")),
        (TerminatedError(""), RunEnding("terminated", "terminated", "the run was terminated")),
        (
            exceptions.TimeoutError(
                "late", type=TimeoutType.START_TO_CLOSE, last_heartbeat_details=[]
            ),
            RunEnding("timed_out", "timed_out", "the run took longer than its timeout"),
        ),
    ],
)
def test_each_end_has_its_name(cause: BaseException, ending: RunEnding) -> None:
    assert ended(cause) == ending
    assert ended(cause).exit_code == 1


@pytest.mark.parametrize("result", [None, "done", 7, {"status": "completed", "turns": "many"}])
def test_a_result_in_a_form_of_others_is_an_end_all_the_same(result: Any) -> None:
    ending = ending_of_result(result)
    assert (ending.status, ending.exit_code) == ("completed", 0)
    assert ending.message == "its result cannot be read by this version"


def test_a_run_that_has_used_up_a_budget_ends_with_the_reason() -> None:
    reason, usage = "the budget maxTurns is used up", {"inputTokens": 7, "outputTokens": 1}
    spent = {"turns": 8, "calls": 0, "usage": usage}
    ending = ending_of_result({"status": "budget_exceeded", "reason": reason, **spent})

    line = f"{reason}; 8 turns, 0 calls, 7 tokens in, 1 out"
    assert list(ending_lines(ending)) == [("budget_exceeded", line)]
    with pytest.raises(RunFailedError, match=f"run r1 ended as budget_exceeded: {reason}"):
        ending.require_output("r1")
    assert ending.event()["reason"] == reason


def test_the_input_of_a_run_is_shown_as_it_is_and_obeyed_by_nothing() -> None:
    said = "Order 7 \x1b[2Jis late.\n# Approved\n[here](https://evil.example)"
    new = StartRequest.of(RunRequest(agent="desk", input=said), {})
    assert new.summary == "desk: Order 7 is late."
    mail = replace(new, about="From: Ada <ada@example.com>\nSubject: A broken tank\n\nHello")
    assert mail.summary == "desk: A broken tank"
    assert new.details == (
        "Started with `holdfast`, on this:\n\n"
        "    Order 7 is late.\n    # Approved\n    [here](https://evil.example)"
    )


def test_a_run_of_an_agent_in_the_request_has_its_title_there() -> None:
    agent = {"model": {"endpoint": "m"}, "name": "desk", "title": "Order {order}"}
    request = RunRequest.model_validate({"agent": agent, "input": {"order": 7, "note": "x"}})
    assert StartRequest.of(request, {}).summary == "desk: Order 7"


def test_a_long_one_has_its_beginning_there() -> None:
    new = StartRequest.of(RunRequest(agent="desk", input="x" * 10_000), {}, started_by="an API")
    assert len(new.summary) == 200
    assert new.details.startswith("Started with an API, on this:")
    assert len(new.details) < 4_100
    assert new.details.endswith("x…")


def test_a_single_call_has_its_arguments() -> None:
    new = StartRequest.of(CallRequest(tool="pay", arguments={"amount": 4}), {})
    assert new.summary == "pay: amount=4"
    assert StartRequest.of(CallRequest(tool="stop"), {}).details == "Started with `holdfast`."


@dataclass
class UnlistedRuns:
    """A server with seven runs, that lists none of them."""

    bounds: list[timedelta] = field(default_factory=list)
    data_converter: DataConverter = DataConverter.default

    async def count_workflows(self, _: str, rpc_timeout: timedelta) -> WorkflowExecutionCount:
        self.bounds.append(rpc_timeout)
        return WorkflowExecutionCount(count=7, groups=[])

    async def list_workflows(
        self, _: str, limit: int, rpc_timeout: timedelta
    ) -> AsyncIterator[WorkflowExecution]:
        self.bounds.append(rpc_timeout)
        for none in list[WorkflowExecution]():
            yield none


def client(lists: Any) -> HoldfastClient:
    return HoldfastClient(cast(Client, lists))


async def test_a_server_that_is_away_is_not_asked_for_long() -> None:
    lists = UnlistedRuns()
    await client(lists).list_runs("a = 1")
    await client(lists).count_runs("a = 1")
    assert lists.bounds == [ANSWER, ANSWER]


def test_nothing_that_cannot_be_seen_is_searched_for() -> None:
    assert RunFilter(agent="a\x1b[2J\u202eb").terms() == f' AND {names.AGENT_NAME} = "ab"'


PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_the_environment_has_the_headers_in_capitals() -> None:
    found = environment_caller({"TRACEPARENT": PARENT, "TRACESTATE": "a=1", "BAGGAGE": "who=ada"})
    assert found is not None
    assert found.header() == {"traceparent": PARENT, "tracestate": "a=1"}
    assert environment_caller({"traceparent": PARENT}) is None


@pytest.mark.parametrize("wrong", ["", "00-xyz", f"{PARENT},{PARENT}", f"{PARENT}\n"])
def test_an_invalid_header_joins_no_trace(wrong: str) -> None:
    assert trace_caller({"traceparent": wrong, "tracestate": "a=1"}) is None


@pytest.mark.parametrize("state", ["", "a=\n1", "a=é", "a" * (MAX_STATE_CHARACTERS + 1)])
def test_a_state_that_is_no_good_costs_the_trace_nothing(state: str) -> None:
    found = trace_caller({"traceparent": PARENT, "tracestate": state})
    assert found is not None
    assert found.header() == {"traceparent": PARENT}


@dataclass
class LongRun(Run):
    """A run with a log of 250 entries, of which the last may be its end."""

    ended: bool
    id: str = "run-1"
    limits: list[int] = field(default_factory=list)
    _watches: RunWatches = field(default_factory=watches)

    async def page(self, log: str, after: int, limit: int) -> list[Entry]:
        self.limits.append(limit)
        last = "done" if self.ended else "notice"
        types = [*["notice"] * 249, last]
        entries = [{"n": n, "type": type_} for n, type_ in enumerate(types, start=1)]
        return entries[after : after + limit]


@pytest.mark.parametrize(
    ("ended", "last", "limits"),
    [
        (True, inf, [200, 200]),
        (False, 250, [200, 50]),
        (False, inf, [200, 200, 200]),
    ],
    ids=["ended", "of a known length", "of an unknown length"],
)
async def test_a_log_is_read_to_its_end_and_no_further(
    ended: bool, last: float, limits: list[int]
) -> None:
    run = LongRun(ended)
    entries = run.entries(names.CONTEXT, last=last)
    assert [entry["n"] async for entry in entries] == [*range(1, 251)]
    assert run.limits == limits

"""A page of a run (§11) has a bound, whatever the run holds, and names what it leaves out."""

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.errors import EncryptedError, HoldfastError, NoWorkerError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.remote_run import RemoteRun
from holdfast.client.result import RunEnding
from holdfast.runtime.data_converter import data_converter
from holdfast.schemas import names
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import RunReport, RunResult
from holdfast.web.auth.permissions import RunAccess
from holdfast.web.auth.sessions import Person
from holdfast.web.run.routes import MAX_INSTANCES, RunPages
from holdfast.web.run.snapshot import MAX_ACTIVITIES, LoadedRun, RunInfo, read_run_info
from holdfast.web.run.view import MAX_DELEGATES, MAX_OUTPUT_CHARS, build_run_view, read_branches
from holdfast.web.services import Services

AT = datetime(2026, 3, 1, 14, 3, tzinfo=UTC)
DONE: dict[str, Any] = {"status": "completed", "turns": 1, "calls": 0, "usage": Usage()}
RUNNING, COMPLETED = WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED


class ListedRuns:
    """A server whose list of runs is this one, or that refuses to be asked for it."""

    namespace = "default"
    data_converter = data_converter

    def __init__(
        self, *runs: Any, refuses: RPCStatusCode | None = None, unknown: str | None = None
    ) -> None:
        self.runs, self.refuses, self.unknown = runs, refuses, unknown
        self.query, self.limit = "", 0

    async def list_workflows(self, query: str, limit: int, **_: Any) -> AsyncIterator[Any]:
        self.query, self.limit = query, limit
        if self.unknown is not None and self.unknown in query:
            raise RPCError("no such attribute", RPCStatusCode.INVALID_ARGUMENT, b"")
        if self.refuses is not None:
            raise RPCError("so it is", self.refuses, b"")
        for run in self.runs[:limit]:
            yield run


def delegate(id_: str, parent: str, status: Any = RUNNING, told: str = "running") -> Any:
    said = {names.AGENT_NAME: "clerk\u202e", names.AGENT_STATUS: told}
    pairs = [SimpleNamespace(key=SimpleNamespace(name=n), value=v) for n, v in said.items()]
    more = {"status": status, "start_time": AT, "typed_search_attributes": pairs}
    more |= {"task_queue": "desk", "run_id": "e", "workflow_type": names.AGENT_WORKFLOW}
    return SimpleNamespace(id=id_, parent_id=parent, **more)


ACCESS = RunAccess(Person("ann"))


def of(run_id: str, **more: Any) -> LoadedRun:
    return LoadedRun(RunInfo(run_id, "desk", AT, "running", root=more.pop("root", run_id)), **more)


def lists(*runs: Any, **more: Any) -> Any:
    return HoldfastClient(cast(Client, ListedRuns(*runs, **more)))


async def test_a_tree_has_a_bound_and_reports_that_there_are_more() -> None:
    there = lists(*(delegate(f"a.t1c{n}", "a") for n in range(MAX_DELEGATES + 50)))
    assert (await read_branches(there, of("a")))[2]
    assert there.temporal.limit == MAX_DELEGATES + 1
    assert not (await read_branches(lists(delegate("a.t1c1", "a")), of("a")))[2]


async def test_a_tree_is_of_this_run_whatever_its_id_holds() -> None:
    there = lists(delegate("x", "a"), delegate("x.t1c1", "x"), delegate("y", "b"))
    found, _, _ = await read_branches(there, of("a", root='r"\\'))
    assert 'RootWorkflowId = "r\\"\\\\"' in there.temporal.query
    assert 'ExecutionStatus != "ContinuedAsNew"' in there.temporal.query
    [one] = found
    assert (one.href, one.agent, [each.call for each in one.children]) == (
        "/run/x",
        "clerk",
        ["t1c1"],
    )


@pytest.mark.parametrize(
    ("status", "told", "shown"),
    [
        (RUNNING, "awaiting_approval", "waiting for approval"),
        (COMPLETED, "budget_exceeded", "out of budget"),
        (WorkflowExecutionStatus.TERMINATED, "running", "terminated"),
        (WorkflowExecutionStatus.CANCELED, "running", "cancelled"),
    ],
)
async def test_a_delegate_that_was_ended_from_outside_is_not_at_work(
    status: Any, told: str, shown: str
) -> None:
    [[one], _, _] = await read_branches(lists(delegate("a.t1c1", "a", status, told)), of("a"))
    assert one.status == shown


async def test_forks_are_listed_with_the_delegates_where_the_namespace_lists_them() -> None:
    fork = delegate("b", "")
    pair = SimpleNamespace(key=SimpleNamespace(name=names.FORKED_FROM), value="a")
    fork.typed_search_attributes.append(pair)
    there = lists(fork, delegate("a.t1c1", "a"))
    delegates, [one], _ = await read_branches(there, of("a"))
    assert ([each.call for each in delegates], one.href) == (["t1c1"], "/run/b")
    assert '(RootWorkflowId = "a" OR ForkedFrom = "a") AND ' in there.temporal.query

    without = lists(delegate("a.t1c1", "a"), unknown=names.FORKED_FROM)
    for _ in range(2):
        delegates, forks, _ = await read_branches(without, of("a"))
        assert ([each.call for each in delegates], forks) == (["t1c1"], [])
        assert without.temporal.query.startswith('RootWorkflowId = "a" AND ')


async def test_a_server_that_is_away_is_named() -> None:
    with pytest.raises(HoldfastError, match="Temporal does not answer"):
        await read_branches(lists(refuses=RPCStatusCode.UNAVAILABLE), of("a"))


def description(activities: list[PendingActivityInfo], **more: Any) -> Any:
    """What Temporal reports of a run in which these are running."""

    async def summary() -> str:
        return "A run"

    async def memo(_: str, default: Any) -> Any:
        return default

    raw = SimpleNamespace(
        pending_activities=activities, pending_workflow_task=SimpleNamespace(attempt=0)
    )
    said = SimpleNamespace(
        id="a",
        run_id="r",
        history_length=7,
        status=RUNNING,
        start_time=AT,
        close_time=None,
        workflow_type=names.AGENT_WORKFLOW,
        parent_id=None,
        root_id="a",
        typed_search_attributes=[],
        task_queue="q",
        static_summary=summary,
        memo_value=memo,
        raw_description=raw,
    )
    return SimpleNamespace(**vars(said) | more)


def connected(converter: Any = data_converter) -> Any:
    return SimpleNamespace(data_converter=converter)


async def test_running_activities_have_a_bound_and_a_failure_is_a_line() -> None:
    said = "no\nroute \x1b[31m" + "x" * 5_000
    one = PendingActivityInfo(activity_id="t1c1", attempt=2, last_failure=Failure(message=said))
    found = await read_run_info(connected(), description([one] * (MAX_ACTIVITIES + 1)))
    assert len(found.activities) == MAX_ACTIVITIES
    assert found.activities[0].last_failure.startswith("no route xxx")
    assert len(found.activities[0].last_failure) == 300


async def test_what_is_encrypted_leaves_the_rest_of_it_to_be_seen() -> None:
    class Locked:
        async def decode_failure(self, _: Any) -> Any:
            raise EncryptedError("it is encrypted", "name its key")

        async def decode(self, _: Any) -> Any:
            raise EncryptedError("it is encrypted", "name its key")

    async def locked(*_: Any, **__: Any) -> str:
        raise EncryptedError("it is encrypted", "name its key")

    one = PendingActivityInfo(activity_id="t1c1", last_failure=Failure(message="x"))
    one.heartbeat_details.payloads.add()
    about = description([one], static_summary=locked, memo_value=locked)
    found = await read_run_info(connected(Locked()), about)
    assert (found.id, found.summary, found.origin) == ("a", "", None)
    assert (found.activities[0].last_failure, found.activities[0].progress) == (
        "it is encrypted; name its key",
        None,
    )


@pytest.mark.parametrize(
    ("parent", "run_id", "call"),
    [("a", "a.t1c1", "t1c1"), ("a", "other", None), (None, "a.t1c1", None)],
)
def test_it_executes_the_call_that_its_id_names(
    parent: str | None, run_id: str, call: str | None
) -> None:
    assert RunInfo(run_id, "desk", AT, "running", parent=parent).call_of_parent == call


class Instances:
    """A run with so many instances; where `silent`, one that has no worker, and has `closed`."""

    def __init__(self, count: int, *, silent: bool, closed: datetime | None = AT) -> None:
        self.id, self._closed = "a", closed
        self._own: dict[str, Any] = {f"n{n}": {"of": f"n{n}"} for n in range(count)}
        self._silent = silent

    async def describe(self) -> Any:
        return SimpleNamespace(close_time=self._closed)

    async def status(self) -> Any:
        if self._silent:
            raise NoWorkerError("q")
        return RunReport(status="running", instances=list(self._own))

    async def state(self, instance: str | None = None) -> Any:
        return {} if instance is None else self._own[instance]

    async def ending(self, *, unread: str) -> RunEnding:
        result = RunResult(**DONE, instances=self._own)
        return RunEnding("completed", result=result)


def asked(**params: Any) -> Request:
    params = {"run": "a", **params}
    return Request({"type": "http", "path": "/run/a", "path_params": params, "headers": []})


@pytest.mark.parametrize("silent", [False, True], ids=["asked", "over"])
@pytest.mark.parametrize(("count", "more"), [(2, 0), (MAX_INSTANCES + 3, 3)])
async def test_a_page_shows_a_bounded_number_of_instances_and_counts_the_rest(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch, count: int, more: int, silent: bool
) -> None:
    monkeypatch.setattr(HoldfastClient, "run", lambda self, run_id: Instances(count, silent=silent))
    page = bytes((await RunPages(Services(HoldfastClient(nowhere))).state(asked())).body).decode()
    assert page.count("State of n") == 2 * (count - more), "its heading, and its label"
    assert (f"{more} more instances are not shown" in page) == bool(more)
    assert ("more instances" in page) == bool(more)


async def test_the_state_of_a_running_run_is_not_waited_for_to_its_end(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Instances(1, silent=True, closed=None)
    monkeypatch.setattr(HoldfastClient, "run", lambda self, run_id: run)
    with pytest.raises(NoWorkerError):
        await RunPages(Services(HoldfastClient(nowhere))).state(asked())


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 16).decode()


@pytest.mark.parametrize(("data", "there"), [(PNG, True), (PNG + "a", False)])
async def test_a_picture_that_cannot_be_read_is_not_there(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch, data: str, there: bool
) -> None:
    content = [{"type": "image", "mediaType": "image/png", "data": data}]
    entry = {"n": 1, "type": "message", "message": {"role": "user", "content": content}}

    async def page(self: RemoteRun, log: str, after: int, limit: int) -> list[Any]:
        return [entry]

    monkeypatch.setattr(RemoteRun, "page", page)
    asking = RunPages(Services(HoldfastClient(nowhere))).file(asked(n=1, index=0))
    if there:
        assert (await asking).body == base64.b64decode(PNG)
    else:
        with pytest.raises(HTTPException, match="This file cannot be read") as refused:
            await asking
        assert refused.value.status_code == 404


async def test_an_output_is_shown_in_part_and_so_is_what_a_run_is_called() -> None:
    result = RunResult(**DONE | {"output": "x" * 50_000})
    facts = RunInfo(
        "a", "desk", AT, "running", ended=AT, agent="n" * 5_000, principal="p\u202e\nq", root="a"
    )
    seen = LoadedRun(facts, ending=RunEnding("completed", result=result), has_answered=True)
    shown = await build_run_view(Services(lists(), temporal_ui="https://ui"), seen, ACCESS)
    assert len(shown["output"]) == MAX_OUTPUT_CHARS
    assert max(len(text) for _, text in shown["facts"]) == 200
    assert ("On behalf of", "p q") in shown["facts"]


def test_a_run_is_found_in_temporals_ui_whatever_its_id_holds() -> None:
    parts = Services(lists(), temporal_ui="https://ui/temporal/")
    assert parts.link_to("a/b?c") == "https://ui/temporal/namespaces/default/workflows/a%2Fb%3Fc"
    assert Services(lists()).link_to("a") is None

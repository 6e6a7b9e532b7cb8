"""Temporal is found as every Temporal program finds it, and given up in time."""

import asyncio
import shlex
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from holdfast.client import connection, remote_run
from holdfast.client.diagnosis import NoBuildError, NoCurrentBuildError
from holdfast.client.errors import (
    NO_SUCH,
    RUN_FAILED,
    UNREACHABLE,
    WRONG_COMMAND,
    EncryptedError,
    HasEndedError,
    HoldfastError,
    NoWorkerError,
    UnansweredRunsError,
    rpc_problem,
)
from holdfast.client.start import RunExistsError
from holdfast.web.http import serving
from holdfast.web.http.serving import open_listener
from tests.cli.conftest import Holdfast
from tests.support.eventually import eventually
from tests.support.process import PYTHON, ROOT


async def test_a_silent_server_is_given_up_in_time(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("TEMPORAL_ADDRESS", f"127.0.0.1:{silent.getsockname()[1]}")
        said = await holdfast("list")

    assert said.code == 3
    assert "no Temporal server answers at" in said.err


# `holdfast list` in five processes, which have the imports of one.
FIVE_LISTS = """
import os, sys
from holdfast.cli import main, show_commands

sys.argv = ["holdfast", "list"]
for _ in range(5):
    if os.fork() == 0:
        main.main()
print(*(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(5)))
"""


def test_the_program_exits_with_the_code_however_the_client_ends() -> None:
    """A failed connection used to abort the interpreter in two of five exits."""
    ended = subprocess.run(
        [PYTHON, "-c", FIVE_LISTS],
        env={"TEMPORAL_ADDRESS": "127.0.0.1:1"},
        capture_output=True,
        cwd=ROOT,
        check=False,
        text=True,
    )
    assert (ended.stdout, ended.stderr.count("\n")) == ("3 3 3 3 3\n", 5)


# The caller names the run.
RUN = "a run; rm -rf ~"


@pytest.mark.parametrize(
    ("error", "before"),
    [
        (HasEndedError(RUN), "; see "),
        (RunExistsError(RUN), "; see "),
        (NoWorkerError(RUN), "; start one: "),
        (NoBuildError(RUN, "desk", RUN), "to another build: "),
        (NoCurrentBuildError("desk", "desk", RUN), "; make one so: "),
    ],
)
def test_a_command_to_type_is_one_command_whatever_the_name_of_the_run(
    error: HoldfastError, before: str
) -> None:
    typed = error.line().partition(before)[2]
    assert RUN in shlex.split(typed.partition(", or choose")[0])


@pytest.mark.parametrize(
    ("status", "message", "code", "todo"),
    [
        (RPCStatusCode.NOT_FOUND, "Namespace x is not found.", UNREACHABLE, "TEMPORAL_NAMESPACE"),
        (RPCStatusCode.NOT_FOUND, "workflow not found", NO_SUCH, "holdfast list shows the runs"),
        (RPCStatusCode.UNAUTHENTICATED, "no", UNREACHABLE, "check TEMPORAL_API_KEY"),
        (RPCStatusCode.UNAVAILABLE, "gone", UNREACHABLE, "check that the server runs"),
        # It passes, so a client that follows the run stays.
        (RPCStatusCode.RESOURCE_EXHAUSTED, "rate limit", UNREACHABLE, "try again in a moment"),
        (RPCStatusCode.INVALID_ARGUMENT, "bad id", WRONG_COMMAND, "see holdfast --help"),
        (RPCStatusCode.INTERNAL, "oh", RUN_FAILED, "see its log"),
    ],
)
def test_an_error_of_the_server_has_what_to_do(
    status: RPCStatusCode, message: str, code: int, todo: str
) -> None:
    problem = rpc_problem(RPCError(message, status, b""), "a-run")
    assert (problem.exit_code, todo in problem.line()) == (code, True)


def test_of_several_runs_that_do_not_answer_the_missing_worker_is_reported() -> None:
    no_key = EncryptedError("this is encrypted", "name a key")
    error = UnansweredRunsError([no_key, NoWorkerError("desk"), no_key])
    assert error.exit_code == UNREACHABLE
    told = error.line()
    assert told.startswith("holdfast: no worker answers queries on task queue desk; start one: ")
    assert told.endswith(" (3 runs did not answer)")


GONE = "the store /srv/runs has no file 5f/5f00\x1b[2J;\nis it the right one?"
TOLD = (
    "holdfast: the worker on task queue stuck cannot continue run stuck-run: "
    "the store /srv/runs has no file 5f/5f00; is it the right one?; "
    "fix that, and the run continues by itself; the worker's log has more"
)


@workflow.defn(name="AgentWorkflow", sandboxed=False)
class Stuck:
    """A run whose every workflow task fails."""

    @workflow.run
    async def run(self, request: Any) -> None:
        raise RuntimeError(GONE)


@pytest.fixture
async def stuck(client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """A run that has failed its first task, and is failing the next ones."""
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 1)
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue="stuck", workflows=[Stuck], workflow_runner=runner):
        run = await client.start_workflow(
            "AgentWorkflow",
            {},
            id="stuck-run",
            task_queue="stuck",
            task_timeout=timedelta(seconds=2),  # by which a failed task is tried again
        )

        async def failed() -> bool:
            kinds = [event.event_type async for event in run.fetch_history_events()]
            return EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED in kinds

        await eventually(failed)
        yield run.id
        await run.terminate()


async def test_a_stuck_worker_is_reported_with_the_reason(
    client: Client, stuck: str, holdfast: Holdfast
) -> None:
    # A query is left unanswered at first, and refused once the task has failed some times.
    shown = await holdfast("show", stuck)
    assert (shown.code, shown.out, shown.err) == (3, "", f"{TOLD}\n")

    decided = await holdfast("decide", stuck, "t1c1", "approve")
    assert (decided.code, decided.err) == (3, f"{TOLD}\n")

    async def refused() -> bool:
        return (await run.describe()).raw_description.pending_workflow_task.attempt >= 3

    run = client.get_workflow_handle(stuck)
    await eventually(refused)
    shown = await holdfast("show", stuck)
    assert (shown.code, shown.err) == (3, f"{TOLD}\n")


async def test_a_worker_that_died_at_its_task_is_reported_as_such(
    client: Client, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 1)
    second = timedelta(seconds=1)
    run = await client.start_workflow(
        "AgentWorkflow", {}, id="left", task_queue="died", task_timeout=second
    )
    taken = PollWorkflowTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name="died"), identity="dies"
    )
    await client.workflow_service.poll_workflow_task_queue(taken)

    async def missed() -> bool:
        return (await run.describe()).raw_description.pending_workflow_task.attempt > 1

    await eventually(missed)
    shown = await holdfast("show", run.id)
    await run.terminate()
    assert shown.code == 3
    assert shown.err.startswith("holdfast: a worker did not finish a task of run left, though one")
    assert "if it has stopped, start one: holdfast worker --task-queue died" in shown.err


HERE = "127.0.0.1"


@asynccontextmanager
async def served(app: ASGIApp, most: int = 10) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application at work, which is stopped in the end."""
    with open_listener(HERE, 0) as listening:
        server = serving.server(app, most)
        task = asyncio.create_task(server.serve([listening]))
        address = f"http://{HERE}:{listening.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=address) as http:
            yield http
            server.should_exit = True
            async with asyncio.timeout(120):
                await task


def test_the_parts_of_a_response_do_not_wait_for_each_other() -> None:
    with open_listener(HERE, 0) as at, socket.create_connection(at.getsockname()):
        taken, _ = at.accept()
        with taken:
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def respond(send: Send, text: str) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": text.encode()})


async def from_where(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, f"{scope['scheme']} {scope['client'][0]}")


async def test_a_client_cannot_set_its_own_address() -> None:
    said = {"x-forwarded-for": "10.0.0.7", "x-forwarded-proto": "https"}
    async with served(from_where) as http:
        answer = await http.get("/", headers=said)
    assert answer.text == f"http {HERE}"
    assert "server" not in answer.headers


async def test_there_is_a_bound_to_those_who_are_answered_at_once() -> None:
    at_work, go = asyncio.Semaphore(0), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        at_work.release()
        await go.wait()
        await respond(send, "done")

    async with served(slow, most=3) as http:
        first = [asyncio.create_task(http.get("/")) for _ in range(2)]
        for _ in first:
            await at_work.acquire()
        assert (await http.get("/")).status_code == 503
        go.set()
        assert [one.status_code for one in await asyncio.gather(*first)] == [200, 200]


async def test_who_is_answered_without_end_does_not_hold_up_its_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "STOP_TIMEOUT_SECONDS", 0.1)
    started = asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        started.set()
        await asyncio.Event().wait()

    async with served(endless) as http:
        asking = asyncio.create_task(http.get("/"))
        await started.wait()
    with pytest.raises(httpx.HTTPError):
        await asking

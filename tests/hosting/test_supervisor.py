"""Several worker processes of one command: what they share, and what happens when one is lost."""

import asyncio
import os
import signal
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from holdfast.hosting import supervisor
from holdfast.hosting.process_exit import WRONG_SETUP
from holdfast.hosting.supervisor import Supervisor
from tests.support.eventually import eventually
from tests.support.process import Command, command

pytestmark = pytest.mark.usefixtures("quick_starts")
TOOLS = """
import asyncio
import os
import sys
from pathlib import Path
from pydantic import BaseModel
from temporalio import activity

PLACE = Path(__file__).parent
if "--processes=1" in sys.argv:
    with (PLACE / "imported").open("a") as imported:
        imported.write(f"{os.getpid()}\\n")
    if (PLACE / "broken").exists():
        os._exit(7)

class Nothing(BaseModel): ...

@activity.defn
async def slow(_: Nothing) -> str:
    "Begin, read what is left of standard input, wait until there is a file `go`, and end."
    with (PLACE / "started").open("a") as started:
        started.write(f"{os.getpid()}\\n")
    rest = os.read(0, 1)
    while not (PLACE / "go").exists():
        await asyncio.sleep(0.02)
    with (PLACE / "ended").open("a") as ended:
        ended.write(f"{os.getpid()}\\n")
    return f"slowly{rest.decode()}"

@activity.defn
async def stubborn(_: Nothing) -> None:
    "Heed no cancellation."
    (PLACE / "started").write_text(f"{os.getpid()}\\n")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            (PLACE / "cancelled").touch()
"""
AGENT = "---\nmodel: {endpoint: scripted}\ntools: [slow, stubborn]\n---\nBe slow.\n"
ENDPOINTS = "scripted: {provider: script, file: script.yaml, maxRequestsPerMinute: 600}\n"
SCRIPT = "- calls: [{tool: slow, arguments: {}}]\n- text: Done.\n"
POLLS = "process 1: the worker polls for tasks; process 2: the worker polls for tasks\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A worker's files: a module of tools, a catalog with one agent, and a scripted model."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/sloth.md").write_text(AGENT)
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "endpoints.yaml").write_text(ENDPOINTS)
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return tmp_path


def flags(place: Path, queue: str = "q") -> list[str]:
    return [
        *("--catalog", str(place), "--tools", str(place / "tools.py")),
        *("--endpoints", str(place / "endpoints.yaml"), "--task-queue", queue),
    ]


def dev(place: Path) -> list[str]:
    """An embedded server on free ports."""
    return ["--dev", "--dev-port", "0", "--dev-ui-port", "0", "--dev-db", str(place / "dev/t.db")]


class Workers:
    """A command with two worker processes that are ready, and its probes."""

    def __init__(
        self, client: Client, queue: str, running: Command, ready: str, probes: httpx.AsyncClient
    ) -> None:
        self._client, self.queue = client, queue
        self.command, self.ready, self._probes = running, ready, probes

    async def start(self) -> Any:
        identity, request = f"run-{uuid.uuid4().hex[:8]}", {"agent": "sloth", "input": "go"}
        return await self._client.start_workflow(
            "AgentWorkflow", request, id=identity, task_queue=self.queue
        )

    async def probe(self, path: str = "/ready") -> tuple[int, str]:
        answer = await self._probes.get(path)
        return answer.status_code, answer.text

    async def is_ready(self, text: str) -> None:
        """Wait until `/ready` has this text."""

        async def answered() -> bool:
            return text in (await self.probe())[1]

        await eventually(answered)


@asynccontextmanager
async def two_processes(client: Client, place: Path, *more: str) -> AsyncIterator[Workers]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    address, queue = client.service_client.config.target_host, f"queue-{uuid.uuid4().hex[:8]}"
    options = [*flags(place, queue), "--processes", "2", "--health", port, *more]
    async with (
        command(*options, address=address) as running,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as probes,
    ):
        ready = await running.until("holdfast worker ready")
        yield Workers(client, queue, running, ready, probes)


async def lines_of(file: Path, count: int = 1) -> list[int]:
    """The processes that have written into a file, when there are so many different ones."""

    async def written() -> list[int] | None:
        found = [int(line) for line in file.read_text().split()] if file.exists() else []
        return found if len({*found}) >= count else None

    return await eventually(written)


async def has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


async def test_both_processes_serve_behind_one_port_and_end_at_one_signal(
    client: Client, place: Path
) -> None:
    async with two_processes(client, place) as workers:
        ends = f"task queue {workers.queue}, 2 tools, 1 agent, endpoints scripted (600 a minute)"
        assert workers.ready == f"holdfast worker ready: {ends}, 2 processes"
        assert await workers.probe() == (200, POLLS)
        assert await workers.probe("/live") == (200, "the worker is alive\n")

        async def both_work() -> bool:
            await workers.start()
            return len({*await lines_of(place / "started")}) == 2

        await eventually(both_work)
        workers.command.signal(signal.SIGINT)
        await workers.is_ready("the worker is stopping")
        assert (await workers.probe("/live"))[0] == 200
        (place / "go").touch()
        assert await workers.command.end() == (0, [])
        assert workers.command.lines == [workers.ready]
    started = await lines_of(place / "started")
    assert sorted(await lines_of(place / "ended")) == sorted(started)
    assert {*started} == {*await lines_of(place / "imported")}


async def test_the_run_of_a_killed_process_ends_and_the_process_is_replaced(
    client: Client, place: Path
) -> None:
    async with two_processes(client, place) as workers:
        run = await workers.start()
        [lost] = await lines_of(place / "started")
        os.kill(lost, signal.SIGKILL)
        await workers.is_ready(": the worker is starting")
        (place / "go").touch()
        assert (await run.result())["output"] == "Done."
        await workers.is_ready(POLLS)
        *_, new = await lines_of(place / "imported", 3)
        while new not in await lines_of(place / "started"):
            assert (await (await workers.start()).result())["output"] == "Done."
        workers.command.signal()
        code, errors = await workers.command.end()
    assert code == 0
    assert any(each.endswith("ended with signal 9; it is started again in 1 s") for each in errors)


async def test_no_process_outlives_a_supervisor_that_is_killed(client: Client, place: Path) -> None:
    async with two_processes(client, place) as workers:
        processes = await lines_of(place / "imported", 2)
        workers.command.signal(signal.SIGKILL)
        for process in processes:
            await eventually(partial(has_ended, process))


async def test_a_signal_to_every_process_is_one_stop(client: Client, place: Path) -> None:
    async with two_processes(client, place) as workers:
        await workers.start()
        await lines_of(place / "started")
        processes = await lines_of(place / "imported", 2)
        for process in processes:
            os.kill(process, signal.SIGTERM)
        workers.command.signal()
        await workers.is_ready("the worker is stopping")
        (place / "go").touch()
        assert (await workers.command.end())[0] == 0
    assert len(await lines_of(place / "ended")) == 1


@pytest.mark.parametrize("is_lost", [False, True], ids=["second signal", "lost"])
async def test_a_process_that_ignores_the_stop_is_ended_and_in_the_exit_code(
    client: Client, place: Path, *, is_lost: bool
) -> None:
    (place / "script.yaml").write_text(SCRIPT.replace("slow", "stubborn"))
    async with two_processes(client, place, "--graceful-timeout", "1ms") as workers:
        await workers.start()
        [process] = await lines_of(place / "started")
        workers.command.signal()

        async def is_cancelled() -> bool:
            return (place / "cancelled").exists()

        await eventually(is_cancelled)
        if is_lost:
            os.kill(process, signal.SIGKILL)
        else:
            workers.command.signal()
        code, errors = await workers.command.end()
    assert code == 1
    line = "holdfast: a part of the process did not stop in time and was ended"
    assert errors == ([] if is_lost else [line])
    await eventually(partial(has_ended, process))


async def test_a_process_that_cannot_be_started_is_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SECONDS", 0)
    monkeypatch.setattr(os, "kill", lambda *_: None)
    monkeypatch.setattr(supervisor.WorkerProcess, "start", AsyncMock(side_effect=OSError("full")))
    made = Supervisor([], 1)
    made._ready[1].set()  # it had been ready
    await made._keep_running(1, "")
    assert made.exit_code == 1
    tries = [one for one in caplog.messages if "cannot be started: full" in one]
    assert len(tries) == supervisor.MAX_RESTARTS + 1


async def test_a_process_that_does_not_answer_fails_both_probes(
    client: Client, place: Path
) -> None:
    async with two_processes(client, place) as workers:
        process, _ = await lines_of(place / "imported", 2)
        os.kill(process, signal.SIGSTOP)
        for path in ("/live", "/ready"):
            code, text = await workers.probe(path)
            assert code == 503
            assert ": the worker does not answer" in text
        os.kill(process, signal.SIGCONT)
        await workers.is_ready(POLLS)
        assert (await workers.probe("/live"))[0] == 200


async def test_a_rate_limit_is_that_of_all_processes_together(client: Client, place: Path) -> None:
    async with two_processes(client, place) as workers:
        request = DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=f"{workers.queue}.requests.scripted"),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
            report_config=True,
        )

        async def polled() -> Any:
            found = await client.workflow_service.describe_task_queue(request)
            return found if len(found.pollers) == 2 else None

        found = await eventually(polled)
        assert found.effective_rate_limit.requests_per_second == 10
        assert {each.rate_per_second for each in found.pollers} == {10}


async def test_a_process_that_cannot_start_again_ends_the_command(
    client: Client,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setenv("TEMPORAL_ADDRESS", client.service_client.config.target_host)
    ready, processes = asyncio.Event(), Supervisor(flags(place), 2)

    async def work() -> None:
        async with processes.running(""):
            ready.set()
            await asyncio.Event().wait()

    working = asyncio.create_task(work())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
    try:
        await ready.wait()
        lost, kept = await lines_of(place / "imported", 2)
        (place / "broken").touch()
        os.kill(lost, signal.SIGKILL)
        with pytest.raises(asyncio.CancelledError):
            await working
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
    assert processes.exit_code == 7
    assert "ended with code 7 6 times, soon after each start" in capsys.readouterr().err
    assert len(await lines_of(place / "imported")) == 2 + supervisor.MAX_RESTARTS
    assert await has_ended(kept)


async def test_the_embedded_server_and_the_warnings_of_a_start_are_there_once(place: Path) -> None:
    (place / "go").touch()
    options = [*flags(place), *dev(place), "--catalog-only", "--processes", "2"]
    async with command(*options) as running:
        address = (await running.until("temporal dev server")).split()[3].removesuffix(",")
        await running.until("holdfast worker ready")
        client = await Client.connect(address)
        result = await client.execute_workflow(
            "AgentWorkflow", {"agent": "sloth", "input": "go"}, id="a", task_queue="q"
        )
        running.signal()
        code, [warning] = await running.end()
    assert result["output"] == "Done."
    assert code == 0
    assert "give it the keys of `--permits`" in warning
    assert [line.partition(":")[0] for line in running.lines] == [
        *("temporal dev server", "holdfast worker ready")
    ]


async def test_a_process_that_does_not_start_ends_the_command_with_its_code(place: Path) -> None:
    (place / "broken").touch()
    async with command(*flags(place), "--processes", "2", *dev(place)) as running:
        code, errors = await running.end()
    assert code == 7
    assert {error.partition(" process ")[2][2:] for error in errors} == {
        "ended with code 7 before all were ready; see the log above"
    }


async def test_what_does_not_load_is_reported_once_and_no_process_starts(place: Path) -> None:
    (place / "agents/sloth.md").write_text(AGENT.replace("[slow,", "[slwo,"))
    outputs = []
    for processes in ("1", "3"):
        async with command(*flags(place), "--processes", processes) as running:
            outputs.append((await running.end(), running.lines))
    assert outputs[0] == outputs[1]
    assert outputs[0][0][0] == WRONG_SETUP
    assert not (place / "imported").exists()

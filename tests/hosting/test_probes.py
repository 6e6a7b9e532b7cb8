"""A worker's probes: their answers while it starts, works, stops, and while Temporal is away."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self, cast
from unittest.mock import Mock

import httpx
import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from holdfast.activities.interceptors.auto_heartbeat import OutlivedAttempts
from holdfast.hosting.monitoring import probes
from holdfast.hosting.monitoring.probes import (
    MAX_CONNECTIONS,
    WorkerHealth,
    serve_probes,
)
from holdfast.hosting.options import ProbeAddress, read_options
from holdfast.validation.problems import FixableError
from tests.support.eventually import eventually

HERE = "127.0.0.1"


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """What a test opens, and is closed behind it."""
    async with AsyncExitStack() as stack:
        yield stack


async def answers(health: WorkerHealth, stack: AsyncExitStack) -> httpx.AsyncClient:
    """Who asks the probes of a worker that is so."""
    port = await stack.enter_async_context(serve_probes(ProbeAddress(HERE, 0), health))
    return await stack.enter_async_context(httpx.AsyncClient(base_url=f"http://{HERE}:{port}"))


async def probe(asking: httpx.AsyncClient, path: str = "/ready") -> tuple[int, str]:
    """The status of a probe, and its line."""
    answer = await asking.get(path)
    return answer.status_code, answer.text.strip()


async def test_a_worker_is_ready_from_its_start_to_its_stop(
    client: Client, stack: AsyncExitStack
) -> None:
    health, running = WorkerHealth(), [True]
    asking = await answers(health, stack)
    assert await probe(asking) == (503, "the worker is starting")
    health.started(lambda: bool(running), client, OutlivedAttempts(1))
    assert await probe(asking) == (200, "the worker polls for tasks")
    assert await probe(asking, "/live") == (200, "the worker is alive")
    running.clear()
    assert await probe(asking) == (503, "the worker has stopped")
    health.stopping()
    assert await probe(asking) == (503, "the worker is stopping")
    assert await probe(asking, "/live") == (200, "the worker is alive")


async def test_a_worker_full_of_activities_that_run_on_is_not_ready(
    client: Client, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    health, outlived = WorkerHealth(), OutlivedAttempts(2)
    asking = await answers(health, stack)
    health.started(lambda: True, client, outlived)
    hangs = [asyncio.get_running_loop().create_future() for _ in range(2)]
    counted = "activities that still run although Temporal has given up their attempts"
    outlived.add(hangs[0])
    assert outlived.full_seconds == 0
    assert await probe(asking) == (200, f"the worker polls for tasks; {counted}: 1")
    outlived.add(hangs[1])
    assert (await probe(asking))[0] == 200
    monkeypatch.setattr(probes, "MAX_FULL_SECONDS", 1e-9)
    assert await probe(asking) == (503, f"{counted}: 2; restart the worker")
    hangs[0].set_exception(ValueError("at last"))
    await asyncio.sleep(0)
    assert (await probe(asking))[0] == 200


@dataclass
class ProbedTemporal:
    """A Temporal that answers so, and how long it was given."""

    status: RPCStatusCode
    namespace: str = "default"
    given: list[timedelta] = field(default_factory=list)

    @property
    def workflow_service(self) -> Self:
        return self

    async def describe_namespace(self, _: object, timeout: timedelta = timedelta.max) -> None:
        self.given.append(timeout)
        raise RPCError("no", self.status, b"")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        # A worker that takes work need not be allowed to ask about the namespace.
        (RPCStatusCode.PERMISSION_DENIED, None),
        (RPCStatusCode.UNAVAILABLE, "Temporal does not serve the worker: UNAVAILABLE"),
        (RPCStatusCode.NOT_FOUND, "Temporal does not serve the worker: NOT_FOUND"),
    ],
)
async def test_temporal_is_asked_whether_it_serves_and_not_for_long(
    status: RPCStatusCode, why: str | None
) -> None:
    temporal, works = ProbedTemporal(status), WorkerHealth()
    works.started(lambda: True, cast(Client, temporal), OutlivedAttempts(1))
    answer = await works.ready()
    assert (None if answer.is_ok else answer.text) == why
    assert temporal.given == [timedelta(seconds=probes.ASK_TIMEOUT_SECONDS)]


async def test_temporal_is_asked_a_second_time_within_the_time_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "ASK_TIMEOUT_SECONDS", 0.01)
    asked, works = (
        Mock(side_effect=[RPCError("", RPCStatusCode.CANCELLED, b""), None]),
        WorkerHealth(),
    )

    async def answer(*_: object, **__: object) -> None:
        asked()
        await asyncio.Event().wait()

    temporal = Mock(namespace="default", workflow_service=Mock(describe_namespace=answer))
    works.started(lambda: True, temporal, OutlivedAttempts(1))
    assert (await works.ready()).text == "Temporal does not serve the worker: it does not answer"
    assert asked.call_count == 2


async def test_a_connection_that_temporal_closes_does_not_make_a_worker_unready(
    client: Client,
) -> None:
    cancelled = ProbedTemporal(RPCStatusCode.CANCELLED)
    temporal, works = Mock(wraps=client, namespace=client.namespace), WorkerHealth()
    works.started(lambda: True, temporal, OutlivedAttempts(1))

    async def close_once(request: object, timeout: timedelta) -> None:
        temporal.workflow_service = client.workflow_service
        await cancelled.describe_namespace(request, timeout)

    temporal.workflow_service = Mock(describe_namespace=close_once)
    assert (await works.ready()).is_ok
    assert len(cancelled.given) == 1
    works.started(lambda: True, cast(Client, cancelled), OutlivedAttempts(1))
    assert (await works.ready()).text == "Temporal does not serve the worker: CANCELLED"


async def test_a_strange_question_is_answered_in_a_line_and_holds_nothing_up(
    stack: AsyncExitStack,
) -> None:
    asking = await answers(WorkerHealth(), stack)
    assert await probe(asking, "/") == (404, "request /live or /ready")
    assert await probe(asking, "/live?a=b") == (200, "the worker is alive")
    assert (await asking.post("/live")).status_code == 405
    assert (await asking.head("/live")).text == ""
    assert (await asking.get("/live", headers={"x": "y" * 10_000})).status_code == 431
    host, port = asking.base_url.host, asking.base_url.port
    assert port is not None
    idle = [await asyncio.open_connection(host, port) for _ in range(MAX_CONNECTIONS)]
    reader, writer = await asyncio.open_connection(host, port)
    assert await reader.read() == b""
    assert not idle[0][0].at_eof(), "one more is not kept, and those before it are"
    for each in (writer, *(writer for _, writer in idle)):
        each.close()

    async def answered() -> bool:
        try:
            return (await probe(asking, "/live"))[0] == 200
        except httpx.TransportError:
            return False

    await eventually(answered)


async def test_who_asks_nothing_does_not_stay(
    stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "REQUEST_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(probes, "ASK_TIMEOUT_SECONDS", 0.05)
    asking = await answers(WorkerHealth(), stack)
    assert asking.base_url.port is not None
    reader, writer = await asyncio.open_connection(HERE, asking.base_url.port)
    writer.write(b"GET /live HTTP/1.1\r\n")
    async with asyncio.timeout(120):
        assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("8236", ProbeAddress(HERE, 8236)),
        ("0.0.0.0:8236", ProbeAddress("0.0.0.0", 8236)),
        ("[::]:0", ProbeAddress("::", 0)),
    ],
)
def test_where_probes_are_answered(
    text: str, where: ProbeAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_options(["--health", text]).settings.health == where
    monkeypatch.setenv("HOLDFAST_HEALTH", text)
    assert read_options([]).settings.health == where


@pytest.mark.parametrize("text", ["here:1", "0.0.0.0", "65536", "-1", "[::]", "²"])
def test_what_is_no_place_for_probes_is_refused(text: str) -> None:
    with pytest.raises(FixableError, match=r"--health.*; write a port, as 8236, or an address"):
        read_options([f"--health={text}"])


async def test_a_port_that_is_taken_stops_the_start() -> None:
    with socket.create_server((HERE, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            FixableError, match=f"{HERE} port {port} is not available: Address already"
        ):
            async with serve_probes(ProbeAddress(HERE, port), WorkerHealth()):
                pass

"""`/health`, and what the inbox measures: how much waits anywhere, and for how long."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from starlette.requests import Request
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.errors import HoldfastError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.web import monitoring
from holdfast.web.listing.pending_runs import NO_STATUS, PendingList, PendingRuns
from holdfast.web.monitoring import InboxHealth
from tests.support.traces import measured
from tests.web.listing.test_rows import run

HOUR = timedelta(hours=1)
ASKED = Request({"type": "http"})
Gauges = Callable[..., Awaitable[dict[str, float]]]


@pytest.fixture
def gauges(client: Client, monkeypatch: pytest.MonkeyPatch) -> Gauges:
    """What is measured now, as the reader's own thread does, of a server that answers so."""

    async def gauges_(answer: Any = None) -> dict[str, float]:
        if answer is not None:
            monkeypatch.setattr(PendingRuns, "read", answer)
        reader = InMemoryMetricReader()
        pending = PendingRuns(HoldfastClient(client))
        monitoring.register_gauges(Telemetry(reader=reader).meter, pending)
        found = await asyncio.to_thread(measured, reader)
        return {name: amount for name, points in found.items() for _, amount in points}

    return gauges_


@pytest.mark.parametrize(
    ("count", "oldest", "waited"),
    [(3, -HOUR, 3600), (0, -HOUR, 0), (3, HOUR, 0), (3, None, 0)],
    ids=["waiting", "none that waits", "of a clock ahead", "unknown"],
)
async def test_pending_approvals_are_counted_and_the_oldest_timed(
    gauges: Gauges, count: int, oldest: timedelta | None, waited: int
) -> None:
    async def answer(_: PendingRuns) -> PendingList:
        since = None if oldest is None else datetime.now(UTC) + oldest
        found = [run(since=since), run(since=None), run(since=since)]
        return PendingList(found[:count], count)

    assert await gauges(answer) == {
        "holdfast.approvals.waiting": count,
        "holdfast.approvals.oldest": pytest.approx(waited, abs=10 if waited else 0),
    }


async def test_a_server_that_does_not_answer_in_time_is_not_measured(
    gauges: Gauges, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_: PendingRuns) -> PendingList:
        raise HoldfastError("Temporal does not answer", "start it", 3)

    async def never(_: PendingRuns) -> PendingList:
        await asyncio.Event().wait()
        raise AssertionError

    async def lacks(_: PendingRuns) -> PendingList:
        return PendingList([run()], 1, NO_STATUS)

    assert await gauges(fails) == await gauges(lacks) == {}
    monkeypatch.setattr(monitoring, "MEASURE_SECONDS", 0.05)
    async with asyncio.timeout(120):
        assert await gauges(never) == {}


async def test_it_is_asked_of_the_server_itself(gauges: Gauges) -> None:
    found = await gauges()
    assert found["holdfast.approvals.waiting"] >= 0
    assert (found["holdfast.approvals.oldest"] > 0) <= (found["holdfast.approvals.waiting"] > 0)


async def test_a_wrong_variable_keeps_it_from_starting(client: Client) -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}
    with pytest.raises(HoldfastError, match="OTEL_EXPORTER_OTLP_ENDPOINT holds no address"):
        async with monitoring.export_metrics(PendingRuns(HoldfastClient(client)), environ):
            pass


class HealthServer:
    """A server that answers so, and is looked at so often."""

    def __init__(self, answer: Any = True) -> None:
        self.answer = answer
        self.looks = 0

    async def check_health(self, retry: bool) -> bool:
        self.looks += 1
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.Event().wait()
        return bool(self.answer)


def looking_at(server: HealthServer) -> InboxHealth:
    client: Any = SimpleNamespace(service_client=server)
    return InboxHealth(client)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (True, 200),
        (False, 503),
        (None, 503),
        (RPCError("down", RPCStatusCode.UNAVAILABLE, b""), 503),
        (RuntimeError("there was never one"), 503),
    ],
    ids=["well", "not", "silent", "down", "never there"],
)
async def test_a_probe_is_answered_whatever_the_server_does(
    monkeypatch: pytest.MonkeyPatch, answer: Any, status: int
) -> None:
    monkeypatch.setattr(monitoring, "ANSWER_TIMEOUT_SECONDS", 0.05)
    async with asyncio.timeout(120):
        assert (await looking_at(HealthServer(answer)).answer(ASKED)).status_code == status


async def test_however_many_ask_it_is_looked_at_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(monitoring, "BETWEEN_LOOKS_SECONDS", 1_000)
    server = HealthServer()
    looking = looking_at(server)
    answers = await asyncio.gather(*(looking.answer(ASKED) for _ in range(5)))
    assert {one.status_code for one in answers} == {200}
    assert server.looks == 1


async def test_what_was_down_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitoring, "BETWEEN_LOOKS_SECONDS", 0)
    server = HealthServer(False)
    looking = looking_at(server)
    assert (await looking.answer(ASKED)).status_code == 503
    server.answer = True
    assert (await looking.answer(ASKED)).status_code == 200

"""The inbox measures what waits, anywhere: how much, and for how long."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from temporalio.client import Client

from holdfast.client.command_errors import CommandError
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.web import monitoring
from tests.support.traces import measured

HOUR = timedelta(hours=1)


async def gauges(reader: InMemoryMetricReader) -> dict[str, float]:
    """What is measured now, as the reader's own thread does."""
    found = await asyncio.to_thread(measured, reader)
    return {name: amount for name, points in found.items() for _, amount in points}


async def test_what_waits_is_counted_and_the_oldest_of_it_timed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(_: Client) -> tuple[int, datetime | None]:
        return 3, datetime.now(UTC) - HOUR

    monkeypatch.setattr(monitoring, "waiting_count_and_oldest", asked)
    reader = InMemoryMetricReader()
    monitoring.register_gauges(Telemetry(reader=reader).meter, client)
    found = await gauges(reader)
    assert found["holdfast.approvals.waiting"] == 3
    assert found["holdfast.approvals.oldest"] == pytest.approx(HOUR.total_seconds(), abs=10)


async def test_a_server_that_does_not_answer_is_not_measured(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(_: Client) -> tuple[int, datetime | None]:
        raise CommandError("Temporal does not answer", "start it", 3)

    monkeypatch.setattr(monitoring, "waiting_count_and_oldest", asked)
    reader = InMemoryMetricReader()
    monitoring.register_gauges(Telemetry(reader=reader).meter, client)
    assert await gauges(reader) == {}


@pytest.mark.parametrize(
    ("count", "oldest"),
    [(0, -HOUR), (3, HOUR), (3, None)],
    ids=["none that waits", "of a clock ahead", "unknown"],
)
async def test_nothing_has_waited_for_less_than_no_time(
    client: Client, monkeypatch: pytest.MonkeyPatch, count: int, oldest: timedelta | None
) -> None:
    async def asked(_: Client) -> tuple[int, datetime | None]:
        return count, None if oldest is None else datetime.now(UTC) + oldest

    monkeypatch.setattr(monitoring, "waiting_count_and_oldest", asked)
    reader = InMemoryMetricReader()
    monitoring.register_gauges(Telemetry(reader=reader).meter, client)
    assert await gauges(reader) == {
        "holdfast.approvals.waiting": count,
        "holdfast.approvals.oldest": 0,
    }


async def test_a_server_that_takes_too_long_is_not_waited_for(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(_: Client) -> tuple[int, datetime | None]:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(monitoring, "waiting_count_and_oldest", asked)
    monkeypatch.setattr(monitoring, "MEASURE_SECONDS", 0.05)
    reader = InMemoryMetricReader()
    monitoring.register_gauges(Telemetry(reader=reader).meter, client)
    async with asyncio.timeout(10):
        assert await gauges(reader) == {}


async def test_it_is_asked_of_the_server_itself(client: Client) -> None:
    reader = InMemoryMetricReader()
    monitoring.register_gauges(Telemetry(reader=reader).meter, client)
    found = await gauges(reader)
    assert found["holdfast.approvals.waiting"] >= 0
    assert (found["holdfast.approvals.oldest"] > 0) <= (found["holdfast.approvals.waiting"] > 0)


async def test_a_wrong_variable_keeps_it_from_starting(client: Client) -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}
    with pytest.raises(CommandError, match="OTEL_EXPORTER_OTLP_ENDPOINT holds no address"):
        async with monitoring.export_metrics(client, environ):
            pass

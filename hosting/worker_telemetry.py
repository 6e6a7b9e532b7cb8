"""What a worker tells a collector: begun before its first run, sent off when it stops.

The core of Temporal's SDK measures by itself (queues, pollers, latencies), and tells the same
collector. A collector that is away is nobody's emergency: it is logged now and then, and all goes
on.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from temporalio.runtime import OpenTelemetryConfig, TelemetryConfig

from holdfast.hosting.resources import WorkerResources
from holdfast.runtime.telemetry.startup import start
from holdfast.runtime.telemetry.telemetry_settings import secrets_of_telemetry

SERVICE: Final = "holdfast-worker"


@asynccontextmanager
async def telling(house: WorkerResources) -> AsyncIterator[WorkerResources]:
    """The house with what tells the collector of it, for as long as this stands."""
    house.secrets.learn(secrets_of_telemetry(os.environ))
    telemetry = start(house.telling, SERVICE, os.environ, house.secrets)
    try:
        yield replace(house, telemetry=telemetry)
    finally:
        if telemetry is not None:
            await asyncio.to_thread(telemetry.close)


def core_metrics(house: WorkerResources) -> TelemetryConfig | None:
    """How the core of Temporal's SDK tells what it measures, under the name of the worker; None
    where nothing is measured."""
    settings, telemetry = house.telling, house.telemetry
    if telemetry is None or not settings.metrics:
        return None
    config = OpenTelemetryConfig(
        url=settings.metrics_url,
        headers=settings.headers,
        metric_periodicity=settings.interval,
        durations_as_seconds=True,
        http=True,
    )
    return TelemetryConfig(
        metrics=config, global_tags=telemetry.identity, attach_service_name=False
    )

"""The metrics of the inbox: the number of runs with pending approvals, and the longest wait.

A worker knows its own runs only; the inbox counts all of them whenever metrics are exported.
Several inboxes export the same numbers, so an aggregation takes the maximum.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from temporalio.client import Client

from holdfast.client.command_errors import CommandError, wrong_command
from holdfast.client.visibility import waiting_count_and_oldest
from holdfast.runtime.secrets import Secrets, environment_secrets
from holdfast.runtime.telemetry.metrics import OLDEST, WAITING
from holdfast.runtime.telemetry.startup import start_telemetry
from holdfast.runtime.telemetry.telemetry_settings import (
    TelemetrySettingsError,
    read_telemetry,
    telemetry_secrets,
)

SERVICE: Final = "holdfast-inbox"
# If the server takes longer, this measurement is skipped.
MEASURE_SECONDS: Final = 5.0

WaitingTotals = tuple[int, datetime | None]


@asynccontextmanager
async def export_metrics(client: Client, environ: Mapping[str, str]) -> AsyncIterator[None]:
    """Export metrics to the collector of the environment until the block ends.

    Raises:
        CommandError: a variable is invalid.
    """
    secrets = Secrets([*environment_secrets(environ), *telemetry_secrets(environ)])
    try:
        telemetry = start_telemetry(read_telemetry(environ), SERVICE, environ, secrets)
    except TelemetrySettingsError as error:
        raise wrong_command(error.wrong, error.todo) from None
    if telemetry is not None:
        register_gauges(telemetry.meter, client)
    try:
        yield
    finally:
        if telemetry is not None:
            # In a thread: the last export queries Temporal from this event loop.
            await asyncio.to_thread(telemetry.close)


def register_gauges(meter: Meter, client: Client) -> None:
    """Register the gauges, which query Temporal on every export."""
    loop = asyncio.get_running_loop()

    def asked() -> WaitingTotals | None:
        asking = asyncio.run_coroutine_threadsafe(waiting_count_and_oldest(client), loop)
        try:
            return asking.result(MEASURE_SECONDS)
        except (TimeoutError, CommandError):
            asking.cancel()
            return None  # the missing value is visible in the metrics

    _observed(meter, WAITING, "{run}", "Runs that wait for a person.", asked, _count)
    _observed(meter, OLDEST, "s", "How long the oldest question has waited.", asked, _age)


def _observed(
    meter: Meter,
    name: str,
    unit: str,
    words: str,
    asked: Callable[[], WaitingTotals | None],
    told: Callable[[WaitingTotals], float],
) -> None:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        found = asked()
        return [] if found is None else [Observation(told(found))]

    meter.create_observable_gauge(name, [observe], unit, words)


def _count(found: WaitingTotals) -> float:
    return found[0]


def _age(found: WaitingTotals) -> float:
    count, oldest = found
    if not count or oldest is None:
        return 0.0
    return max(0.0, (datetime.now(UTC) - oldest).total_seconds())

"""What others watch of the inbox: `/health` for probes, and its metrics.

The metrics are the number of runs with pending approvals, and the longest time since the newest
question of such a run: a run in a list has no other. A worker knows its own runs only; the inbox
takes those of all from its list whenever metrics are exported. Several inboxes export the same
numbers, so an aggregation takes the maximum.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from temporalio.client import Client
from temporalio.service import RPCError

from holdfast.client.errors import HoldfastError, wrong_command
from holdfast.runtime.secrets import Secrets, environment_secrets
from holdfast.runtime.telemetry.metrics import OLDEST, WAITING
from holdfast.runtime.telemetry.startup import (
    TelemetrySettingsError,
    read_telemetry,
    start_telemetry,
    telemetry_secrets,
)
from holdfast.web.listing.pending_runs import NO_STATUS, PendingList, PendingRuns

HEALTH: Final = "/health"
# The minimum between two queries, however many probes there are.
BETWEEN_LOOKS_SECONDS: Final = 1.0
ANSWER_TIMEOUT_SECONDS: Final = 2.0

SERVICE: Final = "holdfast-inbox"
# If the server takes longer, this measurement is skipped.
MEASURE_SECONDS: Final = 5.0


@asynccontextmanager
async def export_metrics(pending: PendingRuns, environ: Mapping[str, str]) -> AsyncIterator[None]:
    """Export metrics to the collector of the environment until the block ends.

    Raises:
        HoldfastError: a variable is invalid.
    """
    secrets = Secrets([*environment_secrets(environ), *telemetry_secrets(environ)])
    try:
        telemetry = start_telemetry(read_telemetry(environ), SERVICE, secrets)
    except TelemetrySettingsError as error:
        raise wrong_command(error.reason, error.fix) from None
    if telemetry is not None:
        register_gauges(telemetry.meter, pending)
    try:
        yield
    finally:
        if telemetry is not None:
            # In a thread: the last export queries Temporal from this event loop.
            await asyncio.to_thread(telemetry.close)


def register_gauges(meter: Meter, pending: PendingRuns) -> None:
    """Register the gauges, which read the list of pending approvals on every export."""
    loop = asyncio.get_running_loop()

    def register(
        name: str, unit: str, description: str, value: Callable[[PendingList], float]
    ) -> None:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            reading = asyncio.run_coroutine_threadsafe(pending.read(), loop)
            try:
                found = reading.result(MEASURE_SECONDS)
            except (TimeoutError, HoldfastError):
                reading.cancel()
                return []  # the missing value is visible in the metrics
            return [] if found.missing_attributes == NO_STATUS else [Observation(value(found))]

        meter.create_observable_gauge(name, [observe], unit, description)

    def age(found: PendingList) -> float:
        now = datetime.now(UTC)
        oldest = min((run.since for run in found.runs if run.since), default=now)
        return max(0.0, (now - oldest).total_seconds())

    register(WAITING, "{run}", "Runs that wait for a person.", lambda found: found.count)
    register(OLDEST, "s", "The longest time since the newest question of a run.", age)


class InboxHealth:
    """Queries Temporal, and caches the result for a moment."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._looking = asyncio.Lock()
        self._look_at = 0.0
        self._is_good = False

    async def answer(self, request: Request) -> Response:
        """Return 200 while Temporal answers, else 503."""
        async with self._looking:
            if time.monotonic() >= self._look_at:
                try:
                    async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
                        self._is_good = await self._client.service_client.check_health(retry=True)
                except (RPCError, RuntimeError, TimeoutError):
                    self._is_good = False  # RuntimeError: the client never connected
                self._look_at = time.monotonic() + BETWEEN_LOOKS_SECONDS
        text = "ok" if self._is_good else "Temporal does not answer"
        return JSONResponse({"status": text}, 200 if self._is_good else 503)

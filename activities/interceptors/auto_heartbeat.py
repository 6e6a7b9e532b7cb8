"""The worker's heartbeats for its activities that send none.

Without heartbeats, a lost activity is noticed only at its start-to-close timeout. So calls of this
worker's activities get a heartbeat timeout (`workflows/commands/interceptors.py`), and here the
worker sends heartbeats while they run. An activity with a heartbeat timeout of its own is left
alone: its silence must be noticed while its worker lives. The details of an activity's own
heartbeats are repeated.

A heartbeat can return that the run was cancelled. An activity that sends none is not interrupted by
that, so that a payment does not stop half-way: it runs to its end, unless the worker itself stops.
"""

import asyncio
import inspect
from collections.abc import Collection, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any

from temporalio import activity
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

from holdfast.schemas import names

# One heartbeat may be late by two thirds of the timeout, or get lost.
BEATS_PER_TIMEOUT = 3


class AutoHeartbeatInterceptor(Interceptor):
    """Sends heartbeats for the activities of these types."""

    def __init__(self, activity_types: Collection[str]) -> None:
        self._activity_types = activity_types

    def intercept_activity(self, inner: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap one execution; the SDK calls this."""
        return _WithHeartbeats(inner, self._activity_types)


class _WithHeartbeats(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, activity_types: Collection[str]) -> None:
        super().__init__(inner)
        self._activity_types = activity_types

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self._heartbeats = _Heartbeats(outbound)
        super().init(self._heartbeats)

    async def execute_activity(self, call: ExecuteActivityInput) -> Any:
        info = activity.info()
        has_own_timeout = (
            info.activity_type not in self._activity_types or names.BEATS_ITSELF in call.headers
        )
        if has_own_timeout or info.is_local or info.heartbeat_timeout is None:
            return await super().execute_activity(call)
        self._heartbeats.start(info.heartbeat_timeout, info.heartbeat_details)
        if not inspect.iscoroutinefunction(function := call.fn):

            @wraps(function)
            def shielded(*args: Any) -> Any:
                # Not interrupted in its thread.
                with activity.shield_thread_cancel_exception():
                    return function(*args)

            call.fn = shielded
        execution = asyncio.ensure_future(super().execute_activity(call))
        try:
            return await asyncio.shield(execution)
        except asyncio.CancelledError:
            details = activity.cancellation_details()
            if details is None or details.worker_shutdown:
                execution.cancel()
            await asyncio.wait({execution})
            raise
        finally:
            self._heartbeats.stop()


class _Heartbeats(ActivityOutboundInterceptor):
    """Sends the heartbeats of one activity, and repeats them in between."""

    _timer: asyncio.TimerHandle | None = None
    _details: Sequence[Any] = ()

    def heartbeat(self, *details: Any) -> None:
        self._details = details
        super().heartbeat(*details)

    def start(self, timeout: timedelta, details: Sequence[Any]) -> None:
        """Start the heartbeats, with the last details of the attempt before."""
        self._details = details
        self._pause_seconds = timeout.total_seconds() / BEATS_PER_TIMEOUT
        self._timer = asyncio.get_running_loop().call_later(self._pause_seconds, self._repeat)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _repeat(self) -> None:
        super().heartbeat(*self._details)
        self._timer = asyncio.get_running_loop().call_later(self._pause_seconds, self._repeat)

"""The worker's heartbeats for its activities that send none.

Without heartbeats, a lost activity is noticed only at its start-to-close timeout. So calls of this
worker's activities get a heartbeat timeout (`workflows/commands/heartbeat_policy.py`), and here the
worker sends heartbeats while they run. An activity with a heartbeat timeout of its own is left
alone: its silence must be noticed while its worker lives. The details of an activity's own
heartbeats are repeated.

A heartbeat can return that the run was cancelled. An activity that sends none is not interrupted by
that, so that a payment does not stop half-way: it runs to its end, unless the worker itself stops.
"""

import asyncio
import inspect
from collections.abc import Callable, Collection, Coroutine, Sequence
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
        if not inspect.iscoroutinefunction(call.fn):
            call.fn = _shielded(call.fn)
        try:
            return await _run_to_end(super().execute_activity(call))
        finally:
            self._heartbeats.stop()


def _shielded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, not interrupted in its thread."""

    @wraps(function)
    def shielded(*args: Any) -> Any:
        with activity.shield_thread_cancel_exception():
            return function(*args)

    return shielded


async def _run_to_end(execution: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end after a cancellation, but not while the worker stops."""
    task = asyncio.ensure_future(execution)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        details = activity.cancellation_details()
        if details is None or details.worker_shutdown:
            task.cancel()
        await asyncio.wait({task})
        raise


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
        self._wait()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pause_seconds, self._beat)

    def _beat(self) -> None:
        super().heartbeat(*self._details)
        self._wait()

"""The worker's own heartbeats, for the activities that it carries out and that send none.

An activity that says nothing is missed only when its time is up. So calls of what this worker
carries out get a heartbeat timeout (`workflows/watched.py`), and here it tells the server that it
is alive, for as long as they take. One that says itself how long it may be silent is left alone:
its silence is to be noticed though its worker lives.

What an activity tells by heartbeats of its own stays as it was told: the worker repeats it.

The answer to a heartbeat may be that the activity is wanted no longer, since its run was cancelled.
One that asked for no heartbeats is not cut off by that: a payment is not to end in its middle. It
goes on to its end, unless the worker itself stops.
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

# Of each timeout: one beat may be late by two thirds of it, or get lost.
BEATS_PER_TIMEOUT = 3


class AutoHeartbeatInterceptor(Interceptor):
    """Sends heartbeats for the activities that are named `carried`."""

    def __init__(self, carried: Collection[str]) -> None:
        self._carried = carried

    def intercept_activity(self, inner: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap one execution; the SDK calls this."""
        return _Watched(inner, self._carried)


class _Watched(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, carried: Collection[str]) -> None:
        super().__init__(inner)
        self._carried = carried

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self._pulse = _Pulse(outbound)
        super().init(self._pulse)

    async def execute_activity(self, call: ExecuteActivityInput) -> Any:
        info = activity.info()
        beats_itself = info.activity_type not in self._carried or names.BEATS_ITSELF in call.headers
        if beats_itself or info.is_local or info.heartbeat_timeout is None:
            return await super().execute_activity(call)
        self._pulse.begin(info.heartbeat_timeout, info.heartbeat_details)
        if not inspect.iscoroutinefunction(call.fn):
            call.fn = _sheltered(call.fn)
        try:
            return await _to_its_end(super().execute_activity(call))
        finally:
            self._pulse.stop()


def _sheltered(carry_out: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which is not cut off in its thread."""

    @wraps(carry_out)
    def sheltered(*args: Any) -> Any:
        with activity.shield_thread_cancel_exception():
            return carry_out(*args)

    return sheltered


async def _to_its_end(carrying_out: Coroutine[Any, Any, Any]) -> Any:
    """Go on although nobody wants it any more, but not while the worker stops."""
    task = asyncio.ensure_future(carrying_out)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        details = activity.cancellation_details()
        if details is None or details.worker_shutdown:
            task.cancel()
        await asyncio.wait({task})
        raise


class _Pulse(ActivityOutboundInterceptor):
    """The heartbeats of one activity: those that it sends, and the same again in between."""

    _timer: asyncio.TimerHandle | None = None
    _told: Sequence[Any] = ()

    def heartbeat(self, *details: Any) -> None:
        self._told = details
        super().heartbeat(*details)

    def begin(self, timeout: timedelta, told: Sequence[Any]) -> None:
        """Beat from now on. `told` is what the attempt before told last: it is not to be lost."""
        self._told = told
        self._pause_seconds = timeout.total_seconds() / BEATS_PER_TIMEOUT
        self._wait()

    def stop(self) -> None:
        """Beat no longer."""
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pause_seconds, self._beat)

    def _beat(self) -> None:
        super().heartbeat(*self._told)
        self._wait()

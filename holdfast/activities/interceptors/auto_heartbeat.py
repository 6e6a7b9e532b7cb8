"""The worker's heartbeats for its activities that send none, and the end of every attempt.

Without heartbeats, a lost activity is noticed only at its start-to-close timeout. So calls of this
worker's activities get a heartbeat timeout (`workflows/commands/interceptors.py`), and here the
worker sends heartbeats while they run. An activity with a heartbeat timeout of its own is left
alone: its silence must be noticed while its worker lives. The details of an activity's own
heartbeats are repeated.

A heartbeat can return that the run was cancelled or has ended, or that an operator paused or reset
the activity. An activity that sends none is not interrupted by that, so that a payment does not
stop half-way: it runs to its end, and its result is reported.

An attempt that has timed out, and one of a worker that stops, is cancelled. The worker waits
`GRACE_SECONDS` for its end. Then its slot is free, and what still runs is counted: otherwise, calls
to a hanging service would take all slots for ever.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from datetime import timedelta
from functools import wraps
from typing import Any

from temporalio import activity
from temporalio.exceptions import CancelledError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
)

from holdfast.schemas import names

# After an attempt is cancelled.
GRACE_SECONDS = 10.0
# No event reports that a function in a thread is cancelled.
_CHECK_SECONDS = 0.5

logger = logging.getLogger("holdfast")


class OutlivedAttempts:
    """The functions that run on after their attempts: a thread cannot be interrupted.

    They take threads or memory of the worker, which can bear `most` of them.
    """

    def __init__(self, most: int) -> None:
        self._most, self._full_since = most, 0.0
        self._functions: set[asyncio.Future[Any]] = set()

    def __len__(self) -> int:
        return len(self._functions)

    @property
    def full_seconds(self) -> float:
        """Return for how long there have been too many; 0 if there are not."""
        return time.monotonic() - self._full_since if len(self) >= self._most else 0.0

    def add(self, function: asyncio.Future[Any]) -> None:
        """Count a function until it ends."""

        def forget(function: asyncio.Future[Any]) -> None:
            self._functions.discard(function)
            if not function.cancelled():
                function.exception()  # no one else reads it

        self._functions.add(function)
        function.add_done_callback(forget)
        if len(self) == self._most:
            self._full_since = time.monotonic()


class AutoHeartbeat(ActivityInboundInterceptor):
    """Ends the attempts of all activities, and sends heartbeats for those of some types."""

    def __init__(
        self,
        inner: ActivityInboundInterceptor,
        *,
        activity_types: Collection[str],
        outlived: OutlivedAttempts,
    ) -> None:
        super().__init__(inner)
        self._activity_types, self._outlived = activity_types, outlived

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        self._heartbeats = _Heartbeats(outbound)
        super().init(self._heartbeats)

    async def execute_activity(self, call: ExecuteActivityInput) -> Any:
        """Execute the activity until it ends, or is given up; the SDK calls this."""
        info = activity.info()
        is_protected = not (
            info.activity_type not in self._activity_types  # with a timeout of its own
            or names.BEATS_ITSELF in call.headers
            or info.is_local
            or info.heartbeat_timeout is None
        )
        if is_protected and info.heartbeat_timeout is not None:
            self._heartbeats.start(info.heartbeat_timeout, info.heartbeat_details)
        # What may run on: the execution, and the function if it runs in a thread.
        running: list[asyncio.Future[Any]] = []
        if is_threaded := call.executor is not None:
            call.fn = _in_thread(call.fn, running, is_protected=is_protected)
        execution = asyncio.ensure_future(super().execute_activity(call))
        running.append(execution)
        try:
            await _wait_for_end(execution, is_protected=is_protected, is_threaded=is_threaded)
        finally:
            self._heartbeats.stop()
        for function in running:
            if not function.done():
                self._outlived.add(function)
                logger.warning(
                    "`%s` (%s of %s) still runs although its attempt was cancelled",
                    *(info.activity_type, info.activity_id, info.workflow_id),
                )
        if not execution.done():
            raise asyncio.CancelledError
        return execution.result()


async def _wait_for_end(
    execution: asyncio.Future[Any], *, is_protected: bool, is_threaded: bool
) -> None:
    """Wait until an execution ends; stop waiting soon after Temporal has given the attempt up."""
    info, now = activity.info(), asyncio.get_running_loop().time
    longest = info.start_to_close_timeout or info.schedule_to_close_timeout or timedelta()
    ends_at = now() + longest.total_seconds()
    is_interrupted, is_cancelled, stops_at = False, False, float("inf")
    while now() < stops_at:
        pause = _CHECK_SECONDS if is_threaded or is_interrupted else None
        try:
            await asyncio.wait([execution], timeout=pause)
        except asyncio.CancelledError:
            is_interrupted = True
        if execution.done():
            return
        if not (is_interrupted := is_interrupted or activity.is_cancelled()):
            continue
        details = activity.cancellation_details()
        is_given_up = (
            details is None
            or (details.timed_out or details.worker_shutdown)
            # Also if the run was cancelled and has ended.
            or (details.not_found and not is_protected)
            or now() >= ends_at
        )
        if is_given_up:
            stops_at = min(stops_at, now() + GRACE_SECONDS)
        # The SDK itself interrupts a thread, unless it is shielded.
        if not (is_cancelled or is_threaded) and (is_given_up or not is_protected):
            is_cancelled = execution.cancel()
    # A task that waits for a thread ends at once, the thread does not.
    if execution.cancel():
        await asyncio.wait([execution], timeout=_CHECK_SECONDS)


def _in_thread(
    function: Callable[..., Any], running: list[asyncio.Future[Any]], *, is_protected: bool
) -> Callable[..., Any]:
    """Return the function with its run in a thread added to a list, protected from interruption."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    @wraps(function)
    def run(*args: Any) -> Any:
        running.append(ended)
        results: list[Any] = []
        try:
            # At the end of the shield, an interruption that came meanwhile is raised.
            with activity.shield_thread_cancel_exception() if is_protected else nullcontext():
                results.append(function(*args))
        except CancelledError:
            if not results:
                raise
        finally:
            loop.call_soon_threadsafe(ended.set_result, None)
        return results[0]

    return run


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
        self._pause_seconds = timeout.total_seconds() / names.BEATS_PER_TIMEOUT
        self._timer = asyncio.get_running_loop().call_later(self._pause_seconds, self._repeat)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _repeat(self) -> None:
        super().heartbeat(*self._details)
        self._timer = asyncio.get_running_loop().call_later(self._pause_seconds, self._repeat)

"""One poll per run and process: every viewer of a run gets the looks of the same poll.

    async with aclosing(run.looks()) as looks:
        async for look in looks:
            ...

Temporal is polled while a viewer waits for a look: at once for a new viewer, and where the live
answer of another request begins or this one ends; `FASTEST_SECONDS` after a change; then less and
less often. More text is no change: where it comes live, it makes a look without a poll. A viewer
that is late gets the newest look.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final, TypeVar

from holdfast.client.errors import HoldfastError
from holdfast.client.stream.heartbeats import AnswerProgress, CallProgress, PendingActivity
from holdfast.client.stream.live_answers import LiveAnswer, LiveAnswers

FASTEST_SECONDS: Final = 0.15
# A page promises a change within two seconds: this interval, and the time to load it.
SLOWEST_SECONDS: Final = 1.5
SLOWER_BY: Final = 1.6
# The SDK retries each look for ten seconds before it counts as one of these.
MAX_LOST_LOOKS: Final = 6


@dataclass(frozen=True)
class RunDescription:
    """Temporal's description of a run. `position` changes with each step of the run.

    `requests` are the activities that request a model, and `streaming` is the answer to one of
    them; `queued_request` waits for the rate limit of an endpoint. `attempts` counts the attempts
    of running activities: a failed attempt leaves no other trace. `updates` is the progress that
    the running calls reported, `failing` the activities whose last attempt failed or that no worker
    takes.
    """

    position: tuple[str, int]
    closed: bool
    streaming: AnswerProgress | None
    requests: Sequence[str] = ()
    queued_request: str | None = None
    attempts: int = 0
    updates: Sequence[CallProgress] = ()
    failing: Sequence[PendingActivity] = ()


Look = RunDescription | HoldfastError
Observe = Callable[[], Awaitable[RunDescription]]
ReadT = TypeVar("ReadT")
Read = Callable[[], Coroutine[Any, Any, ReadT]]
Reads = dict[Hashable, asyncio.Task[Any]]


class RunWatches:
    """The runs that this process watches, with the answers that it receives for them."""

    def __init__(self, live: LiveAnswers) -> None:
        self.live = live
        self._watches: dict[str, _RunWatch] = {}
        self._reads: Reads = {}

    async def looks(
        self, run_id: str, observe: Observe, most_lost: float
    ) -> AsyncGenerator[Look, None]:
        """Yield the newest look at a run, again and again; see `RemoteRun.looks`."""
        with self.live.watch(run_id) as answer:
            watch = self._watches.setdefault(run_id, _RunWatch(observe, answer))
            seen, lost = watch.poll(), 0
            try:
                while True:
                    seen = watch.after(seen)
                    look = await asyncio.shield(seen)  # other viewers wait for it, too
                    lost = lost + 1 if isinstance(look, HoldfastError) else 0
                    if isinstance(look, HoldfastError) and lost >= most_lost:
                        raise look
                    yield look
            finally:
                if answer.viewers == 1:
                    self._watches.pop(run_id).stop()

    def poll(self, run_id: str) -> None:
        """Poll a run at once if it is watched: this process has sent something to it."""
        if run_id in self._watches:
            self._watches[run_id].reads = {}
            self._watches[run_id].poll()

    async def share(
        self, run_id: str, key: Hashable, read: Read[ReadT], *, until_change: bool = False
    ) -> ReadT:
        """Return the result of a read, or of one with the same key that has not ended yet.

        Of a watched run, also of one since its last change, if `until_change`.
        """
        watch, key = self._watches.get(run_id) if until_change else None, (run_id, key)
        reads = self._reads if watch is None else watch.reads
        if key not in reads:

            def end(task: asyncio.Task[ReadT]) -> None:
                if watch is None or task.cancelled() or task.exception():
                    del reads[key]

            reads[key] = asyncio.create_task(read())
            reads[key].add_done_callback(end)
        result: ReadT = await asyncio.shield(reads[key])
        return result


class _RunWatch:
    def __init__(self, observe: Observe, answer: LiveAnswer) -> None:
        self._observe, self._answer = observe, answer
        # Those since the last change of the run.
        self.reads: Reads = {}
        self._newest: asyncio.Task[Look] | None = None
        self._polled: RunDescription | None = None
        self._known: tuple[Any, int] | None = None
        self._polled_at, self._interval_seconds = 0.0, 0.0
        # The live request at the last poll; without one, the next poll is due.
        self._polled_request: tuple[str, bool] | None = None

    def poll(self) -> asyncio.Task[Look] | None:
        """Poll at once; return the look that is too old now."""
        self._polled_request = None
        self._answer.changed.set()
        return self._newest

    def after(self, seen: asyncio.Task[Look] | None) -> asyncio.Task[Look]:
        """Return the newest look, or the next one for a viewer that has seen the newest."""
        if self._newest is None or (self._newest is seen and seen.done()):
            self._newest = asyncio.create_task(self._look())
        return self._newest

    def stop(self) -> None:
        if self._newest is not None:
            self._newest.cancel()

    async def _look(self) -> Look:
        """Wait for more of the live answer, or until a poll is due."""
        left_seconds = self._polled_at + self._interval_seconds - monotonic()
        if left_seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_seconds):
                    await self._answer.changed.wait()
                self._answer.changed.clear()
                if self._polled is not None and self._request() == self._polled_request:
                    return self._with_answer(self._polled)
        request = self._request()
        is_another_request = self._polled_request not in (None, request)
        try:
            look = self._polled = await self._observe()
        except HoldfastError as error:
            self._interval_seconds = SLOWEST_SECONDS
            return error
        finally:
            self._polled_at, self._polled_request = monotonic(), request
            self._answer.changed.clear()
        known, self._known = self._known, (look.position, look.attempts)
        has_changed = known != self._known
        if has_changed:
            self.reads = {}
        if has_changed or is_another_request:
            self._interval_seconds = FASTEST_SECONDS
        else:
            self._interval_seconds = min(self._interval_seconds * SLOWER_BY, SLOWEST_SECONDS)
        return self._with_answer(look)

    def _request(self) -> tuple[str, bool]:
        """Return the key of the live request, and whether it has ended."""
        live = self._answer.progress
        return "" if live is None else live.key, self._answer.ended

    def _with_answer(self, look: RunDescription) -> RunDescription:
        """Return a look with the live answer, where its request runs and no heartbeat has more."""
        live, beat = self._answer.progress, look.streaming
        if live is None or live.key.rpartition("/")[0] not in look.requests:
            return look
        if beat and beat.key == live.key and beat.offset + len(beat.text) > len(live.text):
            return look
        return replace(look, streaming=live)

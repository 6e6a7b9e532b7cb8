"""The heartbeat of `generate`: the answer so far, and the time budget of its retries.

Clients read the answer there, and history does not grow. The heartbeat also reports that the worker
is alive, and returns that the run was cancelled. It carries the time that all attempts waited for
their turns, and how many were answered by something that may be no model, to the next attempt.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from holdfast.providers.base import AnswerSink
from holdfast.providers.model_errors import model_error
from holdfast.providers.streamed_answer import well_formed
from holdfast.runtime.secrets import Secrets, StreamRedactor

# In the heartbeat: how long all attempts so far have waited for their turns.
WAITED_SECONDS = "waitedSeconds"
# And how many of them may fail again for ever (`model_errors.is_doubtful`).
DOUBTFUL_ATTEMPTS = "doubtfulAttempts"

MAX_TEXT_CHARACTERS = 16_000
MAX_ARGUMENTS_CHARACTERS = 2_000
MAX_SHOWN_CALLS = 20
MIN_PAUSE_SECONDS = 0.2
# The pause between heartbeats of an activity without a heartbeat timeout.
DEFAULT_PAUSE_SECONDS = 10.0


class Progress:
    """A sink that stores the end of the answer.

    `composed`: the text is an answer in composed calling, with its calls; `about` names the
    request. `waited_seconds` is how long the attempts waited for their turns, and
    `doubtful_attempts` how many may fail again.
    """

    def __init__(
        self, attempt: int, waited_seconds: float = 0.0, doubtful_attempts: int = 0
    ) -> None:
        self._attempt = attempt
        self._waited_seconds = waited_seconds
        self.doubtful_attempts = doubtful_attempts
        self.composed = False
        self.about: Mapping[str, Any] = {}
        self._text = ""
        self._offset = 0
        self._calls: dict[int, tuple[str, str]] = {}
        self.changed = asyncio.Event()

    def text(self, piece: str) -> None:
        """Receive more of the answer's text."""
        text = self._text + piece
        self._text = text[-MAX_TEXT_CHARACTERS:]
        self._offset += len(text) - len(self._text)
        self.changed.set()

    def call(self, index: int, tool: str, piece: str) -> None:
        """Receive more of the arguments of a call."""
        _, arguments = self._calls.get(index, ("", ""))
        self._calls[index] = (tool, (arguments + piece)[-MAX_ARGUMENTS_CHARACTERS:])
        if len(self._calls) > MAX_SHOWN_CALLS:
            del self._calls[min(self._calls)]
        self.changed.set()

    def details(self) -> dict[str, Any]:
        """Return the heartbeat: the end of the text, its offset, and the last calls."""
        calls = [
            {"tool": well_formed(tool), "arguments": well_formed(arguments)}
            for _, (tool, arguments) in sorted(self._calls.items())
        ]
        return {
            "text": well_formed(self._text),
            "offset": self._offset,
            "calls": calls,
            "attempt": self._attempt,
            "composed": self.composed,
            **self.about,
            WAITED_SECONDS: round(self._waited_seconds, 3),
            DOUBTFUL_ATTEMPTS: self.doubtful_attempts,
        }


class RedactingSink:
    """Passes an answer without secrets to another sink."""

    def __init__(self, sink: AnswerSink, secrets: Secrets) -> None:
        self._sink = sink
        self._secrets = secrets
        self._text = StreamRedactor(secrets)
        self._arguments: dict[int, StreamRedactor] = {}

    def text(self, piece: str) -> None:
        """Receive more of the answer's text."""
        self._sink.text(self._text.redact_next(piece))

    def call(self, index: int, tool: str, piece: str) -> None:
        """Receive more of the arguments of a call."""
        arguments = self._arguments.setdefault(index, StreamRedactor(self._secrets))
        self._sink.call(index, self._secrets.clean(tool), arguments.redact_next(piece))


@contextlib.asynccontextmanager
async def send_heartbeats(progress: Progress, timeout: timedelta | None) -> AsyncIterator[None]:
    """Send heartbeats soon after the start and each change, and within the heartbeat `timeout`.

    A model that answers at once needs none. An attempt that fails at once leaves a heartbeat: the
    next attempt reads it.
    """
    pause_seconds = timeout.total_seconds() / 3 if timeout else DEFAULT_PAUSE_SECONDS
    task = asyncio.create_task(_beat(progress, pause_seconds))
    try:
        yield
    except Exception:
        activity.heartbeat(progress.details())
        raise
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _beat(progress: Progress, pause_seconds: float) -> None:
    shortest_seconds = min(MIN_PAUSE_SECONDS, pause_seconds)
    further_seconds = 0.0  # The first does not wait for a change.
    while True:
        await asyncio.sleep(shortest_seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(further_seconds):
                await progress.changed.wait()
        progress.changed.clear()
        activity.heartbeat(progress.details())
        further_seconds = pause_seconds - shortest_seconds


class RetryBudget:
    """The time in which the running activity is retried.

    Temporal's timeout of an activity includes its wait in a task queue. At an endpoint with a rate
    limit that wait can be hours, so that timeout is long, and this budget counts only the rest.
    """

    def __init__(self, info: activity.Info, longest: timedelta) -> None:
        turn_seconds = (info.started_time - info.current_attempt_scheduled_time).total_seconds()
        self.waited_seconds = _told_before(info, WAITED_SECONDS) + max(turn_seconds, 0.0)
        self.doubtful_attempts = int(_told_before(info, DOUBTFUL_ATTEMPTS))
        # Until now by the server's clock, from now on by ours.
        before_seconds = (info.started_time - info.scheduled_time).total_seconds()
        self._asked_seconds = before_seconds - self.waited_seconds
        self._began = time.monotonic()
        self._longest = longest

    def shorten(self, longest: timedelta | None) -> None:
        """Retry for no longer than this."""
        if longest is not None:
            self._longest = min(self._longest, longest)

    def limit_retries(self, error: ApplicationError) -> ApplicationError:
        """Return the error, not retryable if there is no time for another attempt."""
        seconds = self._asked_seconds + time.monotonic() - self._began
        delay = error.next_retry_delay or timedelta()
        if error.non_retryable or seconds + delay.total_seconds() <= self._longest.total_seconds():
            return error
        return model_error(error.message)


def _told_before(info: activity.Info, what: str) -> float:
    beat: Any = next(iter(info.heartbeat_details), None)
    value = beat.get(what) if isinstance(beat, dict) else None
    if not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return max(float(value), 0.0)

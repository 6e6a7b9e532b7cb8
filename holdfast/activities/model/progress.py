"""The heartbeat of `generate`: the end of the answer so far, and the time budget of its retries.

The heartbeat reports that the worker is alive, and returns that the run was cancelled: a cancelled
request ends within a third of its heartbeat timeout, or where the worker keeps Temporal's own
throttle, within 80 % of it. It carries to the next attempt the time that all attempts waited for
their turns, how many were answered by something that may be no model, and what failed answers cost.
Each is an Action, so their number does not depend on what the model streams.
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

from holdfast.providers.answer.bounded_text import well_formed
from holdfast.runtime.secrets import Secrets, StreamRedactor
from holdfast.schemas.internal.live_answer import MAX_LIVE_CHARACTERS
from holdfast.schemas.internal.solution import FAILED_USAGE, Usage
from holdfast.schemas.names import BEATS_PER_TIMEOUT

# In the heartbeat: how long all attempts so far have waited for their turns.
WAITED_SECONDS = "waitedSeconds"
# And how many of them may fail again for ever (`model_errors.is_doubtful`).
DOUBTFUL_ATTEMPTS = "doubtfulAttempts"

# Of the text in a heartbeat, and of the arguments of each call.
MAX_SHOWN_CHARACTERS = 500
MAX_SHOWN_CALLS = 20
MAX_HEARTBEAT_CALLS = 3
# Of the text that a viewer process receives at a time.
MAX_PIECE_CHARACTERS = 32_000
# The pause between heartbeats of an activity without a heartbeat timeout.
DEFAULT_PAUSE = timedelta(seconds=10)


class Progress:
    """A sink that stores the answer without secrets, for the heartbeat and for viewer processes.

    `key` differs for each attempt at each request. `composed`: the text is an answer in composed
    calling, with its calls; `about` names the request. `waited_seconds` is how long the attempts
    waited for their turns, `doubtful_attempts` how many may fail again, and `failed_usage` what
    failed answers cost; None if there are none. `version` changes with each change, the first of
    which was output at `first_output_at`, by the monotonic clock.
    """

    def __init__(
        self,
        key: str,
        attempt: int,
        waited_seconds: float = 0.0,
        doubtful_attempts: int = 0,
        failed_usage: Usage | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        self.key, self._attempt = key, attempt
        self.waited_seconds = waited_seconds
        self.doubtful_attempts = doubtful_attempts
        self.failed_usage = failed_usage
        self.composed = False
        self.about: Mapping[str, Any] = {}
        self.version = 0
        self.first_output_at: float | None = None
        self._ended = False
        self._pieces: list[str] = []
        self._length = 0
        self._half = ""
        self._secrets = secrets or Secrets()
        self._text = StreamRedactor(self._secrets)
        self._arguments: dict[int, StreamRedactor] = {}
        self._calls: dict[int, tuple[str, str]] = {}

    def text(self, piece: str) -> None:
        """Receive more of the answer's text."""
        self.first_output_at = self.first_output_at or time.monotonic()
        text = self._half + self._text.redact_next(piece)
        # The first half of a surrogate pair: the other half is in the next piece.
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = well_formed(text.removesuffix(self._half))[: MAX_LIVE_CHARACTERS - self._length]
        self._pieces.append(text)
        self._length += len(text)
        self.version += 1

    def call(self, index: int, tool: str, piece: str) -> None:
        """Receive more of the arguments of a call."""
        self.first_output_at = self.first_output_at or time.monotonic()
        _, arguments = self._calls.get(index, ("", ""))
        redactor = self._arguments.setdefault(index, StreamRedactor(self._secrets))
        arguments = (arguments + redactor.redact_next(piece))[-MAX_SHOWN_CHARACTERS:]
        self._calls[index] = (self._secrets.clean(tool), arguments)
        if len(self._calls) > MAX_SHOWN_CALLS:
            del self._calls[min(self._calls)]
        self.version += 1

    def withdraw(self) -> None:
        """Forget what was received; viewers see that another answer starts."""
        if self._length or self._calls:
            # Viewers distinguish answers by their keys.
            self.key += "'"
        self._pieces, self._length, self._half = [], 0, ""
        self._calls.clear()
        self._text, self._arguments = StreamRedactor(self._secrets), {}
        self.version += 1

    def end(self) -> None:
        self._ended = True
        self.version += 1

    def details(self) -> dict[str, Any]:
        """Return the heartbeat: the end of the text, its offset, and the last calls."""
        end = self._part(max(0, self._length - MAX_SHOWN_CHARACTERS))
        return {
            **end,
            "calls": end["calls"][-MAX_HEARTBEAT_CALLS:],
            WAITED_SECONDS: round(self.waited_seconds, 3),
            DOUBTFUL_ATTEMPTS: self.doubtful_attempts,
            **({FAILED_USAGE: self.failed_usage.to_json()} if self.failed_usage else {}),
        }

    def piece(self, offset: int) -> dict[str, Any]:
        """Return the text from an offset on, for a viewer process, and all calls."""
        part = self._part(offset)
        is_last = offset + len(part["text"]) >= self._length
        return {**part, "key": self.key, "ended": self._ended and is_last}

    def _part(self, offset: int) -> dict[str, Any]:
        self._pieces = ["".join(self._pieces)]
        shown = [
            {"tool": well_formed(tool), "arguments": well_formed(arguments)}
            for _, (tool, arguments) in sorted(self._calls.items())
        ]
        return {
            "text": self._pieces[0][offset : offset + MAX_PIECE_CHARACTERS],
            "offset": offset,
            "calls": shown,
            "attempt": self._attempt,
            "composed": self.composed,
            **self.about,
        }


@contextlib.asynccontextmanager
async def send_heartbeats(progress: Progress, timeout: timedelta | None) -> AsyncIterator[None]:
    """Send a heartbeat at each third of the heartbeat `timeout`.

    A model that answers sooner needs none. An attempt that fails leaves a heartbeat: the next
    attempt reads it.
    """
    pause_seconds = (timeout / BEATS_PER_TIMEOUT if timeout else DEFAULT_PAUSE).total_seconds()

    async def beat() -> None:
        # A long wait for a turn is passed on at once: this worker may die before the first pause
        # ends.
        if progress.waited_seconds < pause_seconds:
            await asyncio.sleep(pause_seconds)
        while True:
            activity.heartbeat(progress.details())
            await asyncio.sleep(pause_seconds)

    task = asyncio.create_task(beat())
    try:
        yield
    except Exception:
        activity.heartbeat(progress.details())
        raise
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class RetryBudget:
    """The time in which the running activity is retried.

    Temporal's timeout of an activity includes its wait in a task queue. At an endpoint with a rate
    limit that wait can be hours, so that timeout is long, and this budget counts only the rest.
    """

    def __init__(self, info: activity.Info, longest: timedelta) -> None:
        turn_seconds = (info.started_time - info.current_attempt_scheduled_time).total_seconds()
        beat: Any = next(iter(info.heartbeat_details), None)
        before = beat if isinstance(beat, dict) else {}
        self.waited_seconds = _number(before.get(WAITED_SECONDS)) + max(turn_seconds, 0.0)
        self.doubtful_attempts = int(_number(before.get(DOUBTFUL_ATTEMPTS)))
        cost = before.get(FAILED_USAGE)
        self.failed_usage = Usage.read(cost) if isinstance(cost, dict) else None
        # Until now by the server's clock, from now on by ours.
        before_seconds = (info.started_time - info.scheduled_time).total_seconds()
        self._asked_seconds = before_seconds - self.waited_seconds
        self._began = time.monotonic()
        self._longest = longest

    def shorten(self, longest: timedelta | None) -> None:
        """Retry for no longer than this."""
        if longest is not None:
            self._longest = min(self._longest, longest)

    def limit_retries(self, error: ApplicationError, failed: Usage | None) -> ApplicationError:
        """Return the error, not retryable if there is no time for another attempt.

        It has the usage of `failed` answers: of the last error, the run counts it.
        """
        seconds = self._asked_seconds + time.monotonic() - self._began
        delay = error.next_retry_delay or timedelta()
        is_late = seconds + delay.total_seconds() > self._longest.total_seconds()
        return ApplicationError(
            error.message,
            *(() if failed is None else ({FAILED_USAGE: failed.to_json()},)),
            type=error.type,
            non_retryable=error.non_retryable or is_late,
            next_retry_delay=error.next_retry_delay,
        )


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return max(float(value), 0.0)

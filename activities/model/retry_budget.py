"""For how long a request to a model is made again: asking counts, waiting for a turn does not.

Temporal's bound on an activity holds for its wait in a task queue too. Where an endpoint takes so
many requests a minute and no more, that wait can be hours, and is nobody's fault. So the bound
there is wide, and this is the narrow one. How long its earlier attempts waited, an activity reads
in the heartbeat that the last of them left; and there, too, how many of them were answered by
something that may be no model at all.
"""

import math
import time
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from holdfast.providers.model_errors import model_error

# In the heartbeat: how long all attempts so far have waited for their turns.
WAITED_SECONDS = "waitedSeconds"
# And how many of them ended in a way that no time may mend (`failures.is_doubtful`).
DOUBTFUL_ATTEMPTS = "doubtfulAttempts"


class RetryBudget:
    """The time that the running activity has left to be tried again."""

    def __init__(self, info: activity.Info, longest: timedelta) -> None:
        turn_seconds = (info.started_time - info.current_attempt_scheduled_time).total_seconds()
        self.waited_seconds = _told_before(info, WAITED_SECONDS) + max(turn_seconds, 0.0)
        self.doubtful_attempts = int(_told_before(info, DOUBTFUL_ATTEMPTS))
        # Until now by the server's clock, from now on by ours.
        before_seconds = (info.started_time - info.scheduled_time).total_seconds()
        self._asked_seconds = before_seconds - self.waited_seconds
        self._began = time.monotonic()
        self._longest = longest

    def limit_retries(self, error: ApplicationError) -> ApplicationError:
        """The error; as one that is not tried again, where there is no time for another attempt."""
        seconds = self._asked_seconds + time.monotonic() - self._began
        delay = error.next_retry_delay or timedelta()
        if error.non_retryable or seconds + delay.total_seconds() <= self._longest.total_seconds():
            return error
        return model_error(error.message)


def _told_before(info: activity.Info, what: str) -> float:
    beat: Any = next(iter(info.heartbeat_details), None)
    said = beat.get(what) if isinstance(beat, dict) else None
    if not isinstance(said, int | float) or not math.isfinite(said):
        return 0.0
    return max(float(said), 0.0)

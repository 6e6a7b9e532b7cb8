"""Once: the activity of a call with side effects that may not be repeated runs once.

Its retry policy allows one attempt. But Temporal starts another one if an operator pauses and
unpauses the activity, resets it, changes its retry policy, or resets its run. The workflow marks
such an activity with the run that scheduled it (`workflows/commands/interceptors.py`). Here every
attempt but the first one of that run ends as an unknown outcome, before any code of the tool runs.
So does the first one if its tool sent a request, and no reply came.
"""

import asyncio
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from holdfast.activities.interceptors.lost_replies import lost_reply
from holdfast.runtime.mcp.errors import UnreadableReplyError, no_result, quote
from holdfast.schemas import names
from holdfast.schemas.names import ErrorCode


class OnceCheck(ActivityInboundInterceptor):
    """Starts marked activities once, and reports their unknown outcomes."""

    async def execute_activity(self, call: ExecuteActivityInput) -> Any:
        """Execute the activity if that is its first attempt; the SDK calls this."""
        mark = call.headers.get(names.ONCE)
        if mark is None:
            return await super().execute_activity(call)
        info = activity.info()
        if (why := _repetition(info, mark.data.decode())) is not None:
            since = f"{info.scheduled_time:%Y-%m-%d %H:%M:%S} UTC"
            before = f"an earlier attempt may have taken effect since {since}"
            raise _unknown(f"{why}; {before}, and may still be running")
        try:
            return await super().execute_activity(call)
        except (asyncio.CancelledError, CancelledError):
            details = activity.cancellation_details()
            if details is not None and (details.paused or details.reset):
                raise _unknown("an operator paused or reset it while it ran") from None
            raise
        except Exception as error:
            is_reported = getattr(error, "type", None) == ErrorCode.OUTCOME_UNKNOWN
            if isinstance(error, UnreadableReplyError):
                raise _unknown(no_result(error)) from error
            if not is_reported and (lost := lost_reply(error)) is not None:
                raise _unknown(f"no reply was received ({quote(lost)})") from error
            raise


def _repetition(info: activity.Info, run_id: str) -> str | None:
    """Return why an attempt may not be the first one, or None if it is.

    After an operator's reset, the number of the attempt is 1 again. Then only its time differs from
    the time at which the activity was scheduled. The times differ too if it was reset, or paused
    and unpaused, before its first attempt: Temporal does not report which it was.
    """
    if info.attempt > 1:
        return f"Temporal started it again, as attempt {info.attempt}"
    if info.workflow_run_id != run_id:
        return "Temporal started it again after a reset of its run"
    if info.current_attempt_scheduled_time > info.scheduled_time:
        return "an operator reset or unpaused it"
    return None


def _unknown(message: str) -> ApplicationError:
    return ApplicationError(message, type=ErrorCode.OUTCOME_UNKNOWN, non_retryable=True)

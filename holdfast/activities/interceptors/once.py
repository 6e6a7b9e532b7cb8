"""Once: the activity of a call with side effects that may not be repeated runs once.

Its retry policy allows one attempt. But Temporal starts another one if an operator pauses and
unpauses the activity, resets it, changes its retry policy, or resets its run. The workflow marks
such an activity with the run that scheduled it (`workflows/commands/interceptors.py`). Here every
attempt but the first one of that run ends as an unknown outcome, before any code of the tool runs.
So does the first one if its tool sent a request, or may have, and no complete reply came: the
errors of client libraries that mean that are recognized by the names of their types, so that no
library is imported.
"""

import asyncio
from typing import Any, Final

from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from holdfast.runtime.mcp.errors import UnreadableReplyError, no_result, quote
from holdfast.schemas import names
from holdfast.schemas.names import ErrorCode

# The names of types, by their package.
LOST_REPLIES: Final = {
    "httpx": "ReadTimeout ReadError WriteTimeout WriteError RemoteProtocolError",
    "requests": "ReadTimeout ChunkedEncodingError",
    "urllib3": "ReadTimeoutError ProtocolError IncompleteRead InvalidChunkLength",
    "aiohttp": "ServerDisconnectedError SocketTimeoutError ServerTimeoutError ClientOSError"
    " ClientPayloadError",
    "botocore": "ReadTimeoutError ConnectionClosedError HTTPClientError ResponseStreamingError"
    " IncompleteReadError",
    "http": "RemoteDisconnected IncompleteRead BadStatusLine",
    "asyncio": "IncompleteReadError",
    "builtins": "ConnectionResetError ConnectionAbortedError BrokenPipeError TimeoutError",
}
NOT_SENT: Final = {
    "httpx": "ConnectTimeout ConnectError PoolTimeout",
    "requests": "ConnectTimeout ProxyError SSLError",
    "urllib3": "NewConnectionError ConnectTimeoutError NameResolutionError",
    "aiohttp": "ConnectionTimeoutError ClientConnectorError ClientConnectorDNSError",
    "botocore": "ConnectTimeoutError EndpointConnectionError ProxyConnectionError",
}
# The status codes of gRPC's errors, which all have the same types.
LOST_STATUSES: Final = ("CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE")


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


def lost_reply(error: BaseException) -> str | None:
    """Return the first error of a chain that leaves the outcome unknown, as `package.Type: text`.

    `raise … from None` ends the chain. An error that is known to occur before a request is sent,
    such as a refused connection, is none of them; it also explains the errors of Python that it was
    made from.
    """
    was_not_sent, errors = False, [error]
    for each in errors:  # it grows meanwhile
        package, name = type(each).__module__.partition(".")[0], type(each).__name__
        was_not_sent = was_not_sent or name in NOT_SENT.get(package, "").split()
        code = getattr(each, "code", None) if package == "grpc" else None
        has_lost_status = callable(code) and getattr(code(), "name", "") in LOST_STATUSES
        is_lost = name in LOST_REPLIES.get(package, "").split() or has_lost_status
        if is_lost and not (was_not_sent and package == "builtins"):
            return f"{package}.{name}: {each}" if str(each) else f"{package}.{name}"
        causes = list(each.exceptions) if isinstance(each, BaseExceptionGroup) else []
        causes += [each.__cause__, None if each.__suppress_context__ else each.__context__]
        errors += [cause for cause in causes if cause is not None and cause not in errors]
    return None

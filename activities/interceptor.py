"""The last thing before an activity's end is sent: is it JSON, and is it of a size to be kept?

The server takes at most 2 MB a payload. Left to the SDK, a result that is larger is carried out
again until its attempts are used up, and in a local activity it fails the run's workflow task for
ever; so does a failure with a long enough text. Here both become one final, small failure.
"""

import json
import re
from typing import Any, NoReturn

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.common import RawValue
from temporalio.converter import DefaultFailureConverter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, FailureError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from schemas import names
from schemas.errors import ErrorCode

MAX_RESULT_BYTES = 2_000_000
MAX_FAILURE_BYTES = 100_000
MAX_MESSAGE_CHARS = 10_000
# What Python writes for a number that no other reader of JSON takes.
_NO_NUMBER = re.compile(rb"NaN|Infinity")


class SizeInterceptor(Interceptor):
    """Measures what every activity of the worker returns or raises."""

    def intercept_activity(self, inner: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap one execution; the SDK calls this."""
        return _Measured(inner)


class _Measured(ActivityInboundInterceptor):
    async def execute_activity(self, call: ExecuteActivityInput) -> Any:
        try:
            result = await self.next.execute_activity(call)
        except Exception as error:
            if _failure_bytes(error) > MAX_FAILURE_BYTES:
                raise _shortened(error) from None
            raise
        # Encoded here, and sent as it is: large results are not encoded twice.
        return RawValue(_payload(result))


def _payload(result: Any) -> Payload:
    payload = _encoded(result)
    size_bytes = len(payload.data)
    if size_bytes > MAX_RESULT_BYTES:
        raise ApplicationError(
            f"the result has {size_bytes} bytes, and at most {MAX_RESULT_BYTES} can be kept: "
            "return less of it, or store it and return where it is",
            type=names.RESULT_TOO_LARGE,
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,
        )
    return payload


def _encoded(result: Any) -> Payload:
    if isinstance(result, RawValue):
        return result.payload
    try:
        payload = activity.payload_converter().to_payload(result)
    except Exception as error:
        _no_json(" ".join(str(error).split())[:300])
    if payload.metadata["encoding"] == b"json/plain" and _NO_NUMBER.search(payload.data):
        json.loads(payload.data, parse_constant=_refuse_number)
    return payload


def _refuse_number(name: str) -> NoReturn:
    _no_json(f"{name} is no number of JSON")


def _no_json(reason: str) -> NoReturn:
    raise ApplicationError(
        f"it was carried out, but its result is no JSON value: {reason}",
        type=ErrorCode.TOOL_ERROR,
        non_retryable=True,
    ) from None


def _failure_bytes(error: Exception) -> int:
    failure = Failure()
    try:
        DefaultFailureConverter().to_failure(error, activity.payload_converter(), failure)
    except Exception:
        return MAX_FAILURE_BYTES + 1  # details that cannot be encoded cannot be sent
    return failure.ByteSize()


def _shortened(error: Exception) -> ApplicationError:
    message = error.message if isinstance(error, FailureError) else str(error)
    if len(message) > MAX_MESSAGE_CHARS:
        message = f"{message[:MAX_MESSAGE_CHARS]}… ({len(message)} characters)"
    if not isinstance(error, ApplicationError):
        return ApplicationError(message, type=type(error).__name__)
    return ApplicationError(
        message,
        type=error.type,
        non_retryable=error.non_retryable,
        next_retry_delay=error.next_retry_delay,
        category=error.category,
    )

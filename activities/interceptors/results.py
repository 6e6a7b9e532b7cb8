"""The last thing before an activity's end is sent: is it JSON, does it hold a secret of the worker,
and is it of a size to be kept?

The server takes at most 2 MB a payload. Left to the SDK, a result that is larger is carried out
again until its attempts are used up, and in a local activity it fails the run's workflow task for
ever; so does a failure with a long enough text. Here both become one final, small failure.

A worker that has a store keeps there what is large. Up to 2 MB, the run has the result as ever, and
only history has a reference in its place. What is larger no run could work through in the two
seconds that Temporal gives it at a time: in the run itself there stands what
`schemas.internal.stored_value` says.
"""

import json
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.common import RawValue
from temporalio.converter import DefaultFailureConverter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, FailureError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

from holdfast.activities.interceptors.secret_redaction import (
    RedactedHeartbeats,
    redact_error,
    redact_payload,
)
from holdfast.runtime.secrets import Secrets
from holdfast.schemas import names
from holdfast.schemas.internal.stored_value import BEGINNING_CHARACTERS, Stored
from holdfast.schemas.names import ErrorCode

MAX_RESULT_BYTES = 2_000_000
# With a store: what is larger goes there, up to the most that it takes. Sixteen results of less
# would make up the four megabytes of history after which Temporal suggests to continue as new.
MAX_IN_HISTORY_BYTES = 256 * 1024
MAX_STORED_BYTES = 64_000_000
MAX_FAILURE_BYTES = 100_000
MAX_MESSAGE_CHARS = 10_000
# What can be done for a larger one: where a store would take it, and where none would.
_GIVE_STORE = "give the worker a `--store`"
_STORE_IT = "store it and return where it is"
# What Python writes for a number that no other reader of JSON takes.
_NO_NUMBER = re.compile(rb"NaN|Infinity")


# Keeps a payload in the worker's store, and gives the digest that it is kept under.
StorePayload = Callable[[Payload], Awaitable[str]]

logger = logging.getLogger("holdfast")


class ResultInterceptor(Interceptor):
    """Measures what every activity of the worker returns or raises, and takes its secrets out.

    Args:
        keep: where the worker has a store, how something is kept there.
        secrets: what is not to leave the worker.
    """

    def __init__(self, keep: StorePayload | None = None, secrets: Secrets | None = None) -> None:
        self._keep = keep
        self._secrets = secrets or Secrets()

    def intercept_activity(self, inner: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Wrap one execution; the SDK calls this."""
        return _Measured(inner, self._keep, self._secrets)


class _Measured(ActivityInboundInterceptor):
    def __init__(
        self, inner: ActivityInboundInterceptor, keep: StorePayload | None, secrets: Secrets
    ) -> None:
        super().__init__(inner)
        self._keep = keep
        self._secrets = secrets

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        super().init(RedactedHeartbeats(outbound, self._secrets))

    async def execute_activity(self, call: ExecuteActivityInput) -> Any:
        try:
            result = await self.next.execute_activity(call)
        except Exception as error:
            told = redact_error(error, self._secrets)
            if _failure_bytes(told) > MAX_FAILURE_BYTES:
                raise _shortened(told) from None
            if told is error:
                raise
            raise told from told.__cause__
        # Encoded here, and sent as it is: large results are not encoded twice.
        payload = redact_payload(_encoded(result), self._secrets)
        size_bytes = len(payload.data)
        if not _is_for_a_run(payload):
            _check(size_bytes, MAX_RESULT_BYTES)
        elif self._keep is None:
            is_for_store = size_bytes <= MAX_STORED_BYTES
            _check(size_bytes, MAX_RESULT_BYTES, _GIVE_STORE if is_for_store else _STORE_IT)
        elif size_bytes > MAX_RESULT_BYTES:
            payload = await _replaced(payload, self._keep)
        elif size_bytes > MAX_IN_HISTORY_BYTES:
            payload = await _marked(payload, self._keep)
        return RawValue(payload)


def _is_for_a_run(payload: Payload) -> bool:
    """Other people's workflows would not know what to do with what stands for a result."""
    is_json = payload.metadata["encoding"].startswith(b"json/")
    return is_json and activity.info().workflow_type in names.WORKFLOWS


def _check(size_bytes: int, most_bytes: int, mend: str = _STORE_IT) -> None:
    if size_bytes > most_bytes:
        raise ApplicationError(
            f"the result has {size_bytes} bytes, and at most {most_bytes} can be kept: "
            f"return less of it, or {mend}",
            type=names.RESULT_TOO_LARGE,
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,
        )


async def _replaced(payload: Payload, keep: StorePayload) -> Payload:
    """Keep the result, and give what stands for it in the run."""
    size_bytes = len(payload.data)
    _check(size_bytes, MAX_STORED_BYTES)
    # Equal results are kept once, encrypted or not.
    payload.metadata[names.FOR_STORE] = b"true"
    try:
        digest = await keep(payload)
    except Exception as error:
        message = f"it was carried out, but its result of {size_bytes} bytes is lost: {error}"
        raise ApplicationError(message, type=ErrorCode.TOOL_ERROR) from None
    stored = Stored(sha256=digest, size_bytes=size_bytes, beginning=_beginning(payload.data))
    return activity.payload_converter().to_payload(stored.value())


async def _marked(payload: Payload, keep: StorePayload) -> Payload:
    """Have a reference sent in the place of the result, unless it cannot be kept.

    It is kept here, since the SDK would fail a call that was carried out, and find it there.
    """
    marked = Payload(metadata={**payload.metadata, names.FOR_STORE: b"true"}, data=payload.data)
    try:
        await keep(marked)
    except Exception as error:
        logger.warning("a result of %s bytes goes into history: %s", len(payload.data), error)
        return payload
    return marked


def _beginning(data: bytes) -> str:
    if data.startswith(b'"'):
        text: str = json.loads(data)
        return text[:BEGINNING_CHARACTERS].encode("utf-8", "replace").decode()
    # A character takes four bytes at most; the last of these may be a part of one.
    return data[: 4 * BEGINNING_CHARACTERS].decode("utf-8", "ignore")[:BEGINNING_CHARACTERS]


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

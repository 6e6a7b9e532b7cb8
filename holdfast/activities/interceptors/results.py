"""The results, errors and heartbeats of activities, bounded and redacted before they are sent.

The server takes at most 2 MB a payload. Left to the SDK, an activity with a larger result runs
again until its attempts are used up, and in a local activity it fails the run's workflow task for
ever; so does a failure with a long enough text. Here both become one small failure that is not
retried.

A worker with a store puts large results there. Up to 2 MB, the run has the result, and only history
has a reference in its place. A larger one could not be processed within the two seconds of a
workflow task: the run has a `schemas.base.Stored` in its place.
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
)

from holdfast.activities.interceptors.permits import sign_result
from holdfast.runtime.encryption.key_ring import KeyRing
from holdfast.runtime.secrets import Secrets
from holdfast.schemas import names
from holdfast.schemas.base import BEGINNING_CHARACTERS, Stored
from holdfast.schemas.names import ErrorCode

MAX_RESULT_BYTES = 2_000_000
# With a store: larger results go there, up to its bound. Sixteen smaller ones make up the four
# megabytes of history after which Temporal suggests to continue as new.
MAX_IN_HISTORY_BYTES = 256 * 1024
MAX_STORED_BYTES = 64_000_000
MAX_FAILURE_BYTES = 100_000
MAX_MESSAGE_CHARS = 10_000
# The fix for a larger one, if a store would take it, and if none would.
_GIVE_STORE = "give the worker a `--store`"
_STORE_IT = "store it, and return its address"
# Numbers of Python that are no JSON.
_NO_NUMBER = re.compile(rb"NaN|Infinity")

# Puts a payload into the worker's store, and returns its digest.
StorePayload = Callable[[Payload], Awaitable[str]]

logger = logging.getLogger("holdfast")


class CheckedResults(ActivityInboundInterceptor):
    """Bounds the results and errors of the worker's activities, and redacts secrets.

    Permit keys sign the results of once-calls.
    """

    def __init__(
        self,
        inner: ActivityInboundInterceptor,
        *,
        store: StorePayload | None = None,
        secrets: Secrets | None = None,
        permit_keys: KeyRing | None = None,
    ) -> None:
        super().__init__(inner)
        self._store, self._secrets = store, secrets or Secrets()
        self._permit_keys = permit_keys

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        super().init(_RedactedHeartbeats(outbound, self._secrets))

    async def execute_activity(self, call: ExecuteActivityInput) -> Any:
        """Execute the activity, and check what it returns or raises; the SDK calls this."""
        try:
            result = await self.next.execute_activity(call)
            # Encoded here, and sent as it is: large results are not encoded twice.
            payload = _redact_payload(_encode_result(result), self._secrets)
            sign_result(payload, self._permit_keys)
            return RawValue(await self._for_history(payload))
        except Exception as error:
            redacted = _redact_error(error, self._secrets)
            failure = _encode_failure(redacted)
            if failure is None or failure.ByteSize() > MAX_FAILURE_BYTES:
                raise _shortened(redacted, self._secrets) from None
            if redacted is error:
                raise
            raise redacted from redacted.__cause__

    async def _for_history(self, payload: Payload) -> Payload:
        """Return the result as it is sent; a large one is stored."""
        size_bytes = len(payload.data)
        is_json = payload.metadata["encoding"].startswith(b"json/")
        # Workflows of others cannot read a reference.
        if not is_json or activity.info().workflow_type not in names.WORKFLOWS:
            _check(payload, MAX_RESULT_BYTES)
            return payload
        if self._store is None:
            is_for_store = size_bytes <= MAX_STORED_BYTES
            _check(payload, MAX_RESULT_BYTES, _GIVE_STORE if is_for_store else _STORE_IT)
            return payload
        if size_bytes <= MAX_IN_HISTORY_BYTES:
            return payload
        _check(payload, MAX_STORED_BYTES)
        # Equal results are stored once, encrypted or not.
        payload.metadata[names.FOR_STORE] = b"true"
        try:
            # Here: in the SDK, an error of the store would fail a call that was executed.
            digest = await self._store(payload)
        except Exception as error:
            if size_bytes > MAX_RESULT_BYTES:
                message = f"it was run; its result of {size_bytes} bytes is lost: {error}"
                message += f"; it begins: {_beginning(payload)}"
                raise ApplicationError(message, type=ErrorCode.TOOL_ERROR) from None
            logger.warning("a result of %s bytes goes into history: %s", size_bytes, error)
            del payload.metadata[names.FOR_STORE]
            return payload
        if size_bytes <= MAX_RESULT_BYTES:
            return payload
        beginning = _beginning(payload)
        stored = Stored(sha256=digest, size_bytes=size_bytes, beginning=beginning)
        reference = activity.payload_converter().to_payload(stored.value())
        sign_result(reference, self._permit_keys)
        return reference


def _encode_result(result: Any) -> Payload:
    if isinstance(result, RawValue):
        return result.payload
    try:
        payload = activity.payload_converter().to_payload(result)
    except Exception as error:
        _no_json(" ".join(str(error).split())[:300])
    if payload.metadata["encoding"] == b"json/plain" and _NO_NUMBER.search(payload.data):
        json.loads(
            payload.data, parse_constant=lambda name: _no_json(f"{name} is no number of JSON")
        )
    return payload


def _beginning(payload: Payload) -> str:
    if payload.data.startswith(b'"'):
        text: str = json.loads(payload.data)
        return text[:BEGINNING_CHARACTERS].encode("utf-8", "replace").decode()
    # A character takes four bytes at most; the last of these may be a part of one.
    cut = payload.data[: 4 * BEGINNING_CHARACTERS].decode("utf-8", "ignore")
    return cut[:BEGINNING_CHARACTERS]


def _check(payload: Payload, most_bytes: int, fix: str = _STORE_IT) -> None:
    size_bytes = len(payload.data)
    if size_bytes > most_bytes:
        raise ApplicationError(
            f"it was run; its result has {size_bytes} bytes, and at most {most_bytes} can be kept: "
            f"return less of it, or {fix}; it begins: {_beginning(payload)}",
            type=names.RESULT_TOO_LARGE,
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,
        )


def _no_json(reason: str) -> NoReturn:
    raise ApplicationError(
        f"it was run; its result is no JSON value: {reason}",
        type=ErrorCode.TOOL_ERROR,
        non_retryable=True,
    ) from None


def _shortened(error: Exception, secrets: Secrets) -> ApplicationError:
    message = _sendable(error.message if isinstance(error, FailureError) else str(error), secrets)
    if len(message) > MAX_MESSAGE_CHARS:
        message = f"{message[:MAX_MESSAGE_CHARS]}… ({len(message)} characters)"
    if not isinstance(error, ApplicationError):
        return ApplicationError(message, type=type(error).__name__)
    return ApplicationError(
        message,
        type=_sendable(error.type or "", secrets),
        non_retryable=error.non_retryable,
        next_retry_delay=error.next_retry_delay,
        category=error.category,
    )


def _sendable(text: str, secrets: Secrets) -> str:
    if (cleaned := secrets.clean(text)) != text:
        _warn("raised")
    return cleaned.encode("utf-8", "replace").decode()


class _RedactedHeartbeats(ActivityOutboundInterceptor):
    def __init__(self, outbound: ActivityOutboundInterceptor, secrets: Secrets) -> None:
        super().__init__(outbound)
        self._secrets = secrets

    def heartbeat(self, *details: Any) -> None:
        payloads = activity.payload_converter().to_payloads(details)
        if any(self._secrets.occur_in(payload.data) for payload in payloads):
            details = tuple(RawValue(_redact_payload(each, self._secrets)) for each in payloads)
        super().heartbeat(*details)


def _redact_payload(payload: Payload, secrets: Secrets) -> Payload:
    if not secrets.occur_in(payload.data):
        return payload
    _warn("sent")
    return _cleaned(payload, secrets)


def _encode_failure(error: Exception) -> Failure | None:
    """Return the failure that would be sent; None if its details cannot be encoded."""
    failure = Failure()
    try:
        DefaultFailureConverter().to_failure(error, activity.payload_converter(), failure)
    except Exception:
        return None
    return failure


def _redact_error(error: Exception, secrets: Secrets) -> Exception:
    """Return the error; if it holds a secret, one that is sent like it but without the secret."""
    failure = _encode_failure(error)
    if failure is None or not secrets.occur_in(failure.SerializeToString()):
        return error
    _warn("raised")
    if isinstance(error, ApplicationError):
        failure.stack_trace = ""  # it was raised on purpose
    _clean_failure(failure, secrets)
    cleaned = DefaultFailureConverter().from_failure(failure, activity.payload_converter())
    assert isinstance(cleaned, FailureError)
    return cleaned


def _clean_failure(failure: Failure, secrets: Secrets) -> None:
    failure.message = secrets.clean(failure.message)
    failure.stack_trace = secrets.clean(failure.stack_trace)
    info = failure.application_failure_info
    if failure.HasField("application_failure_info"):
        info.type = secrets.clean(info.type)
    for details in (info.details, failure.canceled_failure_info.details):
        for payload in details.payloads:
            payload.CopyFrom(_cleaned(payload, secrets))
    if failure.HasField("cause"):
        _clean_failure(failure.cause, secrets)


def _cleaned(payload: Payload, secrets: Secrets) -> Payload:
    if not payload.metadata["encoding"].startswith(b"json/"):
        return Payload(metadata=payload.metadata, data=secrets.clean_bytes(payload.data))
    # Not in its text: the replacement of a secret could be outside of a string.
    value = secrets.clean_value(json.loads(payload.data))
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return Payload(metadata=payload.metadata, data=data)


def _warn(what: str) -> None:
    logger.warning(
        "the activity `%s` %s a secret of this worker; it was removed",
        activity.info().activity_type,
        what,
    )

"""The results, errors and heartbeats of activities without the worker's secrets."""

import json
import logging
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.common import RawValue
from temporalio.converter import DefaultFailureConverter
from temporalio.exceptions import ApplicationError, FailureError
from temporalio.worker import ActivityOutboundInterceptor

from holdfast.runtime.secrets import Secrets

logger = logging.getLogger("holdfast")


class RedactedHeartbeats(ActivityOutboundInterceptor):
    """Sends an activity's heartbeats without secrets."""

    def __init__(self, outbound: ActivityOutboundInterceptor, secrets: Secrets) -> None:
        super().__init__(outbound)
        self._secrets = secrets

    def heartbeat(self, *details: Any) -> None:
        """Send a heartbeat; the SDK calls this."""
        payloads = activity.payload_converter().to_payloads(details)
        if any(self._secrets.occur_in(payload.data) for payload in payloads):
            details = tuple(RawValue(redact_payload(each, self._secrets)) for each in payloads)
        super().heartbeat(*details)


def redact_payload(payload: Payload, secrets: Secrets) -> Payload:
    """Return the value without secrets."""
    if not secrets.occur_in(payload.data):
        return payload
    _warn("sent")
    return _cleaned(payload, secrets)


def encode_failure(error: Exception) -> Failure | None:
    """Return the failure that would be sent; None if its details cannot be encoded."""
    failure = Failure()
    try:
        DefaultFailureConverter().to_failure(error, activity.payload_converter(), failure)
    except Exception:
        return None
    return failure


def redact_error(error: Exception, secrets: Secrets) -> Exception:
    """Return the error; if it holds a secret, one that is sent like it but without the secret."""
    failure = encode_failure(error)
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

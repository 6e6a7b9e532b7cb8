"""Read the payloads and failures of activities for the engine."""

from typing import Any

from temporalio import exceptions, workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

from holdfast.workflows.engine.call.tool_call import Failure

MAX_REASON_CHARACTERS = 300


def payload_json(result: Any) -> Any:
    """Return the JSON value of a payload from outside.

    Raises:
        ValueError: The payload has another encoding, or is invalid.
    """
    if not isinstance(result, RawValue):
        return result
    try:
        value = workflow.payload_converter().from_payload(result.payload)
    except ValidationError as error:
        raise ValueError(f"it cannot be read: {error.errors()[0]['msg']}") from None
    except Exception as error:
        why = " ".join(map(str, error.args))[:MAX_REASON_CHARACTERS]
        raise ValueError(f"it cannot be read: {why}") from None
    if isinstance(value, bytes):
        raise ValueError("it is binary, not JSON")
    return value


def activity_failure(error: exceptions.FailureError) -> Failure:
    """Return the failure of an activity; a local one's has no `ActivityError` around it."""
    match error.__cause__ if isinstance(error, ActivityError) else error:
        case ApplicationError() as cause:
            return Failure("application", cause.message, cause.type or "")
        case exceptions.TimeoutError() as cause:
            began = cause.type is not TimeoutType.SCHEDULE_TO_START
            message = "it took too long" if began else "nobody began with it"  # durable text
            if cause.type is TimeoutType.HEARTBEAT:
                message = "it was not heard of any more"  # durable text
            return Failure("timeout", message, started=began)
        case exceptions.CancelledError():
            return Failure("cancelled", "it was cancelled")
        case cause:
            return Failure("other", str(cause))


def model_failure_message(error: ActivityError) -> str:
    """Return the reason why a request to a model failed, with the message of its last failure."""
    innermost: BaseException = error
    while innermost.__cause__ is not None:
        innermost = innermost.__cause__
        if isinstance(innermost, ApplicationError):
            return innermost.message
    match innermost:
        case exceptions.TimeoutError(type=TimeoutType.SCHEDULE_TO_START):
            return (
                "the request to the model did not start in time: its endpoint takes fewer a minute "
                "than runs make (`maxRequestsPerMinute`), or no worker takes them"
            )
        case _:
            return f"the model did not answer in time: {innermost}"

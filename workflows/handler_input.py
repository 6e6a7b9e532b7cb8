"""Read what callers send to workflows and handlers, as raw payloads.

An exception while a workflow object is made is not a failure of the workflow: its task would fail
again and again. So problems of a request are kept, and raised once the workflow runs.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from holdfast.schemas import names
    from holdfast.schemas.base import Strict
    from holdfast.schemas.phrases import misfit_reason
    from holdfast.schemas.run import Spent
    from holdfast.validation.problems import problems_of, summarize_problems


from temporalio import workflow

from holdfast.workflows.commands import failures

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names

# Exceptions of a bug or an absurd input, which fail the run visibly. Temporal's NondeterminismError
# is not among them: after a wrong deployment is rolled back, its runs continue.
FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
)

ModelT = TypeVar("ModelT", bound=Strict)
HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])

# The argument of a workflow that is started without one.
MISSING_PAYLOAD = RawValue(Payload())
# Errors of the caller, which are benign for the operator of the worker.
_CALLER_ERRORS = (
    *(names.INVALID_REQUEST, names.INVALID_DECISION, names.NO_SUCH_CALL),
    *(names.ALREADY_DECIDED, names.NOT_A_CONVERSATION, names.CONTINUED, names.MEMORY_FULL),
)


_CRON = (
    "it is started with a cron schedule, and would do again what it has done; terminate it, and"
    " make a Temporal Schedule, which starts a run of its own each time"
)
_RETRIES = (
    "it is started with a retry policy, by which it would do again what it has done; start it"
    " without one: what fails in it is retried call by call"
)


class InvalidInputError(ValueError):
    """The input does not fit; the message is one line with the place and the fix."""


@dataclass(frozen=True)
class ParsedRequest(Generic[ModelT]):
    """A request as JSON and as a model, or the `problem` with it."""

    raw: Any = None
    request: ModelT | None = None
    problem: str = ""


def raw_payload_handler(handler: HandlerT) -> HandlerT:
    """Decorate a handler so that it receives its one payload undecoded.

    Further payloads must do no harm, so a handler takes them as `*_`. The SDK reads annotations
    only where payloads and parameters are of one number, so it sees the handler without `*_`.
    """
    whole = inspect.signature(handler)
    shown = [each for each in whole.parameters.values() if each.kind is not each.VAR_POSITIONAL]
    handler.__dict__["__signature__"] = whole.replace(parameters=shown)
    return handler


def parse_request(
    payload: Any, more: tuple[Any, ...], model: type[ModelT], example: str
) -> ParsedRequest[ModelT]:
    """Parse the one argument that a workflow is started with.

    Never raises: a problem is in the result, with `example` as the form of a request.
    """
    if again := restart_problem():
        return ParsedRequest(problem=again)
    if more:
        count = 1 + len(more)
        return ParsedRequest(
            problem=f"start it with one JSON object, not with {count} values: {example}"
        )
    try:
        value = payload_value(payload)
        return ParsedRequest(value, parse_model(value, model, example))
    except InvalidInputError as error:
        return ParsedRequest(problem=str(error))


def restart_problem() -> str | None:
    """Return the problem of a workflow that Temporal restarts by itself, or `None`.

    A restart would run calls again under the same ids, and only the start options tell it from a
    run that continues another.
    """
    info = workflow.info()
    if info.cron_schedule:
        return _CRON
    if info.retry_policy and info.retry_policy.maximum_attempts != 1:
        return _RETRIES
    return None


def payload_value(payload: Any) -> Any:
    """Return the JSON value of a payload, `None` for none.

    Raises:
        InvalidInputError: The payload is not JSON.
    """
    if isinstance(payload, RawValue) and not payload.payload.metadata:
        return None
    try:
        return failures.payload_json(payload)
    except ValueError as error:
        raise InvalidInputError(f"{error}; send one JSON value") from None


def parse_model(value: Any, model: type[ModelT], example: str) -> ModelT:
    """Validate a value; `example` shows the expected form in the error.

    Raises:
        InvalidInputError: The value does not fit the model.
    """
    if not isinstance(value, dict):
        raise InvalidInputError(f"{misfit_reason(value)}; write one JSON object: {example}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidInputError(summarize_problems(problems_of(error, value, model))) from None


def update_id() -> str:
    """Return the id of the current update."""
    update = workflow.current_update_info()
    assert update is not None  # only handlers of updates call this
    return update.id


def fail(code: str, message: str, spent: Spent | None = None) -> NoReturn:
    """Fail the run, with the usage in `spent`, or reject the update.

    Raises:
        ApplicationError: Always; of type `code`, not retryable.
    """
    kinds = ApplicationErrorCategory
    category = kinds.BENIGN if code in _CALLER_ERRORS else kinds.UNSPECIFIED
    details = [] if spent is None else [spent.to_json()]
    raise ApplicationError(
        message, *details, type=code, non_retryable=True, category=category
    ) from None

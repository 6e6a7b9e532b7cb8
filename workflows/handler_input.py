"""What a workflow is started with and told: read so that nothing in it, however absurd, does harm.

What is raised while a workflow is made, before it runs, would not be its failure. So what is wrong
with a request is kept until it runs.
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
    from holdfast.schemas.phrases import misfit
    from holdfast.schemas.run import Spent
    from holdfast.validation.problems import problems_of, summarize_problems

from holdfast.workflows.commands import failures

SaidT = TypeVar("SaidT", bound=Strict)
HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])

# What a workflow is started with that is started with nothing.
MISSING_PAYLOAD = RawValue(Payload())
# What a person sent is wrong, as they are told: nobody who operates a worker need look into it.
_PEOPLES = (
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


class NotUnderstoodError(ValueError):
    """What was said is not what it was to be; the message says in one line where, and the mend."""


@dataclass(frozen=True)
class ParsedRequest(Generic[SaidT]):
    """A request as it was given and as it is understood, or what is `wrong` with it."""

    given: Any = None
    request: SaidT | None = None
    wrong: str = ""


def raw_payload_handler(handler: HandlerT) -> HandlerT:
    """Have the one payload that a handler is sent handed to it as it came, undecoded.

    More than one must do no harm, so a handler takes them as `*_`. But the SDK goes by annotations
    only where payloads and parameters are of one number: it is shown the handler without `*_`.
    """
    whole = inspect.signature(handler)
    shown = [each for each in whole.parameters.values() if each.kind is not each.VAR_POSITIONAL]
    handler.__dict__["__signature__"] = whole.replace(parameters=shown)
    return handler


def read(
    given: Any, more: tuple[Any, ...], model: type[SaidT], example: str
) -> ParsedRequest[SaidT]:
    """Read a request; `example` shows one to whoever gave none, or `more` than one value."""
    if again := begins_again():
        return ParsedRequest(wrong=again)
    if more:
        count = 1 + len(more)
        return ParsedRequest(
            wrong=f"start it with one JSON object, not with {count} values: {example}"
        )
    try:
        value = received(given)
        return ParsedRequest(value, understood(value, model, example))
    except NotUnderstoodError as error:
        return ParsedRequest(wrong=str(error))


def begins_again() -> str | None:
    """What is wrong with a workflow that Temporal begins again by itself; None where it does not.

    What was done would be done again, under the same ids. And one that has been begun again is told
    from one that another left something to by nothing but how it was started.
    """
    info = workflow.info()
    if info.cron_schedule:
        return _CRON
    if info.retry_policy and info.retry_policy.maximum_attempts != 1:
        return _RETRIES
    return None


def received(given: Any) -> Any:
    """The value that somebody sent; None where they sent nothing.

    Raises:
        NotUnderstoodError: it is no JSON.
    """
    if isinstance(given, RawValue) and not given.payload.metadata:
        return None
    try:
        return failures.value_of(given)
    except ValueError as error:
        raise NotUnderstoodError(f"{error}; send one JSON value") from None


def understood(value: Any, model: type[SaidT], example: str) -> SaidT:
    """What was said, as the model has it; `example` shows how it is written.

    Raises:
        NotUnderstoodError: it does not fit.
    """
    if not isinstance(value, dict):
        raise NotUnderstoodError(f"{misfit(value)}; write one JSON object: {example}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise NotUnderstoodError(summarize_problems(problems_of(error, value, model))) from None


def update_id() -> str:
    """The id of the update that is being handled."""
    update = workflow.current_update_info()
    assert update is not None  # it is asked for by an update's handlers alone
    return update.id


def fail(code: str, message: str, spent: Spent | None = None) -> NoReturn:
    """End a run, which has `spent` so much, or refuse an update.

    Raises:
        ApplicationError: of type `code`, final.
    """
    kinds = ApplicationErrorCategory
    category = kinds.BENIGN if code in _PEOPLES else kinds.UNSPECIFIED
    details = [] if spent is None else [spent.to_json()]
    raise ApplicationError(
        message, *details, type=code, non_retryable=True, category=category
    ) from None

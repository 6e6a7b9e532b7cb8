"""Read and check what a workflow receives: requests, decisions, tokens, results of activities.

An exception while a workflow object is made is not a failure of the workflow: its task would fail
again and again. So problems of a request are kept, and raised once the workflow runs.

Temporal fails a workflow task after two seconds. Senders can send many signals at once, and a
hundred activities can end at once. So each task has three budgets of CPU work: one for the run, one
for input from people, which cannot use up the run's, and one for validators. A rejected update is
not in the history, so a replay does not have the third.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar, cast

from temporalio import exceptions, workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ApplicationErrorCategory,
    TimeoutType,
)

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from holdfast.schemas import names
    from holdfast.schemas.base import Strict
    from holdfast.schemas.decision import Decision
    from holdfast.schemas.internal import solution
    from holdfast.schemas.phrases import misfit_reason
    from holdfast.schemas.run import Spent
    from holdfast.validation.problems import problems_of, summarize_problems
    from holdfast.validation.text_safety import plain_name

from holdfast.validation.lenient_json import inexact_number
from holdfast.validation.schema_node import (
    INPUT_STEPS,
    TASK_STEPS,
    WORK_STEPS,
    SharedWorkBudget,
    ValidationLimits,
)
from holdfast.workflows.engine.call.outcomes import Failure

# A payload with more values is neither a decision nor a message.
MAX_INPUT_VALUES = 200_000
# What is read in ten microseconds: a long text takes nearly no time.
_VALUES_READ = 3
_BYTES_READ = 2_000

MAX_REASON_CHARACTERS = 300

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

_TIMED_OUT = {
    TimeoutType.SCHEDULE_TO_START: "no worker started it (schedule-to-start timeout)",
    TimeoutType.START_TO_CLOSE: "it did not finish in time (start-to-close timeout)",
    TimeoutType.SCHEDULE_TO_CLOSE: "it did not finish in time (schedule-to-close timeout)",
    TimeoutType.HEARTBEAT: "the worker stopped before it reported a result (heartbeat timeout)",
}

# The argument of a workflow that is started without one.
MISSING_PAYLOAD = RawValue(Payload())
# Errors of the caller, which are benign for the operator of the worker.
_CALLER_ERRORS = (
    *(names.INVALID_REQUEST, names.INVALID_DECISION, names.INVALID_TOKEN, names.NO_SUCH_CALL),
    *(names.ALREADY_DECIDED, names.NOT_A_CONVERSATION, names.CONTINUED, names.WITHDRAWN),
    *(names.NO_SUCH_MESSAGE, names.BUDGET_EXCEEDED, names.MEMORY_FULL, names.MEMORY_CONFLICT),
)


class InvalidInputError(ValueError):
    """The input does not fit; the message is one line with the place and the fix."""


@dataclass(frozen=True)
class ParsedRequest(Generic[ModelT]):
    """A request as JSON and as a model, or the `problem` with it.

    `agents` are those of the parent run of a delegate, as it started.
    """

    raw: Any = None
    request: ModelT | None = None
    problem: str = ""
    agents: Any = None


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
        value = exact_value(payload)
        return ParsedRequest(value, parse_model(value, model, example))
    except InvalidInputError as error:
        return ParsedRequest(problem=str(error))


def restart_problem() -> str | None:
    """Return the problem of a workflow that Temporal restarts by itself, or `None`.

    A restart would run calls again under the same ids, and only the start options
    distinguish it from a run that continues another.
    """
    info = workflow.info()
    if info.cron_schedule:
        return (
            "it was started with a cron schedule, and would run its calls again; terminate it,"
            " and make a Temporal Schedule, which starts a run of its own each time"
        )
    if info.retry_policy and info.retry_policy.maximum_attempts != 1:
        return (
            "it was started with a retry policy, by which it would run its calls again; start"
            " it without one: what fails in it is retried call by call"
        )
    return None


def payload_value(payload: Any) -> Any:
    """Return the JSON value of a payload, `None` for none, or raise `InvalidInputError`."""
    if isinstance(payload, RawValue) and not payload.payload.metadata:
        return None
    try:
        return payload_json(payload)
    except ValueError as error:
        raise InvalidInputError(f"{error}; send one JSON value") from None


def exact_value(payload: Any) -> Any:
    """Return the JSON value of a payload from a client.

    Raises:
        InvalidInputError: The payload is not JSON, or holds a number that float64 does not hold.
    """
    value = payload_value(payload)
    problem = inexact_number(payload.payload.data) if isinstance(payload, RawValue) else None
    if problem is not None:
        raise InvalidInputError(str(problem))
    return value


def parse_model(value: Any, model: type[ModelT], example: str) -> ModelT:
    """Validate a value, or raise `InvalidInputError` with the expected form, an `example`."""
    if not isinstance(value, dict):
        raise InvalidInputError(f"{misfit_reason(value)}; write one JSON object: {example}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidInputError(summarize_problems(problems_of(error, value, model))) from None


def parse_decision(payload: Any) -> Decision:
    """Parse a decision; its author has a plain name.

    Raises:
        InvalidInputError: The value is no decision, or nothing of the author's name can be seen.
    """
    example = '{"callId": …, "decision": "approve"}'
    decision = parse_model(exact_value(payload), Decision, example)
    if decision.by is None:
        return decision
    return decision.model_copy(update={"by": own_plain_name(decision.by, "by")})


def own_plain_name(name: str, field: str) -> str:
    """Return a plain name, or raise `InvalidInputError`: the name has no visible character."""
    plain = plain_name(name)
    if not plain:
        raise InvalidInputError(f"`{field}`: the name has no visible character; write another")
    return plain


def update_id() -> str:
    return cast(workflow.UpdateInfo, workflow.current_update_info()).id


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


def payload_json(result: Any) -> Any:
    """Return the JSON value of a payload from outside, or raise `ValueError`: it has none."""
    if not isinstance(result, RawValue):  # one of several values, which the SDK has decoded
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
            return Failure(
                "application", cause.message, cause.type or "", details=tuple(cause.details)
            )
        case exceptions.TimeoutError() as cause:
            started = cause.type is not TimeoutType.SCHEDULE_TO_START
            return Failure(
                "timeout", _TIMED_OUT[cause.type or TimeoutType.START_TO_CLOSE], started=started
            )
        case exceptions.CancelledError():
            return Failure("cancelled", "it was cancelled")
        case cause:
            return Failure("other", str(cause))


def model_failure_message(error: ActivityError) -> str:
    """Return the reason why a request to a model failed, with the message of its last failure."""
    last: BaseException = error
    while last.__cause__ is not None and not isinstance(last, ApplicationError):
        last = last.__cause__
    match last:
        case ApplicationError() as failure:
            return failure.message
        case exceptions.TimeoutError(type=TimeoutType.SCHEDULE_TO_START):
            return (
                "the request to the model did not start in time: its endpoint accepts fewer a"
                " minute than runs send (`maxRequestsPerMinute`), or no worker polls their task"
                " queue"
            )
        case cause:
            return f"the model did not answer in time: {cause}"


def failed_usage(error: ActivityError) -> solution.Usage:
    """Return what a failed request used: its answers that ended in a failure.

    The last error has it, or where an attempt timed out, its heartbeat: the innermost is the last.
    """
    cause, found = error.__cause__, solution.NO_USAGE
    while cause is not None:
        match cause:
            case (
                ApplicationError(details=[{solution.FAILED_USAGE: dict(usage)}])
                | exceptions.TimeoutError(
                    last_heartbeat_details=[{solution.FAILED_USAGE: dict(usage)}]
                )
            ):
                found = solution.Usage.read(usage)
        cause = cause.__cause__
    return found


class TaskBudget:
    """The limits of one workflow, whose budgets are full again in each workflow task.

    The checks of the run, of the input that it receives, and of validators have one budget each.
    """

    def __init__(self) -> None:
        self.run, self.input, self.validation = (
            ValidationLimits(partial(self._budget, name)) for name in ("run", "input", "validation")
        )
        self._history_length = workflow.info().get_current_history_length
        self._filled_at = -1
        self._budgets: dict[str, SharedWorkBudget] = {}

    def _budget(self, name: str) -> SharedWorkBudget:
        now = self._history_length()
        if now != self._filled_at:
            self._filled_at, self._budgets = now, {}
        steps = TASK_STEPS if name == "run" else INPUT_STEPS
        return self._budgets.setdefault(name, SharedWorkBudget(steps))

    def admit(self, payload: Any, *, trace: bool = True) -> None:
        """Charge for reading a payload; the first one in a workflow task is always admitted.

        Without `trace`, a validator reads it.

        Raises:
            InvalidInputError: the payload has too many values, or the budget is used up.
        """
        data = payload.payload.data if isinstance(payload, RawValue) else b""
        values = data.count(b",")
        if values > MAX_INPUT_VALUES:
            raise InvalidInputError(
                f"it holds {values} values; at most {MAX_INPUT_VALUES} are read"
            )
        budget = self._budget("input" if trace else "validation")
        is_first = budget.steps == INPUT_STEPS
        work = 1 + values // _VALUES_READ + len(data) // _BYTES_READ
        budget.steps -= work * WORK_STEPS
        if budget.steps < 0 and not is_first:
            raise InvalidInputError("too many messages were received at once; send it again")

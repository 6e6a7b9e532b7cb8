"""The outcome of a call: every expected ending is a class here and a value, not an exception.

A workflow describes an activity that did not succeed as a `Failure`; `outcome_of_failure` and, for
a returned value, `outcome_of_result` turn it into an outcome.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from holdfast.schemas import names
from holdfast.schemas.internal.stored_value import Stored
from holdfast.schemas.message import Content, Message
from holdfast.schemas.names import CallError, ErrorCode
from holdfast.schemas.tool import Envelope, Tool
from holdfast.validation.lenient_json import ensure_json
from holdfast.validation.validator import errors

MAX_MESSAGE_CHARACTERS = 4_000
_CONTENT: TypeAdapter[Content] = TypeAdapter(Content)
# The errors of the SDKs for an activity that is not registered. They also list the registered
# activities, which a model must not see.
_NOT_REGISTERED = re.compile(
    r"is not registered (on|with)|unable to find activityType|available activities|known types are",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Succeeded:
    """The call has a result; `content` of an envelope is its value."""

    value: Any
    details: Any = None
    terminate: bool = False
    message: Message | None = None


@dataclass(frozen=True)
class Answered:
    """A person gave the result in place of the tool."""

    value: Any


@dataclass(frozen=True)
class Refused:
    """The call did not run."""

    error: CallError


@dataclass(frozen=True)
class Failed:
    """The call ran and failed; `value` is what it returned nevertheless."""

    error: CallError
    value: Any = None


@dataclass(frozen=True)
class Unknown:
    """The call started, and the outcome is unknown."""

    message: str


@dataclass(frozen=True)
class Stopped:
    """The activity stopped the run."""

    message: str


Outcome = Succeeded | Answered | Refused | Failed | Unknown | Stopped
Final = Succeeded | Answered | Refused | Failed | Stopped


@dataclass(frozen=True)
class Failure:
    """An activity that did not succeed, as Temporal reports it.

    `started` is false only if it is certain that no worker started it.
    """

    kind: Literal["application", "timeout", "cancelled", "other"]
    message: str
    type: str = ""
    started: bool = True


def refuse(code: ErrorCode, message: str) -> Refused:
    """Build the outcome of a call that does not run."""
    return Refused(CallError(code=code, message=message[:MAX_MESSAGE_CHARACTERS]))


def fail(code: ErrorCode, message: str, value: Any = None) -> Failed:
    """Build the outcome of a call that ran and failed."""
    return Failed(CallError(code=code, message=message[:MAX_MESSAGE_CHARACTERS]), value)


def outcome_of_result(tool: Tool, value: Any) -> Outcome:
    """Build the outcome of a returned value, checked against the tool's `_output`."""
    try:
        ensure_json(value)
    except ValueError as error:
        return _misfit(f"the result of `{tool.name}` is no JSON that can be kept: {error}")
    match value:
        case {"_message": said} if len(value) == 1:
            return _of_message(said)
        case {"_result": dict(envelope)} if len(value) == 1:
            return _of_envelope(tool, envelope)
        case _:
            return check_output(tool, Succeeded(value))


def outcome_of_failure(tool: Tool, failure: Failure) -> Outcome:
    """Build the outcome of a call whose activity did not succeed."""
    match failure:
        case Failure(kind="application", type=names.STOP_RUN):
            return Stopped(failure.message[:MAX_MESSAGE_CHARACTERS])
        case Failure(kind="application", message=said) if _NOT_REGISTERED.search(said):
            return fail(ErrorCode.TOOL_ERROR, describe_failure(failure, f"The tool `{tool.name}`"))
        case Failure(kind="application", type=names.INVALID_ARGUMENTS):
            return fail(ErrorCode.INVALID_ARGUMENTS, f"invalid_arguments: {failure.message}")
        case Failure(kind="application"):
            said = failure.message or f"`{tool.name}` failed, and did not say why."
            return fail(ErrorCode.TOOL_ERROR, said)
        case Failure(started=False):
            return fail(ErrorCode.TIMEOUT, f"`{tool.name}` did not start in time, and was not run.")
        case _ if tool.once:
            return Unknown(
                f"`{tool.name}` was begun, and its end was never heard of: {failure.message}"
            )
        case Failure(kind="timeout"):
            return fail(ErrorCode.TIMEOUT, f"`{tool.name}` did not answer in time.")
        case Failure(kind="cancelled"):
            return fail(ErrorCode.CANCELLED, f"`{tool.name}` was cancelled.")
        case _:
            return fail(ErrorCode.TOOL_ERROR, failure.message)


def describe_failure(failure: Failure, what: str) -> str:
    """Describe why `what` failed, without the names of other activities and workers."""
    if failure.kind == "application" and _NOT_REGISTERED.search(failure.message):
        return f"{what} is not available now."
    return failure.message or f"{what} failed, and did not say why"


def _of_message(said: Any) -> Outcome:
    try:
        message = Message.model_validate(said)
    except ValidationError as error:
        return _misfit(f"the tool's `_message` is no message: {_why(error)}", said)
    if message.role == "tool":
        return _misfit("the tool's `_message` has the role `tool`: return the result itself", said)
    return Succeeded(None, message=message)


def _of_envelope(tool: Tool, said: dict[str, Any]) -> Outcome:
    try:
        envelope = Envelope.read(said)
    except ValidationError as error:
        return _misfit(f"the tool's `_result` cannot be taken apart: {_why(error)}", said)
    return check_output(tool, Succeeded(envelope.content, envelope.details, envelope.terminate))


def _misfit(message: str, value: Any = None) -> Failed:
    return fail(ErrorCode.INVALID_OUTPUT, message, value)


def check_output(tool: Tool, result: Succeeded) -> Succeeded | Failed:
    """Return the result, or an error if it does not fit the tool's `_output`."""
    if tool.output is None:
        return result
    if (stored := Stored.of(result.value)) is not None:
        said = f"{stored.size_bytes} bytes, which is too much to see whether it fits its `_output`"
        return _misfit(f"the result of `{tool.name}` has {said}", result.value)
    problems = errors(result.value, tool.output)
    if not problems:
        return result
    message = f"the result of `{tool.name}` does not fit its `_output`: {'; '.join(problems)}"
    return _misfit(message, result.value)


def content_parts(value: Any) -> Content | None:
    """Return a value as message content, if it is a list of content parts."""
    if not (isinstance(value, list) and value and all(isinstance(part, dict) for part in value)):
        return None
    try:
        return _CONTENT.validate_python(value)
    except ValidationError:
        return None


def _why(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])

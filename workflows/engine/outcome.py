"""How a call ended: every expected ending has a name here and is a value, not an exception.

The shell describes what Temporal said of an activity as a `Failure`; `of_failure` and `of_result`
turn it, or what the activity returned, into an outcome.
"""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from schemas import names
from schemas.errors import CallError, ErrorCode
from schemas.message import Content, Message
from schemas.tool import Envelope, Tool
from workflows.engine.arguments import errors

MAX_MESSAGE_CHARACTERS = 4_000
_CONTENT: TypeAdapter[Content] = TypeAdapter(Content)


@dataclass(frozen=True)
class Succeeded:
    """The call has a result. `content` is the part for the model where the activity said so."""

    value: Any
    details: Any = None
    terminate: bool = False
    message: Message | None = None


@dataclass(frozen=True)
class Answered:
    """A person gave the result in the tool's place."""

    value: Any


@dataclass(frozen=True)
class Refused:
    """The call was not carried out."""

    error: CallError


@dataclass(frozen=True)
class Failed:
    """The call was carried out, and ended badly. `value` is what it returned all the same."""

    error: CallError
    value: Any = None


@dataclass(frozen=True)
class Unknown:
    """The call was started, and nobody knows whether it took effect."""

    message: str


@dataclass(frozen=True)
class Stopped:
    """The activity asked for the run to end."""

    message: str


Outcome = Succeeded | Answered | Refused | Failed | Unknown | Stopped
Final = Succeeded | Answered | Refused | Failed | Stopped


@dataclass(frozen=True)
class Failure:
    """What Temporal says of an activity that did not succeed.

    `started` is false only where it is certain that no worker ever began with it.
    """

    kind: Literal["application", "timeout", "cancelled", "other"]
    message: str
    type: str = ""
    started: bool = True


def refused(code: ErrorCode, message: str) -> Refused:
    """The outcome of a call that is not carried out."""
    return Refused(CallError(code=code, message=message[:MAX_MESSAGE_CHARACTERS]))


def failed(code: ErrorCode, message: str, value: Any = None) -> Failed:
    """The outcome of a call that was carried out in vain."""
    return Failed(CallError(code=code, message=message[:MAX_MESSAGE_CHARACTERS]), value)


def of_result(tool: Tool, value: Any) -> Outcome:
    """What an activity returned, taken apart and checked against the tool's `_output`."""
    match value:
        case {"_message": said} if len(value) == 1:
            return _of_message(said)
        case {"_result": dict(envelope)} if len(value) == 1:
            return _of_envelope(tool, Envelope.read(envelope))
        case _:
            return _checked(tool, Succeeded(value))


def of_failure(tool: Tool, failure: Failure) -> Outcome:
    """What became of a call whose activity did not succeed."""
    match failure:
        case Failure(kind="application", type=names.STOP_RUN):
            return Stopped(failure.message)
        case Failure(kind="application", type=names.ACTIVITY_NOT_FOUND):
            # The text of this failure lists every activity of the worker: not for a model.
            return failed(ErrorCode.TOOL_ERROR, f"The tool `{tool.name}` is not available now.")
        case Failure(kind="application"):
            return failed(ErrorCode.TOOL_ERROR, failure.message)
        case Failure(started=False):
            return failed(
                ErrorCode.TIMEOUT, f"`{tool.name}` was not begun in time: nothing was done."
            )
        case _ if tool.once:
            return Unknown(
                f"`{tool.name}` was begun, and its end was never heard of: {failure.message}"
            )
        case Failure(kind="timeout"):
            return failed(ErrorCode.TIMEOUT, f"`{tool.name}` did not answer in time.")
        case Failure(kind="cancelled"):
            return failed(ErrorCode.CANCELLED, f"`{tool.name}` was cancelled.")
        case _:
            return failed(ErrorCode.TOOL_ERROR, failure.message)


def _of_message(said: Any) -> Outcome:
    try:
        return Succeeded(None, message=Message.model_validate(said))
    except ValidationError as error:
        return failed(
            ErrorCode.INVALID_OUTPUT, f"the tool's `_message` is no message: {_why(error)}", said
        )


def _of_envelope(tool: Tool, envelope: Envelope) -> Outcome:
    return _checked(tool, Succeeded(envelope.content, envelope.details, envelope.terminate))


def _checked(tool: Tool, result: Succeeded) -> Outcome:
    if tool.output is None:
        return result
    problems = list(errors(result.value, tool.output))
    if not problems:
        return result
    message = f"the result of `{tool.name}` does not fit its `_output`: {'; '.join(problems)}"
    return failed(ErrorCode.INVALID_OUTPUT, message, result.value)


def parts(value: Any) -> Content | None:
    """The value as content of a message, where it is a list of content parts."""
    if not (isinstance(value, list) and value and all(isinstance(part, dict) for part in value)):
        return None
    try:
        return _CONTENT.validate_python(value)
    except ValidationError:
        return None


def _why(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])

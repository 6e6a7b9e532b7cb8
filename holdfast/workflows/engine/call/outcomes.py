"""How a call ends: every expected ending is an outcome and a value, not an exception."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from holdfast.schemas.base import BEGINNING_CHARACTERS, Stored, readable_json
from holdfast.schemas.internal.mcp_input import McpInputRequired
from holdfast.schemas.message import Message
from holdfast.schemas.names import CallError, ErrorCode
from holdfast.schemas.tool import ResolvedTool

MAX_MESSAGE_CHARACTERS = 4_000
WAS_RUN = "the call was run; "
HELD_BACK = "a message came before this call started: propose it again if it is still needed"


@dataclass(frozen=True)
class Succeeded:
    """The call has a result; `content` of an envelope is its value."""

    value: Any
    details: Any = None
    terminate: bool = False
    message: Message | None = None
    error: ClassVar[None] = None


@dataclass(frozen=True)
class Answered:
    """A person gave the result in place of the tool."""

    value: Any
    error: ClassVar[None] = None


@dataclass(frozen=True)
class Refused:
    """The call did not run."""

    error: CallError
    value: ClassVar[None] = None


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
    value: ClassVar[None] = None
    error: ClassVar[None] = None


Final = Succeeded | Answered | Refused | Failed | Stopped
Outcome = Final | Unknown | McpInputRequired


@dataclass(frozen=True)
class Failure:
    """An activity that did not succeed; `started` is false only if no worker can have run it."""

    kind: Literal["application", "timeout", "cancelled", "other"]
    message: str
    type: str = ""
    started: bool = True
    details: tuple[Any, ...] = ()


def refuse(code: ErrorCode, message: str) -> Refused:
    return Refused(CallError(code=code, message=message[:MAX_MESSAGE_CHARACTERS]))


def fail(code: ErrorCode, message: str, value: Any = None) -> Failed:
    return Failed(CallError(code=code, message=message[:MAX_MESSAGE_CHARACTERS]), value)


def misfit(tool: ResolvedTool, why: str, value: Any = None) -> Failed:
    """Build the outcome of a call that ran and whose result is rejected: `its {why}`.

    The message has the result, or its beginning, unless the tool hides it from the model.
    """
    text = ""
    if value is not None and tool.show != "none":
        stored = Stored.of(value)
        text = readable_json(value) if stored is None else stored.beginning
        text = f"; it is {text[:BEGINNING_CHARACTERS]}"
    return fail(ErrorCode.INVALID_OUTPUT, f"{WAS_RUN}its {why}{text}", value)


def all_request_stop(ends: Sequence[Final | None]) -> bool:
    """Return whether there are any, all succeeded, and every result requests the run's end."""
    return bool(ends) and all(isinstance(end, Succeeded) and end.terminate for end in ends)


def error_of(outcome: Final | None) -> CallError | None:
    return None if outcome is None else outcome.error

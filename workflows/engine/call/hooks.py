"""Hooks: activities that are asked about a call while the engine decides on it.

Deciding on calls is written as generators. Where a hook is named, they yield what is to be asked
and are sent how that ended; whoever drives them runs the activity in between. So the engine reads
as one line of thought, and still does nothing itself.

An agent's hook comes before the tool's on a call's way in, and after it on its way out.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from holdfast.schemas.agent import AgentRules
from holdfast.schemas.internal.stored_value import Stored
from holdfast.schemas.names import CHOOSE_SKILL, STOP_RUN, CallError, ErrorCode
from holdfast.schemas.tool import ActivityBinding
from holdfast.validation.work_budget import bounded
from holdfast.workflows.engine.call.outcome import Failure, describe_failure
from holdfast.workflows.engine.call.tool_call import ToolCall

HookName = Literal["prepare", "repair", "before", "after"]
T = TypeVar("T")


@dataclass(frozen=True)
class Hook:
    """What is asked: the `n`-th use, from 1, of a hook of this name for this call."""

    name: HookName
    call_id: str
    n: int
    activity: ActivityBinding
    arguments: list[Any]


@dataclass(frozen=True)
class HookReturned:
    """The hook's answer."""

    value: Any


@dataclass(frozen=True)
class HookFailed:
    """The hook failed."""

    message: str


@dataclass(frozen=True)
class HookStopped:
    """The hook asked for the run to stop."""

    message: str


HookResult = HookReturned | HookFailed | HookStopped
HookRequests = Generator[Hook, HookResult, T]


class CallRefused(Exception):
    """The call is not carried out; `error` is its result."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = CallError(code=code, message=message)


class RunStopped(Exception):
    """A hook asked for the run to stop; the message is what it said."""


def hook_activities(call: ToolCall, rules: AgentRules, name: HookName) -> list[ActivityBinding]:
    """The hooks of a name that are asked about a call, in the order in which they are."""
    if call.name == CHOOSE_SKILL:
        return []  # the engine itself carries it out
    both = [getattr(hooks, name) for hooks in (rules.hooks, call.tool.hooks)]
    if name == "after":
        both.reverse()
    return [activity for activity in both if activity is not None]


def run_hook(
    call: ToolCall, name: HookName, activity: ActivityBinding, *arguments: Any
) -> HookRequests[Any]:
    """Ask a hook, and hand back what it said.

    Raises:
        Refusal: it failed, which blocks the call.
        Stop: the run is to stop.
    """
    match (yield Hook(name, call.id, call.number_hook_use(name), activity, list(arguments))):
        case HookReturned(value):
            if (stored := Stored.of(value)) is not None:
                raise invalid_hook_result(
                    name, f"it returned {stored.size_bytes} bytes, which is too much"
                )
            return value
        case HookFailed(message):
            raise CallRefused(ErrorCode.BLOCKED, f"the hook `_{name}` failed: {message}")
        case HookStopped(message):
            raise RunStopped(message)


def invalid_hook_result(name: HookName, why: str) -> CallRefused:
    """A hook said what it cannot say."""
    return CallRefused(ErrorCode.BLOCKED, f"the hook `_{name}` failed: {why}")


@dataclass(frozen=True)
class Proceed:
    """What `_before` decides: the call goes on, perhaps with other arguments."""

    arguments: dict[str, Any] | None = None


@dataclass(frozen=True)
class UseResult:
    """What `_before` decides: this is the call's result, and it is not carried out."""

    result: Any


def hook_view(call: ToolCall) -> dict[str, Any]:
    """A call as `_before` and `_after` are given it."""
    return {
        "id": call.id,
        "tool": call.name,
        "arguments": call.arguments,
        "reasoning": call.meta.reasoning,
    }


def read_before(said: Any) -> Proceed | UseResult:
    """What a `_before` said: nothing, or one of `{"arguments"}`, `{"result"}`, `{"block": reason}`
    and `{"stop": reason}`.

    Raises:
        Refusal: it blocks the call, or said none of these.
        Stop: it stops the run.
    """
    match said:
        case None | {} if not said:
            return Proceed()
        case {"arguments": dict(arguments)} if len(said) == 1:
            return Proceed(arguments)
        case {"result": result} if len(said) == 1:
            return UseResult(result)
        case {"block": str(reason)} if len(said) == 1:
            raise CallRefused(ErrorCode.BLOCKED, reason or "a rule of this agent blocks the call")
        case {"stop": str(reason)} if len(said) == 1:
            raise RunStopped(reason)
    raise invalid_hook_result(
        "before", 'it has to return null, {"arguments"}, {"result"}, {"block"} or {"stop"}'
    )


def read_after(said: Any) -> dict[str, Any]:
    """What an `_after` said: nothing, or some of `content`, `details`, `error` (a text, or null)
    and `terminate`, or `{"stop": reason}`.

    Raises:
        Refusal: it said none of these.
        Stop: it stops the run.
    """
    match said:
        case None:
            return {}
        case {"stop": str(reason)} if len(said) == 1:
            raise RunStopped(reason)
        case dict() if _is_result(said):
            return said
    may = "null, some of `content`, `details`, `error` and `terminate`, or `stop`"
    raise invalid_hook_result("after", f"it has to return {may}")


def _is_result(said: dict[str, Any]) -> bool:
    return (
        all(key in ("content", "details", "error", "terminate") for key in said)
        and isinstance(said.get("error", ""), str | None)
        and isinstance(said.get("terminate", False), bool)
    )


def advance(deciding: HookRequests[None], said: HookResult | None = None) -> Hook | None:
    """Go on deciding, with what a hook said, up to the next one; None when all is decided."""
    with bounded():
        try:
            return next(deciding) if said is None else deciding.send(said)
        except StopIteration:
            return None


def hook_result_of(failure: Failure) -> HookResult:
    """How a hook ended whose activity did not succeed."""
    if failure.kind == "application" and failure.type == STOP_RUN:
        return HookStopped(failure.message)
    return HookFailed(describe_failure(failure, "its activity"))

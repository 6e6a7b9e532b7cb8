"""Hooks: activities that change or block a call while the engine decides on it.

Decisions on calls are generators. For each configured hook they yield its call and receive its
result; the workflow runs the activity in between. So the engine reads as one sequence, and has no
effect itself. Before a call, an agent's hook runs before the tool's; after a call, it runs after
the tool's.
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
    """The `n`-th use, from 1, of a hook for a call."""

    name: HookName
    call_id: str
    n: int
    activity: ActivityBinding
    arguments: list[Any]


@dataclass(frozen=True)
class HookReturned:
    """The hook returned a value."""

    value: Any


@dataclass(frozen=True)
class HookFailed:
    """The hook failed."""

    message: str


@dataclass(frozen=True)
class HookStopped:
    """The hook stopped the run."""

    message: str


HookResult = HookReturned | HookFailed | HookStopped
HookRequests = Generator[Hook, HookResult, T]


class CallRefused(Exception):
    """The call does not run; `error` is its result."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = CallError(code=code, message=message)


class RunStopped(Exception):
    """A hook stopped the run, with this message."""


def hook_activities(call: ToolCall, rules: AgentRules, name: HookName) -> list[ActivityBinding]:
    """List the hooks of a name that apply to a call, in order."""
    if call.name == CHOOSE_SKILL:
        return []  # the engine itself executes it
    both = [getattr(hooks, name) for hooks in (rules.hooks, call.tool.hooks)]
    if name == "after":
        both.reverse()
    return [activity for activity in both if activity is not None]


def run_hook(
    call: ToolCall, name: HookName, activity: ActivityBinding, *arguments: Any
) -> HookRequests[Any]:
    """Request a hook and return its value.

    Raises:
        CallRefused: The hook failed, which blocks the call.
        RunStopped: The hook stops the run.
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
    """Build the refusal of a call with a hook that returned an invalid result."""
    return CallRefused(ErrorCode.BLOCKED, f"the hook `_{name}` failed: {why}")


@dataclass(frozen=True)
class Proceed:
    """The call continues, with other arguments if `_before` returned any."""

    arguments: dict[str, Any] | None = None


@dataclass(frozen=True)
class UseResult:
    """`_before` returned the call's result, so that the tool does not run."""

    result: Any


def hook_view(call: ToolCall) -> dict[str, Any]:
    """Return a call as `_before` and `_after` receive it."""
    return {
        "id": call.id,
        "tool": call.name,
        "arguments": call.arguments,
        "reasoning": call.meta.reasoning,
    }


def read_before(value: Any) -> Proceed | UseResult:
    """Read the result of `_before`.

    It is null, or one of `{"arguments"}`, `{"result"}`, `{"block": reason}` and `{"stop": reason}`.

    Raises:
        CallRefused: The hook blocks the call, or its result is invalid.
        RunStopped: The hook stops the run.
    """
    match value:
        case None | {} if not value:
            return Proceed()
        case {"arguments": dict(arguments)} if len(value) == 1:
            return Proceed(arguments)
        case {"result": result} if len(value) == 1:
            return UseResult(result)
        case {"block": str(reason)} if len(value) == 1:
            raise CallRefused(ErrorCode.BLOCKED, reason or "a rule of this agent blocks the call")
        case {"stop": str(reason)} if len(value) == 1:
            raise RunStopped(reason)
    raise invalid_hook_result(
        "before", 'it has to return null, {"arguments"}, {"result"}, {"block"} or {"stop"}'
    )


def read_after(value: Any) -> dict[str, Any]:
    """Read the parts of a result that `_after` replaces.

    The value is null, some of `content`, `details`, `error` (a text, or null) and `terminate`, or
    `{"stop": reason}`.

    Raises:
        CallRefused: The result of the hook is invalid.
        RunStopped: The hook stops the run.
    """
    match value:
        case None:
            return {}
        case {"stop": str(reason)} if len(value) == 1:
            raise RunStopped(reason)
        case dict() if _is_result(value):
            return value
    may = "null, some of `content`, `details`, `error` and `terminate`, or `stop`"
    raise invalid_hook_result("after", f"it has to return {may}")


def _is_result(value: dict[str, Any]) -> bool:
    return (
        all(key in ("content", "details", "error", "terminate") for key in value)
        and isinstance(value.get("error", ""), str | None)
        and isinstance(value.get("terminate", False), bool)
    )


def advance(deciding: HookRequests[None], value: HookResult | None = None) -> Hook | None:
    """Send a hook's result to a generator; return the next hook, or None at its end."""
    with bounded():
        try:
            return next(deciding) if value is None else deciding.send(value)
        except StopIteration:
            return None


def hook_result_of(failure: Failure) -> HookResult:
    """Return the result of a hook whose activity did not succeed."""
    if failure.kind == "application" and failure.type == STOP_RUN:
        return HookStopped(failure.message)
    return HookFailed(describe_failure(failure, "its activity"))

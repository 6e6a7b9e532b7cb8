"""The activities of a call, which are its tool's and its hooks', and what they returned.

Hooks change or block a call while the engine decides on it. Decisions on calls are generators: for
each configured hook they yield its call and receive its result; the workflow runs the activity in
between. Before a call, an agent's hook runs before the tool's; after a call, it runs after the
tool's.
"""

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from holdfast.schemas import names
from holdfast.schemas.agent import AgentRules
from holdfast.schemas.base import Stored
from holdfast.schemas.message import Content, Message
from holdfast.schemas.names import CallError, ErrorCode
from holdfast.schemas.tool import ActivityBinding, Envelope, RepairAgent, ResolvedTool
from holdfast.validation.lenient_json import ensure_json
from holdfast.validation.schema_node import ValidationLimits, WorkBudget
from holdfast.validation.validator import errors
from holdfast.workflows.engine.call.outcomes import (
    MAX_MESSAGE_CHARACTERS,
    WAS_RUN,
    Answered,
    Failed,
    Failure,
    Final,
    Outcome,
    Stopped,
    Succeeded,
    Unknown,
    fail,
    misfit,
)
from holdfast.workflows.engine.call.states import CallEvent, ExecutedCall, ToolCall

HookName = Literal[
    "prepare", "repair", "before", "after", "beforeModel", "onModelError", "afterAnswer"
]
T = TypeVar("T")
_CONTENT: TypeAdapter[Content] = TypeAdapter(Content)
# The errors of the SDKs for an activity that is not registered. They also list the registered
# activities, which a model must not see.
_NOT_REGISTERED = re.compile(
    r"is not registered (on|with)|unable to find activityType|available activities|known types are",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Hook:
    """The `n`-th use, from 1, of a hook for a call, or for the request of a turn (`t3`)."""

    name: HookName
    call_id: str
    n: int
    activity: ActivityBinding | RepairAgent
    arguments: list[Any]


HookResult = Succeeded | Failure
# The outcomes that the hooks `_after` review.
Reviewed = Succeeded | Answered | Failed
HookRequests = Generator[Hook, HookResult, T]


class CallRefused(Exception):
    """The call does not run; `error` is its result."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = CallError(code=code, message=message)


class RunStopped(Exception):
    """A hook stopped the run, with this message."""


def advance(
    deciding: HookRequests[None], limits: ValidationLimits, value: HookResult | None = None
) -> Hook | None:
    """Send a hook's result to a generator; return the next hook, or None at its end.

    Its checks until then have one budget of these limits.
    """
    with limits.decision():
        try:
            return next(deciding) if value is None else deciding.send(value)
        except StopIteration:
            return None


def hook_activities(
    call: ToolCall, rules: AgentRules, name: HookName
) -> list[ActivityBinding | RepairAgent]:
    """List the hooks of a name that apply to a call, in order."""
    if call.name == names.CHOOSE_SKILL or (call.is_loop and name != "repair"):
        return []  # the engine itself executes it, or the calls for its items have them
    both = [getattr(rules.hooks, name), getattr(call.tool.hooks, name)]
    if name == "after":
        both.reverse()
    return [*filter(None, both)]


def run_hook(
    call: ToolCall, name: HookName, activity: ActivityBinding | RepairAgent, *arguments: Any
) -> HookRequests[Any]:
    """Request a hook and return its value, or raise `CallRefused` or `RunStopped`."""
    hook = Hook(name, call.id, call.number_hook_use(name), activity, list(arguments))
    return hook_value(name, (yield hook))


def hook_value(name: HookName, result: HookResult) -> Any:
    """Return the value of a hook, or raise `CallRefused` or `RunStopped`."""
    match result:
        case Succeeded(value):
            if (stored := Stored.of(value)) is not None:
                raise invalid_hook_result(
                    name, f"it returned {stored.size_bytes} bytes, which is too much"
                )
            return value
        case Failure("application", message, names.STOP_RUN):
            raise RunStopped(message)
        case Failure() as failure:
            raise invalid_hook_result(name, _describe(failure, "its activity"))


def invalid_hook_result(name: HookName, why: str) -> CallRefused:
    return CallRefused(ErrorCode.BLOCKED, f"the hook `_{name}` failed: {why}")


def call_view(call: ToolCall) -> dict[str, Any]:
    """Return a call as its activity and the hooks `_before` and `_after` receive it."""
    return {
        "id": call.id,
        "tool": call.name,
        "arguments": call.arguments,
        "reasoning": call.meta.reasoning,
    }


def run_after_hooks(
    call: ToolCall, rules: AgentRules, limits: ValidationLimits
) -> HookRequests[None]:
    """Run the hooks `_after`, which may replace parts of a result; a refused call has none."""
    outcome = call.ended
    if call.is_reviewed or not isinstance(outcome, Reviewed):
        return
    try:
        for activity in hook_activities(call, rules, "after"):
            result = {
                "content": outcome.value,
                "details": getattr(outcome, "details", None),
                "error": None if outcome.error is None else outcome.error.to_json(),
                "terminate": getattr(outcome, "terminate", False),
            }
            replaced = yield from run_hook(call, "after", activity, call_view(call), result)
            outcome = _patched(call.tool, outcome, replaced, limits.budget())
    except CallRefused as refusal:
        message = f"the call was run, and its result is withheld: {refusal}"
        outcome = fail(refusal.error.code, message)
    except RunStopped as stop:
        outcome = Stopped(str(stop))
    call.move(CallEvent.RESULT_REVIEWED, ExecutedCall(call.decided, outcome))


def _patched(tool: ResolvedTool, outcome: Final, value: Any, budget: WorkBudget) -> Final:
    match value:
        case None | {} if not value:
            return outcome
        case {"stop": str(reason)} if len(value) == 1:
            raise RunStopped(reason)
        case dict() if (
            value.keys() <= {"content", "details", "error", "terminate"}
            and isinstance(value.get("error", ""), str | None)
            and isinstance(value.get("terminate", False), bool)
        ):
            parts: dict[str, Any] = value
        case _:
            may = "null, some of `content`, `details`, `error` and `terminate`, or `stop`"
            raise invalid_hook_result("after", f"it has to return {may}")
    content = parts.get("content", outcome.value)
    if parts.get("error") is not None:
        return fail(ErrorCode.TOOL_ERROR, parts["error"], content)
    if isinstance(outcome, Failed) and "error" not in parts:
        return Failed(outcome.error, content)
    result = outcome if isinstance(outcome, Succeeded) else Succeeded(None)
    details = parts.get("details", result.details)
    terminate = parts.get("terminate", result.terminate)
    message = None if "content" in parts else result.message
    return check_output(tool, Succeeded(content, details, terminate, message), budget)


def outcome_of_result(tool: ResolvedTool, value: Any, budget: WorkBudget) -> Succeeded | Failed:
    """Build the outcome of a returned value, checked against the tool's `_output`."""
    try:
        ensure_json(value)
    except ValueError as error:
        return misfit(tool, f"result is no JSON that can be kept: {error}")
    match value:
        case {"_message": said} if len(value) == 1:
            try:
                message = Message.model_validate(said)
            except ValidationError as error:
                return misfit(tool, f"`_message` is no message: {_why(error)}", said)
            if message.role == "tool":
                why = "`_message` has the role `tool`: return the result itself"
                return misfit(tool, why, said)
            return Succeeded(None, message=message)
        case {"_result": dict(said)} if len(value) == 1:
            try:
                envelope = Envelope.read(said)
            except ValidationError as error:
                return misfit(tool, f"`_result` cannot be read: {_why(error)}", said)
            result = Succeeded(envelope.content, envelope.details, envelope.terminate)
            return check_output(tool, result, budget)
        case _:
            return check_output(tool, Succeeded(value), budget)


def outcome_of_failure(tool: ResolvedTool, failure: Failure) -> Outcome:
    """Build the outcome of a call whose activity did not succeed."""
    match failure:
        case Failure(kind="application", type=names.STOP_RUN):
            return Stopped(failure.message[:MAX_MESSAGE_CHARACTERS])
        case Failure(type=names.RECORDED_ERROR, message=message, details=(recorded, *_)) if (
            tool.activity is not None and tool.activity.type == names.RECORDED_CALL
        ):
            return fail(ErrorCode(recorded), message)
        case Failure(kind="application", message=message) if _NOT_REGISTERED.search(message):
            return fail(ErrorCode.TOOL_ERROR, _describe(failure, f"The tool `{tool.name}`"))
        case Failure(kind="application", type=names.INVALID_ARGUMENTS):
            why = failure.message.removeprefix(f"{ErrorCode.INVALID_ARGUMENTS}: ")
            return fail(ErrorCode.INVALID_ARGUMENTS, why)
        case Failure(kind="application", type=ErrorCode.OUTCOME_UNKNOWN, message=message):
            return Unknown(f"the outcome of `{tool.name}` is unknown: {message}")
        case Failure(kind="application", type=type_) if not (
            tool.once and type_ == names.WORKER_SHUTDOWN
        ):
            message = failure.message or f"`{tool.name}` failed, and reported no reason."
            message = re.sub(r"\Ait was run; ", WAS_RUN, message)
            return fail(ErrorCode.TOOL_ERROR, message)
        case Failure(started=False):
            return fail(ErrorCode.TIMEOUT, f"`{tool.name}` did not start in time, and was not run.")
        case _ if tool.once:
            return Unknown(f"the outcome of `{tool.name}` is unknown: {failure.message}")
        case Failure(kind="timeout" | "cancelled" as kind):
            code = ErrorCode.TIMEOUT if kind == "timeout" else ErrorCode.CANCELLED
            end = "did not answer in time" if kind == "timeout" else "was cancelled"
            return fail(code, f"`{tool.name}` {end}.")
        case _:
            return fail(ErrorCode.TOOL_ERROR, failure.message)


def outcome_of_abandoned(tool: ResolvedTool, why: str) -> Failed:
    """Build the outcome of a call that was running when its run ended."""
    if tool.once:
        return fail(ErrorCode.OUTCOME_UNKNOWN, f"{why}; whether the call took effect is unknown")
    return fail(ErrorCode.CANCELLED, why)


def _describe(failure: Failure, what: str) -> str:
    """Describe why `what` failed, without the names of other activities and workers."""
    if failure.kind == "application" and _NOT_REGISTERED.search(failure.message):
        return f"{what} is not available now."
    return failure.message or f"{what} failed, and reported no reason"


def check_output(tool: ResolvedTool, result: Succeeded, budget: WorkBudget) -> Succeeded | Failed:
    """Return the result, or an error if it does not fit the tool's `_output`."""
    if tool.output is None:
        return result
    if (stored := Stored.of(result.value)) is not None:
        size = f"{stored.size_bytes} bytes, which is too much to validate by its `_output`"
        return misfit(tool, f"result has {size}", result.value)
    problems = errors(result.value, tool.output, budget)
    if not problems:
        return result
    why = f"result does not fit its `_output`: {'; '.join(problems)}"
    return misfit(tool, why, result.value)


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

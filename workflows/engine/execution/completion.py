"""Completing a call: the hooks `_after`, the write of its result, and its end in the log."""

from typing import Any

from holdfast.schemas.internal.stored_value import Stored
from holdfast.schemas.log_entry import MessageEntry, NoticeEntry, ToolEndEntry
from holdfast.schemas.names import ErrorCode
from holdfast.workflows.engine.call.hooks import (
    CallRefused,
    HookRequests,
    RunStopped,
    hook_activities,
    hook_view,
    read_after,
    run_hook,
)
from holdfast.workflows.engine.call.outcome import (
    Answered,
    Failed,
    Final,
    Refused,
    Stopped,
    Succeeded,
    check_output,
    fail,
)
from holdfast.workflows.engine.call.tool_call import ResultStage, ToolCall, error_of
from holdfast.workflows.engine.conversation import initial_context
from holdfast.workflows.engine.execution.dependency_graph import check_write
from holdfast.workflows.engine.model.prompt import as_said, is_shown_whole, result_message, veil_of
from holdfast.workflows.engine.run_state import MAX_STATE_BYTES, RunState
from holdfast.workflows.engine.state.data import CannotWrite


def run_after_hooks(call: ToolCall, state: RunState) -> HookRequests[None]:
    """Run the hooks `_after`, which may replace parts of a result; a refused call has none."""
    outcome = call.outcome
    if call.result_stage >= ResultStage.REVIEWED or outcome is None:
        return
    if isinstance(outcome, Refused | Stopped):
        return
    try:
        for activity in hook_activities(call, state.rules, "after"):
            error = error_of(outcome)
            result = {
                "content": getattr(outcome, "value", None),
                "details": getattr(outcome, "details", None),
                "error": None if error is None else error.to_json(),
                "terminate": getattr(outcome, "terminate", False),
            }
            replaced = yield from run_hook(call, "after", activity, hook_view(call), result)
            outcome = _patched(call, outcome, read_after(replaced))
    except CallRefused as refusal:
        message = f"the call was run, and its result is withheld: {refusal}"
        outcome = fail(refusal.error.code, message)
    except RunStopped as stop:
        outcome = Stopped(str(stop))
    call.replace_outcome(outcome)
    call.advance_result(ResultStage.REVIEWED)


def withhold_result(call: ToolCall, why: str, state: RunState) -> None:
    """Withhold a result that hooks have to review, because there is no time left for them."""
    if call.result_stage >= ResultStage.REVIEWED:
        return
    if not isinstance(call.outcome, Succeeded | Answered | Failed):
        return
    if hook_activities(call, state.rules, "after"):
        message = f"the call was run, and its result is withheld: {why}"
        call.replace_outcome(fail(ErrorCode.CANCELLED, message))


def publish_result(call: ToolCall, state: RunState) -> HookRequests[None]:
    """Make an ended call's result readable for the calls that depend on it, after its hooks."""
    yield from run_after_hooks(call, state)
    try:
        check_write(call, state)
    except CannotWrite as error:
        if error_of(call.outcome) is None:
            value = getattr(call.outcome, "value", None)
            call.replace_outcome(fail(ErrorCode.INVALID_OUTPUT, str(error), value))
    call.advance_result(ResultStage.PUBLISHED)


def close_call(turn: int, call: ToolCall, state: RunState) -> None:
    """Write a call's result to its places, and log its end."""
    paths, value = call.writes
    error = error_of(call.outcome)
    try:
        if paths and (stored := Stored.of(value)) is not None:
            most = f"{paths[0]} can take in at most {MAX_STATE_BYTES}"
            raise CannotWrite(
                f"the result of `{call.name}` has {stored.size_bytes} bytes, and {most}"
            )
        veil = veil_of(call, value) if error is None else None
        state.write(paths, value, call.meta.output_method, call.id, veil)
    except CannotWrite as problem:
        if error is None:
            call.replace_outcome(fail(ErrorCode.INVALID_OUTPUT, str(problem), value))
        else:
            text = f"the error of {call.id} was not kept: {problem}"
            state.log.append(NoticeEntry(text=text))
    if isinstance(call.outcome, Succeeded | Answered):
        state.succeeded[call.name] = None
    _log_end(turn, call, state)
    call.advance_result(ResultStage.CLOSED)


def _patched(call: ToolCall, outcome: Final, parts: dict[str, Any]) -> Final:
    """Return the outcome with the parts replaced that a hook returned."""
    if not parts:
        return outcome
    content = parts.get("content", getattr(outcome, "value", None))
    if parts.get("error") is not None:
        return fail(ErrorCode.TOOL_ERROR, parts["error"], content)
    if isinstance(outcome, Failed) and "error" not in parts:
        return Failed(outcome.error, content)
    result = outcome if isinstance(outcome, Succeeded) else Succeeded(None)
    return check_output(
        call.tool,
        Succeeded(
            content,
            parts.get("details", result.details),
            parts.get("terminate", result.terminate),
            None if "content" in parts else result.message,
        ),
    )


def _log_end(turn: int, call: ToolCall, state: RunState) -> None:
    outcome = call.outcome
    assert outcome is not None  # only an ended call is closed
    error = error_of(outcome)
    paths, _ = call.writes
    place = str(paths[0]) if paths and error is None else None
    message = result_message(call, outcome, place)
    is_whole = place is not None or is_shown_whole(call, outcome, message)
    state.log.append(
        ToolEndEntry(
            turn=turn,
            call_id=call.id,
            tool=call.name,
            error=error,
            value=None if is_whole else getattr(outcome, "value", None),
            details=outcome.details if isinstance(outcome, Succeeded) else None,
        )
    )
    state.log.append(MessageEntry(message=message))
    if isinstance(outcome, Succeeded) and outcome.message is not None:
        veil, extra = veil_of(call, None), as_said(call, outcome.message)
        initial_context.append_message(state, extra, within=call.meta.instance, veil=veil)

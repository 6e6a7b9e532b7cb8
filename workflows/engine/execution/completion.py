"""Closing a call: what the hooks `_after` make of its result, and how that enters the log."""

from holdfast.schemas.errors import CallError, ErrorCode
from holdfast.schemas.internal.stored_value import Stored
from holdfast.schemas.log_entry import MessageEntry, NoticeEntry, ToolEndEntry
from holdfast.workflows.engine.call.hooks import (
    CallRefused,
    HookRequests,
    Replaced,
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
from holdfast.workflows.engine.call.tool_call import ToolCall, error_of, writes_of
from holdfast.workflows.engine.conversation import initial_context
from holdfast.workflows.engine.model.prompt import as_said, is_shown_whole, result_message, veil_of
from holdfast.workflows.engine.run_state import MAX_STATE_BYTES, RunState
from holdfast.workflows.engine.state.data import CannotWrite


def run_after_hooks(call: ToolCall, state: RunState) -> HookRequests[None]:
    """Let the hooks replace parts of a call's result; those of a call that was refused are not
    asked."""
    if call.is_reviewed or call.tool is None or isinstance(call.outcome, Refused | Stopped):
        return
    try:
        for activity in hook_activities(call, state.rules, "after"):
            shown = hook_view(call), _as_result(call.outcome)
            said = yield from run_hook(call, "after", activity, *shown)
            call.outcome = _replaced(call, read_after(said))
    except CallRefused as refusal:
        message = f"the call was carried out, and its result is withheld: {refusal}"
        call.outcome = fail(refusal.error.code, message)
    except RunStopped as stop:
        call.outcome = Stopped(str(stop))
    call.is_reviewed = True


def withhold_result(call: ToolCall, why: str, state: RunState) -> None:
    """Keep back a result that hooks would have to see first, since there is no time to ask them."""
    if call.is_reviewed or not isinstance(call.outcome, Succeeded | Answered | Failed):
        return
    if call.tool is not None and hook_activities(call, state.rules, "after"):
        message = f"the call was carried out, and its result is withheld: {why}"
        call.outcome = fail(ErrorCode.CANCELLED, message)


def close_call(turn: int, call: ToolCall, state: RunState) -> None:
    """Write a call's result where it belongs, and tell how the call ended."""
    assert call.outcome is not None  # every call is ended before it is closed
    call.outcome = _write(call, call.outcome, state)
    if isinstance(call.outcome, Succeeded | Answered):
        state.succeeded[call.name] = None
    _tell(turn, call, call.outcome, state)
    call.is_closed, call.visible_data = True, None


def _as_result(outcome: Final | None) -> dict[str, object]:
    """A result as `_after` is given it."""
    error = None if outcome is None else error_of(outcome)
    return {
        "content": getattr(outcome, "value", None),
        "details": getattr(outcome, "details", None),
        "error": None if error is None else error.to_json(),
        "terminate": getattr(outcome, "terminate", False),
    }


def _replaced(call: ToolCall, by: Replaced) -> Final:
    """The outcome with the parts replaced that a hook named."""
    outcome, parts = call.outcome, by.parts
    assert call.tool is not None  # it was carried out
    assert outcome is not None  # and has ended
    if not parts:
        return outcome
    content = parts.get("content", getattr(outcome, "value", None))
    if parts.get("error") is not None:
        return fail(ErrorCode.TOOL_ERROR, parts["error"], content)
    if isinstance(outcome, Failed) and "error" not in parts:
        return Failed(outcome.error, content)
    result = outcome if isinstance(outcome, Succeeded) else Succeeded(None)
    details, terminate = result.details, result.terminate
    return check_output(
        call.tool,
        Succeeded(
            content,
            parts.get("details", details),
            parts.get("terminate", terminate),
            None if "content" in parts else result.message,
        ),
    )


def _write(call: ToolCall, outcome: Final, state: RunState) -> Final:
    """Write the result where it belongs; a write that cannot be made is the call's error."""
    paths, value = writes_of(call, outcome)
    if paths and (stored := Stored.of(value)) is not None:
        said = f"{stored.size_bytes} bytes, and {paths[0]} can take in at most {MAX_STATE_BYTES}"
        return fail(ErrorCode.INVALID_OUTPUT, f"the result of `{call.name}` has {said}", value)
    try:
        veil = veil_of(call, value) if error_of(outcome) is None else None
        state.write(paths, value, call.output_method, call.id, veil)
    except CannotWrite as error:
        if error_of(outcome) is None:
            return fail(ErrorCode.INVALID_OUTPUT, str(error), value)
        state.log.append(NoticeEntry(text=f"the error of {call.id} was not kept: {error}"))
    return outcome


def _tell(turn: int, call: ToolCall, outcome: Final, state: RunState) -> None:
    place = _place(call, outcome)
    message = result_message(call, outcome, place)
    whole = place is not None or is_shown_whole(call, outcome, message)
    error: CallError | None = error_of(outcome)
    state.log.append(
        ToolEndEntry(
            turn=turn,
            call_id=call.id,
            tool=call.name,
            error=error,
            value=None if whole else getattr(outcome, "value", None),
            details=outcome.details if isinstance(outcome, Succeeded) else None,
        )
    )
    state.log.append(MessageEntry(message=message))
    if isinstance(outcome, Succeeded) and outcome.message is not None:
        veil, said = veil_of(call, None), as_said(call, outcome.message)
        initial_context.add(state, said, within=call.instance, veil=veil)


def _place(call: ToolCall, outcome: Final) -> str | None:
    """Where the whole result can be read from, once it is written."""
    paths, _ = writes_of(call, outcome)
    return str(paths[0]) if paths and error_of(outcome) is None else None

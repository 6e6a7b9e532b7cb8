"""Closing calls: a result is written to its places and logged, with what the model reads of it."""

from holdfast.schemas.internal.stored_value import Stored
from holdfast.schemas.log_entry import MessageEntry, NoticeEntry, ToolEndEntry
from holdfast.schemas.names import ErrorCode
from holdfast.workflows.engine.call.tool_call import Final, Succeeded, ToolCall, error_of, fail
from holdfast.workflows.engine.conversation.initial_context import append_message
from holdfast.workflows.engine.model.answer import (
    as_said,
    is_shown_whole,
    is_untrusted_error,
    result_message,
    veil_of,
)
from holdfast.workflows.engine.run_state import MAX_STATE_BYTES, RunState
from holdfast.workflows.engine.state.data import CannotWrite


def write_result(call: ToolCall, state: RunState) -> Final:
    """Write a call's result to its places; return its outcome."""
    outcome = call.ended
    paths, value = call.writes
    if not paths:
        return outcome
    try:
        if (stored := Stored.of(value)) is not None:
            most = f"{paths[0]} can take in at most {MAX_STATE_BYTES}"
            raise CannotWrite(
                f"the result of `{call.name}` has {stored.size_bytes} bytes, and {most}"
            )
        is_marked = error_of(outcome) is None or is_untrusted_error(call, outcome)
        veil = veil_of(call, value) if is_marked else None
        state.write(paths, value, call.meta.output_method, call.id, veil)
    except CannotWrite as problem:
        if error_of(outcome) is None:
            return fail(ErrorCode.INVALID_OUTPUT, str(problem), value)
        text = f"the error of {call.id} was not kept: {problem}"
        state.log.append(NoticeEntry(text=text))
    return outcome


def log_end(turn: int, call: ToolCall, outcome: Final, state: RunState) -> None:
    """Log the end of a call, and the message that the model reads."""
    error = error_of(outcome)
    paths, _ = call.writes
    place = str(paths[0]) if paths and error is None else None
    message = result_message(call, outcome, place)
    is_whole = place is not None or is_shown_whole(outcome, message)
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
        append_message(state, extra, within=call.meta.instance, veil=veil)

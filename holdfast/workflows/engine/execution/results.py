"""The results of calls: reviewed by hooks, published to calls that need them, written, and logged.

The results of a turn are logged in source order, when all of its calls have ended.
"""

from dataclasses import replace

from holdfast.schemas import log_entry
from holdfast.schemas.base import Stored
from holdfast.schemas.names import ErrorCode
from holdfast.workflows.engine.call import activities, outcomes
from holdfast.workflows.engine.call.states import CallEvent, ClosedCall, ExecutedCall, ToolCall
from holdfast.workflows.engine.conversation.initial_context import append_message
from holdfast.workflows.engine.execution import dependency_graph, loops
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.model import answer
from holdfast.workflows.engine.run_state import MAX_STATE_BYTES, RunState
from holdfast.workflows.engine.state.data import CannotWrite


def publish_result(call: ToolCall, state: RunState) -> activities.HookRequests[None]:
    """Make an ended call's result readable for the calls that depend on it, after its hooks."""
    yield from activities.run_after_hooks(call, state.rules, state.limits)
    outcome = call.ended
    problem = None if outcome.error else dependency_graph.write_problem(call, state)
    if problem is not None:
        outcome = _unwritten(call, problem)
    call.move(CallEvent.RESULT_PUBLISHED, ExecutedCall(call.decided, outcome))


def collect_items(call: ToolCall, state: RunState) -> activities.HookRequests[None]:
    """End a loop whose items have ended, after their hooks."""
    for item in call.items:
        yield from activities.run_after_hooks(item, state.rules, state.limits)
    call.end(loops.collect(call.items))


def finish(turn: int, calls: list[ToolCall], state: RunState) -> activities.HookRequests[None]:
    """Close calls that have all ended, each after its hooks."""
    for call in calls:
        yield from activities.run_after_hooks(call, state.rules, state.limits)
        close(turn, [call], state)


def close(turn: int, calls: list[ToolCall], state: RunState) -> None:
    """Write the results of ended calls to their places, and log their ends."""
    with state.limits.decision():
        for call in calls:
            outcome = _write_result(call, state)
            if isinstance(outcome, outcomes.Succeeded | outcomes.Answered):
                state.succeeded[call.name] = None
            decided = call.decided
            if call.dependencies.sources:  # the copy of the data that it has read is not kept
                kept = replace(call.prepared, visible_data=None)
                decided = replace(decided, prepared=kept)
            call.move(CallEvent.RESULT_LOGGED, ClosedCall(decided, outcome))
            _log_end(turn, call, outcome, state)


def _log_end(turn: int, call: ToolCall, outcome: outcomes.Final, state: RunState) -> None:
    error, log = outcome.error, state.log
    paths, _ = call.writes
    place = str(paths[0]) if paths and error is None else None
    message = answer.result_message(call, outcome, place)
    is_whole = place is not None or answer.is_shown_whole(outcome, message)
    used = call.proposed.tool.knowledge if call.proposed.tool is not None else None
    if isinstance(outcome, outcomes.Succeeded) and used is not None and used.kind is not None:
        source = used.kind
        log.append(
            log_entry.KnowledgeUsedEntry(turn=turn, call_id=call.id, name=call.name, source=source)
        )
    items = call.items if call.decided.started_at else ()
    for item in items:
        _log_item(turn, item, log, is_lost=isinstance(outcome, outcomes.Stopped))
    log.append(
        log_entry.ToolEndEntry(
            turn=turn,
            call_id=call.id,
            tool=call.name,
            error=error,
            value=None if is_whole else outcome.value,
            details=outcome.details if isinstance(outcome, outcomes.Succeeded) else None,
        )
    )
    log.add_message(message)
    for end in (outcome, *(item.outcome for item in items)):
        if isinstance(end, outcomes.Succeeded) and end.message is not None:
            veil, extra = answer.veil_of(call, None), answer.as_said(call, end.message)
            append_message(state, extra, within=call.meta.instance, veil=veil)


def _log_item(turn: int, item: ToolCall, log: Log, *, is_lost: bool) -> None:
    """Log the end of an item's call; its result is in that of its loop, unless this `is_lost`."""
    end = item.ended
    log.append(
        log_entry.ToolEndEntry(
            turn=turn,
            call_id=item.id,
            tool=item.name,
            error=end.error,
            value=end.value if is_lost else None,
            details=end.details if isinstance(end, outcomes.Succeeded) else None,
        )
    )


def _unwritten(call: ToolCall, why: str) -> outcomes.Final:
    if not call.decided.started_at:
        return outcomes.fail(ErrorCode.INVALID_OUTPUT, why, call.ended.value)
    return outcomes.misfit(call.tool, f"result cannot be written: {why}", call.ended.value)


def _write_result(call: ToolCall, state: RunState) -> outcomes.Final:
    outcome = call.ended
    paths, value = call.writes
    if not paths:
        return outcome
    try:
        if (stored := Stored.of(value)) is not None:
            most = f"{paths[0]} can take in at most {MAX_STATE_BYTES}"
            raise CannotWrite(f"it has {stored.size_bytes} bytes, and {most}")
        is_marked = outcome.error is None or answer.is_untrusted_error(call, outcome)
        veil = answer.veil_of(call, value) if is_marked else None
        state.write(paths, value, call.meta.output_method, call.id, veil)
    except CannotWrite as problem:
        if outcome.error is None:
            return _unwritten(call, str(problem))
        text = f"the error of {call.id} was not kept: {problem}"
        state.log.add_notice(text)
    return outcome

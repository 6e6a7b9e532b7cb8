"""What keeps a call from being carried out that is good in itself: how often its tool may be called
and after which others (`_limits`), and what its principal may not do."""

from collections.abc import Iterable

from holdfast.schemas.errors import ErrorCode
from holdfast.workflows.engine.call.hooks import CallRefused
from holdfast.workflows.engine.call.tool_call import ToolCall
from holdfast.workflows.engine.run_state import RunState


def count_call(call: ToolCall, state: RunState) -> None:
    """Count a call against the most that its tool may have in a run.

    Raises:
        Refusal: it would be one too many.
    """
    assert call.tool is not None  # prepared
    most, made = call.tool.limits.per_run, state.started.get(call.name, 0)
    if most is not None and made >= most:
        raise CallRefused(ErrorCode.BLOCKED, f"`{call.name}` may be called {most} times in a run")
    state.started[call.name] = made + 1
    call.is_counted = True


def uncount_call(call: ToolCall, state: RunState) -> None:
    """Let a call not count that was counted, and is not begun after all."""
    if call.is_counted:
        state.started[call.name] -= 1
        call.is_counted = False


def check_order(call: ToolCall, state: RunState, others: Iterable[ToolCall]) -> None:
    """See whether the tools have succeeded that have to before; these other calls count as well.

    Raises:
        Refusal: one of them has not.
    """
    assert call.tool is not None  # prepared
    known = {*state.succeeded, *(other.name for other in others)}
    missing = [name for name in call.tool.limits.after if name not in known]
    if missing:
        raise CallRefused(
            ErrorCode.BLOCKED, f"`{call.name}` may be called after {', '.join(missing)} only"
        )


def check_scopes(call: ToolCall, state: RunState) -> None:
    """See whether the principal holds what the tool asks for.

    Raises:
        Refusal: it does not.
    """
    assert call.tool is not None  # prepared
    held = state.scopes()
    missing = [scope for scope in call.tool.requires if scope not in held]
    if missing:
        message = f"`{call.name}` needs the scope {', '.join(missing)}, which is not held here"
        raise CallRefused(ErrorCode.TOKEN_SCOPE_INSUFFICIENT, message)

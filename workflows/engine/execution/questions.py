"""What people are asked about a call: whether to carry it out, or whether it took effect."""

from holdfast.schemas.decision import Kind
from holdfast.workflows.engine.approvals.policy import effective_policy
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.call.outcome import Unknown
from holdfast.workflows.engine.call.tool_call import ToolCall
from holdfast.workflows.engine.execution.preparation import fit_arguments
from holdfast.workflows.engine.run_state import RunState

_RECONCILE = (
    "{message}. Did it happen? `happened` takes `result` as what it returned, `did_not_happen`"
    " carries it out again, `give_up` leaves it unknown."
)


def approval_question(call: ToolCall, state: RunState) -> Question:
    """Whether a call is to be carried out."""
    return _question(
        call, state, "call", f"Shall `{call.name}` be carried out with these arguments?"
    )


def reconciliation_question(call: ToolCall, state: RunState, message: str) -> Question:
    """Whether a call took effect whose end is unknown; the message says how that came."""
    return _question(call, state, "reconcile", _RECONCILE.format(message=message.rstrip(".")))


def doubt_after_reset(call: ToolCall, state: RunState) -> Unknown | None:
    """What is not known of a call before it is carried out: in a run that somebody has reset,
    whether it was, by the run as it was before. What acts once by its key may go on."""
    tool = call.tool
    assert tool is not None  # prepared
    once = tool.once or tool.delegate is not None
    if not (state.was_reset and once and call.unknown_outcomes == 0):
        return None
    return Unknown(f"`{tool.name}` may have been carried out before the run was reset")


def _question(call: ToolCall, state: RunState, kind: Kind, text: str) -> Question:
    tool = call.tool
    assert tool is not None  # prepared
    return Question(
        call_id=call.id,
        kind=kind,
        tool=tool.name,
        label=tool.label or tool.name,
        arguments=call.arguments,
        reasoning=call.reasoning,
        text=text,
        policy=effective_policy(tool, state.rules),
        requested_at=state.clock(),
        check_arguments=lambda arguments: fit_arguments(tool, arguments),
        principal=state.principal,
        instance=call.instance,
        round=call.unknown_outcomes,
    )

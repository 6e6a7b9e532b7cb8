"""Delegates: calls that run as child workflows.

A delegate is requested like any run. The scopes of the call select what it sees of its parent:
`state` is its initial state, `context` the messages before it, and any other kind a data message
(`input` under the kind `parentInput`: its own input is the arguments of the call). It acts for the
same principal with no more scopes, within a part of the rest of its parent's budget, which pays.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from pydantic import ValidationError

from holdfast.schemas import names
from holdfast.schemas.agent import AgentDefinition, ResolvedAgent
from holdfast.schemas.base import json_size
from holdfast.schemas.budget import Budget
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.message import ContextMessage, DataPart
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import (
    MAX_PENDING_TOLD,
    DelegateNews,
    DelegatePending,
    DelegateView,
    Principal,
    RunRequest,
    RunResult,
    Spent,
)
from holdfast.schemas.tool import ANONYMOUS, ResolvedTool
from holdfast.validation.lenient_json import ensure_json
from holdfast.validation.schema_node import WorkBudget
from holdfast.workflows.engine.budget.meter import BudgetExhausted, Meter
from holdfast.workflows.engine.call import activities, outcomes
from holdfast.workflows.engine.call.states import ToolCall, Turn
from holdfast.workflows.engine.conversation import scopes
from holdfast.workflows.engine.run_state import RunState

PARENT_INPUT = "parentInput"
MAX_REQUEST_BYTES = 1_500_000
# Temporal's limit for a workflow id.
MAX_ID_BYTES = 1_000


@dataclass(frozen=True)
class Delegate:
    """A delegate before its start: its workflow id, its request, and its part of the budget.

    `longest` is the time in which it has to end.
    """

    call_id: str
    tool: str
    agent: str
    workflow_id: str
    request: dict[str, Any]
    share: Budget
    longest: timedelta | None = None


@dataclass(frozen=True)
class DelegateFailed:
    """The end of a delegate without a result; `lost`: it was terminated or timed out.

    `unknown`: it was cancelled during a call that may run once; `abandoned`: its parent ended.
    """

    kind: Literal["not_started", "failed", "unknown", "lost", "abandoned"]
    message: str
    spent: Spent | None = None


DelegateEnd = RunResult | DelegateFailed


def build_delegate(
    call: ToolCall, turn: Turn, state: RunState, agent: ResolvedAgent | None, workflow_id: str
) -> Delegate:
    """Build the delegate that runs a call of a workflow, or raise `CallRefused`."""
    tool = call.tool
    own_id = names.delegate_id(workflow_id, call.id)
    if len(own_id.encode()) > MAX_ID_BYTES:
        message = f"the id of its run would be too long: {own_id[:60]}…, of more than"
        raise activities.CallRefused(ErrorCode.BLOCKED, f"{message} {MAX_ID_BYTES} bytes")
    try:
        # Without a model, no request reads the results.
        keep = 0 if agent is not None and agent.model is None else 1
        share = state.meter.share(state.clock(), call, turn.executed_calls, keep=keep)
    except BudgetExhausted as error:
        raise activities.CallRefused(
            ErrorCode.BLOCKED, f"`{call.name}` was not run: {error}"
        ) from None
    try:
        request = build_request(call, state, agent, share).to_json()
    except ValidationError as error:
        why = f"the input of `{tool.name}` is not valid: {error.errors()[0]['msg']}"
        raise activities.CallRefused(ErrorCode.INVALID_ARGUMENTS, why) from None
    size = json_size(request)
    if size > MAX_REQUEST_BYTES:
        why = (
            f"the input of `{tool.name}` has {size} bytes; at most {MAX_REQUEST_BYTES} can be sent"
        )
        raise activities.CallRefused(ErrorCode.INVALID_ARGUMENTS, why)
    return Delegate(call.id, tool.name, tool.delegate or "", own_id, request, share)


def build_request(
    call: ToolCall, state: RunState, agent: ResolvedAgent | None, share: Budget
) -> RunRequest:
    """Build a delegate's request; `ValidationError` if a value in its scopes cannot be sent."""
    tool = call.tool
    seen = scopes.values(call, call.prepared.visible_data or state.data)
    parts = [
        DataPart(kind=PARENT_INPUT if kind == "input" else kind, data=value)
        for kind, value in seen.items()
        if kind != "state"
    ]
    definition: AgentDefinition | str = tool.delegate or ""
    if definition == ANONYMOUS and agent is not None:
        # An agent without tools, whose task is the tool's description.
        first, others = agent.model, agent.fallbacks
        model = [first, *others] if first and others else first
        definition = AgentDefinition(
            name=tool.name, instructions=tool.description, model=model, output=tool.output
        )
    return RunRequest(
        agent=definition,
        input=call.arguments,
        context=[
            *scopes.transcript(call, state),
            *(ContextMessage(content=[part]) for part in parts),
        ],
        state=seen.get("state"),
        budget=share,
        principal=own_principal(state),
        approvals="ask" if state.asks_people else "deny",
    )


def own_principal(state: RunState) -> Principal | None:
    """Return the principal that a delegate acts for: the run's, with the scopes of now."""
    whose = state.principal
    return whose and whose.model_copy(update={"scopes": state.scopes()})


def delegate_outcome(tool: ResolvedTool, end: DelegateEnd, budget: WorkBudget) -> outcomes.Outcome:
    """Build the outcome of a delegate's call: its output is a value, never an envelope."""
    name = tool.name
    match end:
        case RunResult(status="budget_exceeded"):
            return outcomes.fail(
                ErrorCode.DELEGATE_FAILED, f"`{name}` used up its budget before its end."
            )
        case RunResult(output=output):
            try:
                result = outcomes.Succeeded(ensure_json(output))
                return activities.check_output(tool, result, budget)
            except ValueError as error:
                return outcomes.misfit(tool, f"output is no JSON that can be kept: {error}")
        case DelegateFailed("not_started", message):
            return outcomes.refuse(ErrorCode.DELEGATE_FAILED, message)
        case DelegateFailed("abandoned", message):
            return activities.outcome_of_abandoned(tool, message)
        case DelegateFailed("lost", message) if tool.once:
            return outcomes.Unknown(f"the outcome of `{name}` is unknown: {message}")
        case DelegateFailed("unknown", message):
            return outcomes.fail(ErrorCode.OUTCOME_UNKNOWN, message)
        case DelegateFailed(_, message):
            return outcomes.fail(ErrorCode.DELEGATE_FAILED, message)


def charge(meter: Meter, delegate: Delegate, end: DelegateEnd) -> None:
    """Charge a delegate's usage to its parent; that of one that was cut off is unknown."""
    meter.held.pop(delegate.call_id, None)
    spent = end if isinstance(end, RunResult) else end.spent
    if spent is not None:
        meter.charge(spent.usage, requests=spent.turns, calls=spent.calls)
    elif not (isinstance(end, DelegateFailed) and end.kind == "not_started"):
        meter.charge(Usage(), requests=0)


class Delegates:
    """The running delegates of one run, and their pending approvals."""

    def __init__(self) -> None:
        self._open: dict[str, DelegateView] = {}

    def add(self, delegate: Delegate) -> None:
        """Add a delegate that starts."""
        shown = DelegateView.read({**vars(delegate), "status": "running"})
        self._open[delegate.call_id] = shown

    def remove(self, call_id: str) -> None:
        self._open.pop(call_id, None)

    def update_pending(self, news: DelegateNews) -> None:
        """Replace the pending approvals of a delegate; ignore those of one that is not running."""
        if (delegate := self._open.get(news.call_id)) is None:
            return
        # In the delegate, or in one of its own delegates.
        prefix = f"{delegate.workflow_id}."
        inside = [one for one in news.pending if f"{one.workflow_id}.".startswith(prefix)]
        self._open[news.call_id] = delegate.model_copy(
            update={"pending": inside, "status": "awaiting_approval" if inside else "running"}
        )

    def has_pending(self, call_id: str) -> bool:
        return call_id in self._open and bool(self._open[call_id].pending)

    def list_pending(self) -> list[DelegatePending]:
        found = [one for delegate in self._open.values() for one in delegate.pending]
        return found[:MAX_PENDING_TOLD]

    def to_views(self) -> list[DelegateView]:
        return list(self._open.values())

"""A single call: one call of one tool, requested by a client and not by a model.

It passes the same checks, approval and log as every call of a run. It has the id of the first call
of a first turn, but no turn: a turn is a request to a model.
"""

from collections.abc import Callable
from datetime import datetime

from holdfast.schemas.agent import AgentRules, Budget
from holdfast.schemas.internal.solution import Solution, WrittenCall
from holdfast.schemas.log_entry import MessageEntry
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.run import CallRequest
from holdfast.schemas.tool import Tool
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.budget.meter import Meter
from holdfast.workflows.engine.call.tool_call import Turn
from holdfast.workflows.engine.execution.preparation import propose_calls
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.run_state import RunState, RunStateSnapshot
from holdfast.workflows.engine.steps import Fail, Finish, RunCalls


class SingleCall(ExecutionBase):
    """One call without a model, its log, and its end."""

    def __init__(
        self,
        request: CallRequest,
        tool: Tool,
        desk: PendingApprovals,
        clock: Callable[[], datetime],
    ) -> None:
        snapshot = RunStateSnapshot(meter=Meter.of(Budget()), desk=desk)
        rules = AgentRules(name=tool.name, tools=[tool])
        super().__init__(RunState.of(request, rules, snapshot, clock))
        self.state.data.set("state", {})
        written = WrittenCall(tool=tool.name, arguments=request.arguments)
        [self._call] = propose_calls(Solution(calls=[written]), 1, rules.tools, {})
        message = ChatMessage(role="user", calls=[self._call.proposal])
        self.state.log.append(MessageEntry(message=message))
        self._turn = Turn(0, [self._call])

    def next(self) -> RunCalls | Finish | Fail:
        """Return the next step; the same one until it is executed."""
        if self._over is not None:
            return self._over
        assert self._turn is not None  # it has one, to the end
        return RunCalls(self._turn)

    def closed(self) -> None:
        """End with the result of the call, which is closed."""
        self._end_as(self._call)

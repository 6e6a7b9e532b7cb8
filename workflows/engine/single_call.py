"""A single call: one call of one tool, which somebody asked for and no model.

It goes the way of every call of a run: the same checks, the same approval, the same record. What it
came to is what it ends with: its result, or its error as the failure of the whole. It has the id of
the first call of a first turn, and stands in no turn: a turn is a request to a model.
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
    """One call: its log, and everything that is a function of it."""

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
        asked = ChatMessage(role="user", calls=[self._call.proposal])
        self.state.log.append(MessageEntry(message=asked))
        self._turn = Turn(0, [self._call])

    def next(self) -> RunCalls | Finish | Fail:
        """The next step; asking again without having taken it names the same one."""
        if self._over is not None:
            return self._over
        assert self._turn is not None  # it has one, to the end
        return RunCalls(self._turn)

    def closed(self) -> None:
        """The call is closed: what it came to is the end."""
        self._end_as(self._call)

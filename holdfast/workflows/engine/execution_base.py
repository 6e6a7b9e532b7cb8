"""The common part of a run and of a single call: its calls, and one end.

Events: calls proposed, calls closed, finished, failed.

If one call is the whole execution, its result is the end, or its error fails the execution.

A single call is requested by a client. It passes the same checks, approval and log as every call of
a run. It has the id of the first call of a first turn, but no turn: a turn is a request to a model.
"""

from typing import Any, assert_never

from holdfast.schemas.agent import AgentRules
from holdfast.schemas.base import json_size
from holdfast.schemas.budget import BudgetLimits
from holdfast.schemas.internal.solution import Solution, WrittenCall
from holdfast.schemas.log_entry import DoneEntry, ErrorEntry
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import CallRequest, Ended, RunResult, RunStatus, Spent
from holdfast.schemas.tool import ResolvedTool
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.budget.meter import Meter
from holdfast.workflows.engine.call import outcomes
from holdfast.workflows.engine.call.activities import Reviewed, hook_activities
from holdfast.workflows.engine.call.states import CallEvent, ExecutedCall, ToolCall, Turn
from holdfast.workflows.engine.delegation import Delegates
from holdfast.workflows.engine.execution import results
from holdfast.workflows.engine.execution.lifecycle import CallLifecycle
from holdfast.workflows.engine.execution.questions import Questions
from holdfast.workflows.engine.model.answer import propose_calls
from holdfast.workflows.engine.phases import Fail, Finish, RunCalls, RunEvent, RunPhases, Step
from holdfast.workflows.engine.plans.planning import Planning
from holdfast.workflows.engine.run_state import Clock, RunState, RunStateSnapshot

# Temporal's limit is two megabytes; the tool of an external worker may come close to it.
MAX_RESULT_BYTES = 2_000_000


class ExecutionBase:
    """The calls of a run or of a single call, their log, and their one end."""

    def __init__(self, state: RunState, phases: RunPhases, agent_name: str | None = None) -> None:
        self.state = state
        self.phases = phases
        self.agent_name = agent_name
        self.questions = Questions(state)
        self.calls = CallLifecycle(state, self.questions)
        self.planning = Planning(state, self.calls, self.questions)
        self.delegates = Delegates()

    @property
    def step(self) -> Step:
        """Return the step to execute; it is the same until its outcome is reported."""
        assert self.phases.step is not None  # `proceed` comes first
        return self.phases.step

    def proceed(self) -> None:
        """Move on to the next step, if nothing is left to execute."""

    def fail(self, code: str, message: str) -> None:
        self._log_unused_decisions()
        self.state.log.append(ErrorEntry(code=code, message=message))
        self.phases.move(RunEvent.FAILED, Fail(code, message))

    def cancel(self) -> None:
        """End every open call with its one result, and end as cancelled."""
        if self.phases.end is not None:
            return
        if self.phases.turn is not None:
            self.abandon(self.phases.turn, "the run was cancelled")
        for question in self.state.pending.list_open():
            self.state.pending.withdraw(question.call_id)
        self.fail(ErrorCode.CANCELLED, "the run was cancelled")

    def abandon(self, turn: Turn, why: str) -> None:
        """End and close a turn's open calls; withhold results that hooks have yet to review."""
        still_open = [call for call in turn.calls if not call.is_closed]
        for call in still_open:
            for item in call.items if call.is_running else ():
                self._abandon_call(item, why)
            self._abandon_call(call, why)
        results.close(turn.number, still_open, self.state)

    def _abandon_call(self, call: ToolCall, why: str) -> None:
        if not call.has_ended:
            self.calls.cancel(call, why)
        elif (
            not call.is_reviewed
            and isinstance(call.outcome, Reviewed)
            and hook_activities(call, self.state.rules, "after")
        ):
            message = f"the call was run, and its result is withheld: {why}"
            withheld = outcomes.fail(ErrorCode.CANCELLED, message)
            call.move(CallEvent.RESULT_REVIEWED, ExecutedCall(call.decided, withheld))

    def calls_of_unknown_outcome(self) -> str:
        """Name the calls of which the log states that their outcome is unknown."""
        ends = [record for record in self.state.log.entries("tool_end") if "error" in record]
        unknown = [end for end in ends if end["error"]["code"] == ErrorCode.OUTCOME_UNKNOWN]
        return ", ".join(dict.fromkeys(f"`{end['tool']}`" for end in unknown))

    @property
    def status(self) -> RunStatus:
        if self.phases.end is not None:
            return self.phases.end.status
        return "awaiting_approval" if self.state.pending.list_open() else "running"

    @property
    def failure(self) -> Fail | None:
        return self.phases.end if isinstance(self.phases.end, Fail) else None

    @property
    def is_halting(self) -> bool:
        """Return whether the execution has to end, so that it waits for no decision or result."""
        turn = self.phases.turn
        has_stopped = turn is not None and turn.stop_message is not None
        return has_stopped or self.state.end_reason is not None

    @property
    def is_steered(self) -> bool:
        """Return whether a message has to be read before more calls of a plan start."""
        return False

    def needs_no_decision(self, question: Question) -> bool:
        """Return whether a question is void: not if its call may have had effects."""
        turn = self.phases.turn if self.is_steered else None
        calls = [] if turn is None else turn.executed_calls
        has_run = any(call.id == question.call_id and call.decided.has_run for call in calls)
        return self.is_halting or (turn is not None and not has_run)

    def get_spent(self) -> Spent:
        meter = self.state.meter
        return Spent(turns=meter.requests, calls=meter.calls, usage=meter.usage())

    def _end_as(self, call: ToolCall) -> None:
        match call.ended:
            case outcomes.Succeeded(value, _, terminate, _):
                self._hand_on(call, "stopped" if terminate else "completed", value)
            case outcomes.Answered(value):
                self._hand_on(call, "completed", value)
            case outcomes.Stopped(message):
                self._hand_on(call, "stopped", message)
            case outcomes.Refused(error) | outcomes.Failed(error, _):
                self.fail(error.code, error.message)
            case outcome:
                assert_never(outcome)

    def _hand_on(self, call: ToolCall, status: Ended, output: Any) -> None:
        result = self._result(status, output)
        size_bytes = json_size(result.to_json())
        if size_bytes <= MAX_RESULT_BYTES:
            self._finish(result)
            return
        why = f"result is too large to pass on: {size_bytes} bytes, of at most {MAX_RESULT_BYTES}"
        error = outcomes.misfit(call.tool, why, output).error
        self.fail(error.code, error.message)

    def _result(self, status: Ended, output: Any) -> RunResult:
        data = self.state.data
        return RunResult(
            status=status,
            output=output,
            state=data["state"],
            instances=data.own_values("state"),
            **dict(self.get_spent()),
        )

    def _finish(self, result: RunResult) -> None:
        self._log_unused_decisions()
        done = DoneEntry(status=result.status, output=result.output, reason=result.reason)
        self.state.log.append(done)
        self.phases.move(RunEvent.FINISHED, Finish(result))

    def _log_unused_decisions(self) -> None:
        if calls := self.state.pending.name_unused():
            text = f"decisions were ignored, since no approval of these calls was pending: {calls}"
            self.state.log.add_notice(text)


class SingleCall(ExecutionBase):
    """One call without a model, its log, and its end."""

    def __init__(
        self,
        request: CallRequest,
        tool: ResolvedTool,
        desk: PendingApprovals,
        clock: Clock,
        limits: ValidationLimits | None = None,
    ) -> None:
        snapshot = RunStateSnapshot(meter=Meter.of(BudgetLimits()), desk=desk)
        rules = AgentRules(name=tool.name, tools=[tool])
        super().__init__(RunState(request, rules, snapshot, clock, limits=limits), RunPhases())
        self.state.data.set("state", {})
        written = WrittenCall(tool=tool.name, arguments=request.arguments)
        [call] = propose_calls(Solution(calls=[written]), 1, rules.tools, {})
        self.state.log.add_message(ChatMessage(role="user", calls=[call.proposed.proposal]))
        self.phases.move(RunEvent.CALLS_PROPOSED, RunCalls(Turn(0, [call])))

    def closed(self, step: RunCalls) -> None:
        self.phases.move(RunEvent.CALLS_CLOSED)
        self._end_as(step.turn.calls[0])

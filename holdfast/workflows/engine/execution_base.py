"""The common part of a run and of a single call: steps, calls that run, and one end.

If one call is the whole execution, its result is the end, or its error fails the execution.

A single call is requested by a client. It passes the same checks, approval and log as every call of
a run. It has the id of the first call of a first turn, but no turn: a turn is a request to a model.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_never

from holdfast.schemas.agent import AgentRules
from holdfast.schemas.base import Duration, json_size
from holdfast.schemas.budget import BudgetLimits, BudgetName
from holdfast.schemas.internal.model_request import ConversationPointer
from holdfast.schemas.internal.solution import Solution, WrittenCall
from holdfast.schemas.log_entry import DoneEntry, ErrorEntry
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import CallRequest, Ended, RunResult, RunStatus, Spent
from holdfast.schemas.tool import ResolvedTool
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.budget.meter import Meter
from holdfast.workflows.engine.call import tool_call
from holdfast.workflows.engine.call.activities import Hook, Reviewed, hook_activities
from holdfast.workflows.engine.delegation import Delegates
from holdfast.workflows.engine.execution.lifecycle import CallLifecycle
from holdfast.workflows.engine.execution.questions import Questions
from holdfast.workflows.engine.model.answer import propose_calls
from holdfast.workflows.engine.plans.planning import Planning
from holdfast.workflows.engine.run_state import Clock, RunState, RunStateSnapshot

# Temporal's limit is two megabytes; the tool of an external worker may come close to it.
MAX_RESULT_BYTES = 2_000_000


@dataclass(frozen=True)
class AskModel:
    """Make one request to the model, with the log up to the pointer, after a pause if any."""

    pointer: ConversationPointer
    pause: timedelta | None = None


@dataclass(frozen=True)
class RunCalls:
    """Run the calls of a turn."""

    turn: tool_call.Turn


@dataclass(frozen=True)
class AskPeople:
    """Wait until people have extended a budget or ended the run."""

    question: Question
    budget: BudgetName


@dataclass(frozen=True)
class AwaitMessage:
    """Wait for the next message of a conversation, or until it is closed."""

    idle_timeout: Duration | None


@dataclass(frozen=True)
class Finish:
    """The run ends with a result."""

    result: RunResult


@dataclass(frozen=True)
class Fail:
    """The run ends with an error."""

    code: str
    message: str

    @property
    def status(self) -> RunStatus:
        return "cancelled" if self.code == ErrorCode.CANCELLED else "failed"


Step = AskModel | Hook | RunCalls | AskPeople | AwaitMessage | Finish | Fail


class ExecutionBase(ABC):
    """The calls of a run or of a single call, their log, and their one end."""

    def __init__(self, state: RunState, agent_name: str | None = None) -> None:
        self.state = state
        self.agent_name = agent_name
        self.questions = Questions(state)
        self.calls = CallLifecycle(state, self.questions)
        self.planning = Planning(state, self.calls, self.questions)
        self.delegates = Delegates()
        self._turn: tool_call.Turn | None = None
        # The step that ended the execution, if any.
        self.last_step: Finish | Fail | None = None

    @abstractmethod
    def next(self) -> Step:
        """Return the next step; the same one until it is executed."""

    def fail(self, code: str, message: str) -> None:
        self._log_unused_decisions()
        self.state.log.append(ErrorEntry(code=code, message=message))
        self.last_step = Fail(code, message)

    def cancel(self) -> None:
        """End every open call with its one result, and end as cancelled."""
        if self.last_step is not None:
            return
        if self._turn is not None:
            self.abandon(self._turn, "the run was cancelled")
        for question in self.state.pending.list_open():
            self.state.pending.withdraw(question.call_id)
        self.fail(ErrorCode.CANCELLED, "the run was cancelled")

    def abandon(self, turn: tool_call.Turn, why: str) -> None:
        """End and close a turn's open calls; withhold results that hooks have yet to review."""
        still_open = [call for call in turn.calls if not call.is_closed]
        for call in still_open:
            if call.stage is not tool_call.CallStage.ENDED:
                self.calls.cancel(call, why)
            elif (
                call.result_stage < tool_call.ResultStage.REVIEWED
                and isinstance(call.outcome, Reviewed)
                and hook_activities(call, self.state.rules, "after")
            ):
                message = f"the call was run, and its result is withheld: {why}"
                call.advance_result(
                    tool_call.ResultStage.REVIEWED, tool_call.fail(ErrorCode.CANCELLED, message)
                )
        self.calls.close(turn.number, still_open)

    def calls_of_unknown_outcome(self) -> str:
        """Name the calls of which the log states that their outcome is unknown."""
        ends = [record for record in self.state.log.entries("tool_end") if "error" in record]
        unknown = [end for end in ends if end["error"]["code"] == ErrorCode.OUTCOME_UNKNOWN]
        return ", ".join(dict.fromkeys(f"`{end['tool']}`" for end in unknown))

    @property
    def status(self) -> RunStatus:
        match self.last_step:
            case Finish(result):
                return result.status
            case Fail() as failure:
                return failure.status
        return "awaiting_approval" if self.state.pending.list_open() else "running"

    @property
    def is_halting(self) -> bool:
        """Return whether the execution has to end, so that it waits for no decision or result."""
        stopped = self._turn is not None and self._turn.stop_message is not None
        return stopped or self.state.end_reason is not None

    @property
    def is_steered(self) -> bool:
        """Return whether a message has to be read before more calls of a plan start."""
        return False

    def needs_no_decision(self, question: Question) -> bool:
        """Return whether a question is void: not if its call may have had effects."""
        has_started = question.kind in ("reconcile", "budget") or question.form is not None
        return self.is_halting or (self.is_steered and not has_started)

    @property
    def turn_number(self) -> int:
        """Return the number of the present or last turn; 0 before the first request to a model."""
        return self._turn.number if self._turn is not None else self.state.meter.turns

    @property
    def open_turn(self) -> tool_call.Turn | None:
        return self._turn if self.last_step is None else None

    def get_spent(self) -> Spent:
        meter = self.state.meter
        return Spent(turns=meter.requests, calls=meter.calls, usage=meter.usage())

    def _end_as(self, call: tool_call.ToolCall) -> None:
        match call.ended:
            case tool_call.Succeeded(value, _, terminate, _):
                self._hand_on(call, "stopped" if terminate else "completed", value)
            case tool_call.Answered(value):
                self._hand_on(call, "completed", value)
            case tool_call.Stopped(message):
                self._hand_on(call, "stopped", message)
            case tool_call.Refused(error) | tool_call.Failed(error, _):
                self.fail(error.code, error.message)
            case outcome:
                assert_never(outcome)

    def _hand_on(self, call: tool_call.ToolCall, status: Ended, output: Any) -> None:
        result = self._result(status, output)
        size_bytes = json_size(result.to_json())
        if size_bytes <= MAX_RESULT_BYTES:
            self._finish(result)
            return
        why = f"result is too large to pass on: {size_bytes} bytes, of at most {MAX_RESULT_BYTES}"
        error = tool_call.misfit(call.tool, why, output).error
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

    def _finish(self, result: RunResult) -> Finish:
        self._log_unused_decisions()
        done = DoneEntry(status=result.status, output=result.output, reason=result.reason)
        self.state.log.append(done)
        self.last_step = Finish(result)
        return self.last_step

    def _log_unused_decisions(self) -> None:
        calls = self.state.pending.name_unused()
        if calls:
            text = f"decisions were ignored, since no approval of these calls was pending: {calls}"
            self.state.log.add_notice(text)


class SingleCall(ExecutionBase):
    """One call without a model, its log, and its end."""

    def __init__(
        self, request: CallRequest, tool: ResolvedTool, desk: PendingApprovals, clock: Clock
    ) -> None:
        snapshot = RunStateSnapshot(meter=Meter.of(BudgetLimits()), desk=desk)
        rules = AgentRules(name=tool.name, tools=[tool])
        super().__init__(RunState.of(request, rules, snapshot, clock))
        self.state.data.set("state", {})
        written = WrittenCall(tool=tool.name, arguments=request.arguments)
        [call] = propose_calls(Solution(calls=[written]), 1, rules.tools, {})
        self.state.log.add_message(ChatMessage(role="user", calls=[call.proposal]))
        self._turn = self._only_turn = tool_call.Turn(0, [call])

    def next(self) -> RunCalls | Finish | Fail:
        """Return the next step; the same one until it is executed."""
        return self.last_step or RunCalls(self._only_turn)

    def closed(self, turn: tool_call.Turn) -> None:
        self._end_as(turn.calls[0])

"""The common part of a run and of a single call: calls that run, and one end.

The workflow uses only this part to run calls, to show their state, and to cancel them. If one call
is the whole execution, its result is the end, or its error fails the execution.
"""

from abc import ABC, abstractmethod
from typing import Any, assert_never

from holdfast.schemas.base import json_size
from holdfast.schemas.decision import Decision, Receipt
from holdfast.schemas.log_entry import DoneEntry, ErrorEntry, NoticeEntry
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import Ended, RunResult, RunStatus, Spent
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.call.outcome import Answered, Failed, Refused, Stopped, Succeeded
from holdfast.workflows.engine.call.tool_call import CallStage, ToolCall, Turn
from holdfast.workflows.engine.delegation import Delegates
from holdfast.workflows.engine.execution.completion import withhold_result
from holdfast.workflows.engine.execution.lifecycle import CallLifecycle
from holdfast.workflows.engine.plans.planning import Planning
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.steps import Fail, Finish, Step

# Temporal's limit is two megabytes; the tool of an external worker may come close to it.
MAX_RESULT_BYTES = 2_000_000


class ExecutionBase(ABC):
    """The calls of a run or of a single call, their log, and their one end."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.calls = CallLifecycle(state)
        self.planning = Planning(state, self.calls)
        self.delegates = Delegates()
        self._turn: Turn | None = None
        self._over: Finish | Fail | None = None

    @abstractmethod
    def next(self) -> Step:
        """Return the next step; the same one until it is executed."""

    def decide(self, decision: Decision) -> Receipt:
        """Count a decision.

        Raises:
            DecisionRejected: It is rejected; the message has the reason.
        """
        return self.calls.count_decision(decision)

    def fail(self, code: str, message: str) -> None:
        """End with an error."""
        self._tell_unasked()
        self.state.log.append(ErrorEntry(code=code, message=message))
        self._over = Fail(code, message)

    def cancel(self) -> None:
        """End every open call with its one result, and end as cancelled."""
        if self._over is not None:
            return
        if self._turn is not None:
            self._drop(self._turn)
        for question in self.state.pending.list_open():
            self.state.pending.withdraw(question)
        self.fail(ErrorCode.CANCELLED, "the run was cancelled")

    def abandon(self, turn: Turn, why: str) -> None:
        """End and close the open calls of a turn."""
        still_open = [call for call in turn.calls if not call.is_closed]
        for call in still_open:
            if call.stage is CallStage.ENDED:
                withhold_result(call, why, self.state)
            else:
                self.calls.cancel(call, why)
        self.calls.close(turn.number, still_open)

    @property
    def agent_name(self) -> str | None:
        """Return the agent of the run, if there is one."""
        return None

    @property
    def status(self) -> RunStatus:
        """Return the status in one word."""
        match self._over:
            case Finish(result):
                return result.status
            case Fail(ErrorCode.CANCELLED, _):
                return "cancelled"
            case Fail():
                return "failed"
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
        """Return whether a question needs no decision any more.

        A call that may have had effects still needs one when a message arrives.
        """
        return self.is_halting or (self.is_steered and question.kind in ("call", "plan"))

    @property
    def last_step(self) -> Finish | Fail | None:
        """Return the step that ended the execution, if any."""
        return self._over

    @property
    def turn_number(self) -> int:
        """Return the number of the present or last turn; 0 before the first request to a model."""
        return self._turn.number if self._turn is not None else self.state.meter.turns

    @property
    def open_turn(self) -> Turn | None:
        """Return the turn whose calls are running, if there is one."""
        return self._turn if self._over is None else None

    def get_spent(self) -> Spent:
        """Return the usage so far."""
        meter = self.state.meter
        return Spent(turns=meter.requests, calls=meter.calls, usage=meter.usage())

    def _drop(self, turn: Turn) -> None:
        self.abandon(turn, "the run was cancelled")

    def _end_as(self, call: ToolCall) -> None:
        """End in the same way as the only call of the execution."""
        outcome = call.outcome
        assert outcome is not None  # it is closed
        match outcome:
            case Succeeded(value, _, terminate, _):
                self._hand_on(call, "stopped" if terminate else "completed", value)
            case Answered(value):
                self._hand_on(call, "completed", value)
            case Stopped(message):
                self._hand_on(call, "stopped", message)
            case Refused(error) | Failed(error, _):
                self.fail(error.code, error.message)
            case _:
                assert_never(outcome)

    def _hand_on(self, call: ToolCall, status: Ended, output: Any) -> None:
        result = self._result(status, output)
        size_bytes = json_size(result.to_json())
        if size_bytes <= MAX_RESULT_BYTES:
            self._finish(result)
            return
        message = (
            f"`{call.name}` was run, but its result is too large to pass on:"
            f" {size_bytes} bytes, of at most {MAX_RESULT_BYTES}"
        )
        self.fail(ErrorCode.INVALID_OUTPUT, message)

    def _result(self, status: Ended, output: Any) -> RunResult:
        meter, data = self.state.meter, self.state.data
        return RunResult(
            status=status,
            output=output,
            state=data["state"],
            instances=data.own_values("state"),
            turns=meter.requests,
            calls=meter.calls,
            usage=meter.usage(),
        )

    def _tell_unasked(self) -> None:
        calls = self.state.pending.name_unused()
        if calls:
            text = f"decisions were ignored, since these calls never waited for one: {calls}"
            self.state.log.append(NoticeEntry(text=text))

    def _finish(self, result: RunResult) -> Finish:
        self._tell_unasked()
        self.state.log.append(DoneEntry(status=result.status, output=result.output))
        self._over = Finish(result)
        return self._over

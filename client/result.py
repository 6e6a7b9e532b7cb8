"""How a run ended, as its caller is told: the status, the result or the error, the exit code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from temporalio import exceptions
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError

from holdfast.client.command_errors import DONE, RUN_FAILED, CommandError
from holdfast.schemas.internal.stored_value import Stored
from holdfast.schemas.run import RunResult, Spent

_GOOD: Final = ("completed", "stopped")


@dataclass(frozen=True)
class RunEnding:
    """The end of a run. `code` and `message` are there for a run that failed, `result` for one
    that did not. Where the output is a reference still, `told` is what people read in its place;
    where all of it was wanted, `lacking` says why it cannot be had. `spent` is what one that failed
    had used, where it could say so."""

    status: str
    code: str | None = None
    message: str = ""
    result: RunResult | None = None
    told: str = ""
    lacking: CommandError | None = None
    spent: Spent | None = None

    @property
    def exit_code(self) -> int:
        """0 for a run that completed or stopped, 1 for every other."""
        return DONE if self.status in _GOOD else RUN_FAILED

    def event(self) -> dict[str, Any]:
        """The event that the run would have left, had it been able to."""
        if self.result is not None:
            return {"type": "done", "status": self.status, "output": self.result.output}
        return {"type": "error", "code": self.code or self.status, "message": self.message}

    def whole(self, entry: dict[str, Any]) -> dict[str, Any]:
        """An entry of the run's log; the last one with its whole output, where that was had."""
        stored = entry["type"] == "done" and Stored.of(entry.get("output")) is not None
        if stored and self.result is not None:
            return {**entry, "output": self.result.output}
        return entry


def of_result(value: Any) -> RunEnding:
    """The end of a run that returned."""
    try:
        result = RunResult.read(value)
    except ValidationError:
        # Somebody else's workflow under our name, or a future one: say what there is.
        status = value.get("status", "completed") if isinstance(value, Mapping) else "completed"
        return RunEnding(str(status), message="its result cannot be read by this version")
    return RunEnding(result.status, result=result)


def of_failure(error: WorkflowFailureError) -> RunEnding:
    """The end of a run that did not return."""
    match error.cause:
        case ApplicationError(type=str() as code, message=message, details=details):
            return RunEnding("failed", code, message, spent=_spent(details))
        case CancelledError():
            return RunEnding("cancelled", "cancelled", "the run was cancelled")
        case TerminatedError(message=message):
            return RunEnding("terminated", "terminated", message or "the run was terminated")
        case exceptions.TimeoutError():
            return RunEnding("timed_out", "timed_out", "the run took longer than its timeout")
        case cause:
            return RunEnding("failed", "failed", str(cause))


def _spent(details: Sequence[Any]) -> Spent | None:
    try:
        return Spent.read(details[0]) if details else None
    except ValidationError:
        return None  # a failure of somebody else's making

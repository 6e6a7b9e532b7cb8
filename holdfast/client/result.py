"""The end of a run for its caller: the status, the result or the error, the exit code."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import JsonValue, ValidationError
from temporalio import exceptions
from temporalio.client import WorkflowFailureError
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError

from holdfast.client.errors import DONE, RUN_FAILED, HoldfastError
from holdfast.runtime import text_safety
from holdfast.runtime.narration.arguments import cost_text
from holdfast.runtime.storage.locations import VARIABLE, open_store_at, reader_store_location
from holdfast.runtime.storage.store import StoreError, read_stored_value
from holdfast.schemas.base import Stored
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.message import QueuedMessage
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import RunResult, Spent

_MESSAGE_CHARS: Final = 200
_GOOD: Final = ("completed", "stopped")


@dataclass(frozen=True)
class RunEnding:
    """The ending of a run: `result`, or `code` and `message` of one that failed.

    The `message` of one that has used up a budget is the result's reason.
    `stored_output_note` replaces an output that is still a reference, and `output_error` is the
    reason why it cannot be fetched. `spent` is the usage of a failed run, where it is known.
    """

    status: str
    code: str | None = None
    message: str = ""
    result: RunResult | None = None
    stored_output_note: str = ""
    output_error: HoldfastError | None = None
    spent: Spent | None = None

    @property
    def exit_code(self) -> int:
        """Return 0 for a run that completed or stopped, 1 for every other."""
        return DONE if self.status in _GOOD else RUN_FAILED

    def require_output(self, run_id: str) -> JsonValue:
        """Return the output of the run.

        Raises:
            RunFailedError: it ended without a result that counts.
            HoldfastError: the output cannot be fetched.
        """
        if self.output_error is not None:
            raise self.output_error
        if self.result is None or self.exit_code:
            raise RunFailedError(run_id, self)
        return self.result.output

    def event(self) -> dict[str, Any]:
        """Return the last event of the run, which a terminated run could not write."""
        if self.result is not None:
            reason = {"reason": self.message} if self.message else {}
            return {"type": "done", "status": self.status, "output": self.result.output, **reason}
        return {"type": "error", "code": self.code or self.status, "message": self.message}

    def whole(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return an entry of the run's log; the last one with its whole output, where available."""
        stored = entry["type"] == "done" and Stored.of(entry.get("output")) is not None
        if stored and self.result is not None:
            return {**entry, "output": self.result.output}
        return entry


class RunFailedError(HoldfastError):
    """A run ended without the result that its caller needs; `ending` has all that is known.

    The `code` is that of the failed run, or `cancelled`, `terminated`, `timed_out`,
    `budget_exceeded`; or `invalid_output`, where the output does not fit the caller's type.
    """

    def __init__(self, run_id: str, ending: RunEnding, unfit: str = "") -> None:
        wrong = f"run {run_id} ended as {ending.status}: {unfit or detail(ending)}"
        super().__init__(wrong, f"see {text_safety.holdfast_command('show', run_id)}", RUN_FAILED)
        self.code = ErrorCode.INVALID_OUTPUT if unfit else ending.code or ending.status
        self.ending = ending


def ending_of_result(value: Any) -> RunEnding:
    """Return the ending of a run that returned a value."""
    try:
        result = RunResult.read(value)
    except ValidationError:
        # The value may come from a workflow of another project with our name, or of a later
        # version.
        status = value.get("status", "completed") if isinstance(value, Mapping) else "completed"
        return RunEnding(str(status), message="its result cannot be read by this version")
    return RunEnding(result.status, message=result.reason or "", result=result)


def ending_of_failure(error: WorkflowFailureError) -> RunEnding:
    """Return the ending of a run that did not return a value."""
    match error.cause:
        case ApplicationError(type=str() as code, message=message, details=details):
            spent = None
            with suppress(ValidationError):  # a failure with other details
                spent = Spent.read(details[0]) if details else None
            return RunEnding("failed", code, message, spent=spent)
        case CancelledError():
            return RunEnding("cancelled", "cancelled", "the run was cancelled")
        case TerminatedError(message=message):
            return RunEnding("terminated", "terminated", message or "the run was terminated")
        case exceptions.TimeoutError():
            return RunEnding("timed_out", "timed_out", "the run took longer than its timeout")
        case cause:
            return RunEnding("failed", "failed", str(cause))


def ending_lines(ending: RunEnding) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each line: output, state, status; or the error."""
    if ending.result is not None:
        if (output := ending.stored_output_note or ending.result.output) is not None:
            yield "output", text_safety.as_text(output)
        if ending.result.state:
            yield "state", text_safety.as_text(ending.result.state)
        for name, state in ending.result.instances.items():
            if state:
                yield f"state of {text_safety.clean(name)}", text_safety.as_json(state)
        for message in ending.result.undelivered:
            yield "not delivered", queued_line(message)
    yield ending.status, detail(ending)


def queued_line(message: QueuedMessage) -> str:
    return f"message {message.number}: {text_safety.one_line(message.text, _MESSAGE_CHARS)}"


def detail(ending: RunEnding) -> str:
    """Return the detail of the status: the reason of a failure, and the usage of the run."""
    if ending.result is not None:
        return "; ".join(
            filter(None, [text_safety.clean(ending.message), usage_line(ending.result)])
        )
    if ending.code in (None, ending.status):
        return text_safety.clean(ending.message).strip()
    return f"{ending.code}: {text_safety.message_after_code(str(ending.code), ending.message)}"


def usage_line(result: RunResult | Spent) -> str:
    """Return `3 turns, 4 calls, 1,234 tokens in, 220 out`; without a model request, `1 call`."""
    calls = f"{result.calls} call{'' if result.calls == 1 else 's'}"
    if not result.turns:
        return calls
    turns = f"{result.turns} turn{'' if result.turns == 1 else 's'}"
    return ", ".join([turns, calls, *token_counts(result.usage)])


def token_counts(usage: Usage) -> Iterator[str]:
    """Yield the tokens and the cost, as far as they are known."""
    if usage.input_tokens is None or usage.output_tokens is None:
        yield "tokens unknown"
    else:
        cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
        yield f"{usage.input_tokens:,} tokens in{cached}"
        yield f"{usage.output_tokens:,} out"
    if usage.cost is not None:
        yield f"cost {cost_text(usage.cost, usage.currency)}"


async def with_stored_output(
    ending: RunEnding, run_id: str, converter: DataConverter, unread: str = ""
) -> RunEnding:
    """Return the ending with the output in place of the reference to it.

    With `unread`, the reason not to read it, the beginning of the output represents it.
    """
    stored = None if ending.result is None else Stored.of(ending.result.output)
    if ending.result is None or stored is None:
        return ending
    if unread:
        return replace(ending, stored_output_note=_stored_note(stored, unread))
    try:
        place = reader_store_location(os.environ)
        if place is None:
            todo = f"set {VARIABLE} to the `--store` of its worker"
            raise StoreError("it is in its worker's store, and no store is set here", todo)
        async with open_store_at(place, writing=False) as store:
            output = await read_stored_value(store, stored.sha256, converter)
    except StoreError as error:
        note = _stored_note(stored, f"they cannot be read: {error}")
        wrong = f"the output of run {run_id} cannot be read: {error.reason}"
        problem = HoldfastError(wrong, error.fix, RUN_FAILED)
        return replace(ending, stored_output_note=note, output_error=problem)
    return replace(ending, result=ending.result.model_copy(update={"output": output}))


def _stored_note(stored: Stored, how: str) -> str:
    size = f"{stored.size_bytes:,} bytes, kept outside of Temporal"
    return f"{size} ({how}), begin:\n{stored.beginning}"

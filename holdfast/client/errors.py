"""The errors of a client of runs: what is wrong, and what to do.

The command prints them as `holdfast: what is wrong; what to do` and exits with their `exit_code`,
which is part of the contract with scripts.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio.service import RPCError, RPCStatusCode

from holdfast.runtime.attachments import FileError
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.storage.store import StoreError
from holdfast.runtime.text_safety import holdfast_command, one_line, shell_command
from holdfast.schemas import names
from holdfast.validation.problems import problems_of

DONE: Final = 0
RUN_FAILED: Final = 1
WRONG_COMMAND: Final = 2
UNREACHABLE: Final = 3
NO_SUCH: Final = 4
# The exit code that shells report for a program that SIGINT or a closed pipe ended.
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141

ModelT = TypeVar("ModelT", bound=BaseModel)
_LINE_CHARS = 2000
_REJECTIONS: Final = {
    names.NO_SUCH_CALL: ("holdfast approvals lists the pending approvals", NO_SUCH),
    names.INVALID_DECISION: ("holdfast approvals shows the call", WRONG_COMMAND),
    names.ALREADY_DECIDED: ("nothing was changed", RUN_FAILED),
}


class HoldfastError(Exception):
    """The base of these errors: `wrong` names the problem, `todo` is the fix."""

    def __init__(self, wrong: str, todo: str, exit_code: int) -> None:
        super().__init__(f"{wrong}; {todo}")
        self.wrong, self.todo, self.exit_code = wrong, todo, exit_code

    def line(self) -> str:
        return f"holdfast: {one_line(str(self), _LINE_CHARS)}"


class NoWorkerError(HoldfastError):
    """The run exists, and no worker answers its queries."""

    def __init__(self, task_queue: str) -> None:
        super().__init__(
            f"no worker answers queries on task queue {task_queue}",
            f"start one: {shell_command('holdfast', 'worker', '--task-queue', task_queue)}",
            UNREACHABLE,
        )


class BusyWorkerError(NoWorkerError):
    """No worker answers, though one polled the task queue in the last minutes.

    It is busy, or has stopped since. Temporal also reports a worker that has polled in vain for
    some 20 s as missing, now and then: a repeated query finds it.
    """

    def __init__(
        self, task_queue: str, polled_seconds: float, wrong: str = "a worker does not answer"
    ) -> None:
        command = shell_command("holdfast", "worker", "--task-queue", task_queue)
        HoldfastError.__init__(
            self,
            f"{wrong}, though one polled task queue {task_queue} {polled_seconds:.0f} s ago",
            f"wait if it is busy; if it has stopped, start one: {command}",
            UNREACHABLE,
        )


class FailedQueryError(HoldfastError):
    """The worker answers a query with an error, or does not have it."""


class UnansweredUpdateError(HoldfastError):
    """An update was sent, and its answer is lost: its effect may come later."""

    def __init__(self, run_id: str, update_id: str) -> None:
        wrong = f"sent, may still count: run {run_id} has not answered update {update_id}"
        todo = f"repeat it with --update-id {shell_command(update_id)}: it counts once"
        super().__init__(wrong, todo, UNREACHABLE)


class EncryptedError(HoldfastError):
    """The requested data exists, and this command does not have the key to decrypt it."""

    def __init__(self, wrong: str, todo: str) -> None:
        super().__init__(wrong, todo, WRONG_COMMAND)


class NoSuchRunError(HoldfastError):
    """There is no run with this id."""

    def __init__(self, run_id: str | None) -> None:
        super().__init__(f"there is no run {run_id}", "holdfast list shows the runs", NO_SUCH)


class RejectedError(HoldfastError):
    """The run rejects a message or a token; `code` is one of `schemas.names`, `reason` why."""

    def __init__(
        self, run_id: str, code: str, reason: str, todo: str = "", exit_code: int = WRONG_COMMAND
    ) -> None:
        todo = todo or f"see {holdfast_command('show', run_id)}"
        super().__init__(f"run {run_id} refuses: {reason}", todo, exit_code)
        self.code, self.reason = code, reason


class DecisionRejectedError(RejectedError):
    """The run rejects a decision: it is made already, or the call is not pending, or has changed.

    The `code` is `already_decided`, `no_such_call` or `invalid_decision`.
    """

    def __init__(self, run_id: str, code: str, reason: str) -> None:
        todo, exit_code = _REJECTIONS.get(code, ("see the worker's log", RUN_FAILED))
        super().__init__(run_id, code, reason, todo, exit_code)


class HasEndedError(HoldfastError):
    """The run has ended and accepts no messages."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"run {run_id} has ended", f"see {holdfast_command('show', run_id)}", NO_SUCH
        )


class InvalidFileError(HoldfastError):
    """A file of a message is too large, or of another type than it states."""


class UnansweredRunsError(HoldfastError):
    """Some of many runs did not answer: `errors` has the error of each."""

    def __init__(self, errors: Sequence[HoldfastError]) -> None:
        first = next((each for each in errors if isinstance(each, NoWorkerError)), errors[0])
        wrong, _, todo = str(first).partition("; ")
        super().__init__(wrong, f"{todo} ({len(errors)} runs did not answer)", first.exit_code)
        self.errors = errors


def wrong_command(wrong: str, todo: str) -> HoldfastError:
    """Return the error for invalid usage of the command: exit code 2."""
    return HoldfastError(wrong, todo, WRONG_COMMAND)


@contextmanager
def explain_settings(named_by: str) -> Iterator[None]:
    """Raise the `LoadError` of a settings file with its first problem and the number of others."""
    try:
        yield
    except LoadError as error:
        more = len(error.problems) - 1
        message = f"{error.problems[0]}{f' (and {more} more)' if more else ''}"
        wrong, _, todo = message.partition("; ")
        raise wrong_command(f"{named_by}: {wrong}", todo) from None


@contextmanager
def explain_files() -> Iterator[None]:
    """Raise the error of a message's files, or of their store, as one of a client."""
    try:
        yield
    except FileError as error:
        raise InvalidFileError(error.reason, error.fix, WRONG_COMMAND) from None
    except StoreError as error:
        raise wrong_command(error.reason, error.fix) from None


def read_input(model: type[ModelT], value: Any, what: str, todo: str) -> ModelT:
    """Return a value as a model; `todo` is the fix where a problem has none.

    Raises:
        HoldfastError: it does not fit; the error has its first problem and the place.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        fault = problems_of(error, value, model)[0]
        wrong = f"that is no {what}: {replace(fault, fix='')}"
        raise wrong_command(wrong, fault.fix or todo) from error


@contextmanager
def explain_rpc_errors(run_id: str | None = None) -> Iterator[None]:
    """Raise what the Temporal server answers instead of a result as a `HoldfastError`."""
    try:
        yield
    except RPCError as error:
        raise rpc_problem(error, run_id) from error


_REFUSAL = ("Temporal refuses", "check TEMPORAL_API_KEY, TEMPORAL_NAMESPACE and the TLS settings")
_SILENCE = ("Temporal does not answer", "check that the server runs, and TEMPORAL_ADDRESS")
_UNREACHABLE_BY_STATUS = {
    RPCStatusCode.PERMISSION_DENIED: _REFUSAL,
    RPCStatusCode.UNAUTHENTICATED: _REFUSAL,
    RPCStatusCode.UNAVAILABLE: _SILENCE,
    RPCStatusCode.DEADLINE_EXCEEDED: _SILENCE,
    RPCStatusCode.CANCELLED: _SILENCE,
    RPCStatusCode.RESOURCE_EXHAUSTED: ("Temporal has too much to do", "try again in a moment"),
}


def rpc_problem(error: RPCError, run_id: str | None = None) -> HoldfastError:
    """Return the error for an answer of the Temporal server, worded for the user of the command."""
    message = error.message
    match error.status:
        case RPCStatusCode.NOT_FOUND if message.startswith("Namespace"):
            return HoldfastError(message.rstrip("."), "set TEMPORAL_NAMESPACE", UNREACHABLE)
        case RPCStatusCode.NOT_FOUND if run_id and "already completed" in message:
            return HasEndedError(run_id)
        case RPCStatusCode.NOT_FOUND:
            return NoSuchRunError(run_id)
        case status if status in _UNREACHABLE_BY_STATUS:
            what, todo = _UNREACHABLE_BY_STATUS[status]
            return HoldfastError(f"{what}: {message}", todo, UNREACHABLE)
        case RPCStatusCode.INVALID_ARGUMENT:
            return wrong_command(f"Temporal refuses: {message}", "see holdfast --help")
        case _:
            return HoldfastError(f"Temporal refuses: {message}", "see its log", RUN_FAILED)

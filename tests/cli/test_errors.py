"""What a command says when it cannot go on: what to do, that can be copied, and an exit code."""

import shlex

import pytest
from temporalio.service import RPCError, RPCStatusCode

from holdfast.cli.show_commands import _unanswered
from holdfast.client.command_errors import (
    NO_SUCH,
    RUN_FAILED,
    UNREACHABLE,
    WRONG_COMMAND,
    CommandError,
    EncryptedError,
    HasEndedError,
    NoWorkerError,
    rpc_problem,
)
from holdfast.client.diagnosis import NoBuildError, NoCurrentBuildError
from holdfast.client.start import RunExistsError

# Whoever starts a run names it.
RUN = "a run; rm -rf ~"


@pytest.mark.parametrize(
    ("error", "before"),
    [
        (HasEndedError(RUN), "; see "),
        (RunExistsError(RUN), "; see "),
        (NoWorkerError(RUN), "; start one: "),
        (NoBuildError(RUN, "desk", RUN), "to another build: "),
        (NoCurrentBuildError("desk", "desk", RUN), "; make one so: "),
    ],
)
def test_what_is_to_be_typed_is_one_command_whoever_named_the_run(
    error: CommandError, before: str
) -> None:
    typed = error.line().partition(before)[2]
    assert RUN in shlex.split(typed.partition(", or choose")[0])


@pytest.mark.parametrize(
    ("status", "message", "code", "todo"),
    [
        (RPCStatusCode.NOT_FOUND, "Namespace x is not found.", UNREACHABLE, "TEMPORAL_NAMESPACE"),
        (RPCStatusCode.NOT_FOUND, "workflow not found", NO_SUCH, "holdfast list shows the runs"),
        (RPCStatusCode.UNAUTHENTICATED, "no", UNREACHABLE, "check TEMPORAL_API_KEY"),
        (RPCStatusCode.UNAVAILABLE, "gone", UNREACHABLE, "check that the server runs"),
        # It passes, so whoever follows a run stays.
        (RPCStatusCode.RESOURCE_EXHAUSTED, "rate limit", UNREACHABLE, "try again in a moment"),
        (RPCStatusCode.INVALID_ARGUMENT, "bad id", WRONG_COMMAND, "see holdfast --help"),
        (RPCStatusCode.INTERNAL, "oh", RUN_FAILED, "see its log"),
    ],
)
def test_an_answer_of_the_server_says_what_to_do(
    status: RPCStatusCode, message: str, code: int, todo: str
) -> None:
    problem = rpc_problem(RPCError(message, status, b""), "a-run")
    assert (problem.code, todo in problem.line()) == (code, True)


def test_of_several_runs_that_do_not_answer_the_worker_that_lacks_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    no_key = EncryptedError("this is encrypted", "name a key")
    assert _unanswered([no_key, NoWorkerError("desk"), no_key]) == UNREACHABLE
    told = capsys.readouterr().err
    assert told.startswith("holdfast: no worker answers queries on task queue desk; start one: ")
    assert told.endswith(" (3 runs did not answer)\n")

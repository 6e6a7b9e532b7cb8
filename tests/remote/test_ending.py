"""How a run ended, as its caller is told: also one that somebody else's worker has carried out."""

from typing import Any

import pytest
from temporalio import exceptions
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, TimeoutType

from holdfast.client.result import RunEnding, ending_of_failure, ending_of_result
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import Spent


def ended(cause: BaseException) -> RunEnding:
    """A run that ended so."""
    return ending_of_failure(WorkflowFailureError(cause=cause))


SPENT = Spent(turns=3, calls=2, usage=Usage(input_tokens=7))


@pytest.mark.parametrize(
    ("cause", "ending"),
    [
        (
            ApplicationError("too dear", SPENT.to_json(), type="budget_exceeded"),
            RunEnding("failed", "budget_exceeded", "too dear", spent=SPENT),
        ),
        (ApplicationError("no", type="denied"), RunEnding("failed", "denied", "no")),
        (ApplicationError("no", "a text", type="x"), RunEnding("failed", "x", "no")),
        (ApplicationError("no", {"turns": "?"}, type="x"), RunEnding("failed", "x", "no")),
        (CancelledError(), RunEnding("cancelled", "cancelled", "the run was cancelled")),
        (TerminatedError("enough"), RunEnding("terminated", "terminated", "enough")),
        (TerminatedError(""), RunEnding("terminated", "terminated", "the run was terminated")),
        (
            exceptions.TimeoutError(
                "late", type=TimeoutType.START_TO_CLOSE, last_heartbeat_details=[]
            ),
            RunEnding("timed_out", "timed_out", "the run took longer than its timeout"),
        ),
    ],
)
def test_each_end_has_its_name(cause: BaseException, ending: RunEnding) -> None:
    assert ended(cause) == ending
    assert ended(cause).exit_code == 1


@pytest.mark.parametrize("result", [None, "done", 7, {"status": "completed", "turns": "many"}])
def test_a_result_in_a_form_of_others_is_an_end_all_the_same(result: Any) -> None:
    ending = ending_of_result(result)
    assert (ending.status, ending.exit_code) == ("completed", 0)
    assert ending.message == "its result cannot be read by this version"

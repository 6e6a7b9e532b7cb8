"""How a call ended: what activities return and how they fail, as values."""

from typing import Any

import pytest

from holdfast.schemas.names import ACTIVITY_NOT_FOUND, STOP_RUN, ErrorCode
from holdfast.validation.schema_node import WorkBudget
from holdfast.workflows.engine.call.activities import outcome_of_failure, outcome_of_result
from holdfast.workflows.engine.call.outcomes import (
    Failed,
    Failure,
    Outcome,
    Stopped,
    Succeeded,
    Unknown,
    fail,
    refuse,
)
from tests.engine.driver import tool

AGAIN = tool("look")
ONCE = tool("pay", side_effects=True, idempotent=False)


def code_of(outcome: Outcome) -> str:
    assert isinstance(outcome, Failed), outcome
    return outcome.error.code


def message_of(outcome: Outcome) -> str:
    assert isinstance(outcome, Failed), outcome
    return outcome.error.message


def application(message: str, type_: str = "ValueError") -> Failure:
    return Failure("application", message, type_)


# Failures.


@pytest.mark.parametrize(
    ("failure", "again", "once"),
    [
        (application("no such order"), "tool_error", "tool_error"),
        (Failure("timeout", "it did not finish in time"), "timeout", Unknown),
        (Failure("timeout", "no worker started it", started=False), "timeout", "timeout"),
        (Failure("cancelled", "it was cancelled"), "cancelled", Unknown),
        (Failure("cancelled", "it was cancelled", started=False), "timeout", "timeout"),
        (Failure("other", "the server said no"), "tool_error", Unknown),
        (application("enough", STOP_RUN), Stopped, Stopped),
        (application("shutting down", "WorkerShutdown"), "tool_error", Unknown),
    ],
)
def test_what_became_of_a_call_whose_activity_failed(
    failure: Failure, again: Any, once: Any
) -> None:
    """Where a call may run only once, an end that was never reported is never a mere error."""
    for each, expected in ((AGAIN, again), (ONCE, once)):
        outcome = outcome_of_failure(each, failure)
        if isinstance(expected, str):
            assert code_of(outcome) == expected
        else:
            assert isinstance(outcome, expected)


@pytest.mark.parametrize(
    "failure",
    [
        application(
            "Activity function look for workflow w is not registered on this worker, available"
            " activities: generate, transferMoney",
            ACTIVITY_NOT_FOUND,
        ),
        application("unable to find activityType=look. Supported types: [transferMoney]"),
        application('Activity Type "look" is not registered with a worker. Known types are: x'),
    ],
)
def test_the_activities_of_a_worker_are_never_listed_to_a_model(failure: Failure) -> None:
    assert message_of(outcome_of_failure(AGAIN, failure)) == "The tool `look` is not available now."


def test_a_message_is_bounded() -> None:
    assert len(message_of(outcome_of_failure(AGAIN, application("x" * 100_000)))) == 4_000
    assert len(refuse(ErrorCode.DENIED, "x" * 100_000).error.message) == 4_000
    stopped = outcome_of_failure(AGAIN, application("x" * 100_000, STOP_RUN))
    assert isinstance(stopped, Stopped)
    assert len(stopped.message) == 4_000


# Results.


@pytest.mark.parametrize(
    "value",
    [
        1,
        None,
        "text",
        [],
        {},
        {"_result": "text"},
        {"_result": {"content": 1}, "more": 1},
        {"_message": {}, "more": 1},
        {"content": 1},
    ],
)
def test_any_json_value_is_a_result(value: Any) -> None:
    assert outcome_of_result(AGAIN, value, WorkBudget()) == Succeeded(value)


@pytest.mark.parametrize(
    ("envelope", "outcome"),
    [
        ({"content": [1]}, Succeeded([1])),
        ({"content": "x", "details": {"rows": 9}}, Succeeded("x", {"rows": 9})),
        ({"content": "x", "terminate": True}, Succeeded("x", None, True)),
        ({"terminate": True}, Succeeded(None, None, True)),
        ({"content": 1, "unknown": 2}, Succeeded(1)),
        ({}, Succeeded(None)),
    ],
)
def test_an_envelope_is_taken_apart(envelope: Any, outcome: Outcome) -> None:
    assert outcome_of_result(AGAIN, {"_result": envelope}, WorkBudget()) == outcome


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"_result": {"terminate": "perhaps"}}, "cannot be read: terminate:"),
        ({"_message": 5}, "is no message"),
        ({"_message": {"role": "boss", "content": "x"}}, "is no message: role:"),
        ({"_message": {"content": [{"type": "image"}]}}, "is no message: content"),
        ({"_message": {"role": "tool", "content": "x"}}, "has the role `tool`"),
        ([float("inf")], "is no JSON that can be kept: it holds NaN or an infinity"),
    ],
)
def test_what_looks_like_one_and_is_none_is_invalid_output(value: Any, why: str) -> None:
    outcome = outcome_of_result(AGAIN, value, WorkBudget())

    assert code_of(outcome) == ErrorCode.INVALID_OUTPUT
    assert why in message_of(outcome)
    assert "\n" not in message_of(outcome)


def test_a_result_that_is_too_deep_to_be_kept_is_invalid_output() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    for value in (deep, {"_result": {"details": deep}}):
        outcome = outcome_of_result(AGAIN, value, WorkBudget())

        assert code_of(outcome) == ErrorCode.INVALID_OUTPUT
        assert outcome == fail(
            ErrorCode.INVALID_OUTPUT,
            "the call was run; its result is no JSON that can be kept:"
            " nested deeper than 64 levels",
        )


def test_a_result_is_checked_against_the_tools_output() -> None:
    checked = tool("look", output={"type": "object", "required": ["id"]})

    assert outcome_of_result(checked, {"id": 1}, WorkBudget()) == Succeeded({"id": 1})
    assert outcome_of_result(
        checked, {"_result": {"content": {"id": 1}}}, WorkBudget()
    ) == Succeeded({"id": 1})
    for value in ({"name": "x"}, {"_result": {"content": {"name": "x"}}}):
        outcome = outcome_of_result(checked, value, WorkBudget())
        assert outcome == fail(
            ErrorCode.INVALID_OUTPUT,
            'the call was run; its result does not fit its `_output`: "id" is a required property;'
            ' it is {"name": "x"}',
            {"name": "x"},
        )


@pytest.mark.parametrize("said", ["`a` is missing", "invalid_arguments: `a` is missing"])
def test_arguments_that_an_activity_refuses_are_called_so_once(said: str) -> None:
    outcome = outcome_of_failure(tool("pay"), Failure("application", said, "invalid_arguments"))
    assert outcome == fail(ErrorCode.INVALID_ARGUMENTS, "`a` is missing")

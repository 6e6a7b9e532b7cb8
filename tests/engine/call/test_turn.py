"""The calls of one answer, together."""

import pytest

from holdfast.schemas.message import AskedCall
from holdfast.schemas.names import CallError, ErrorCode
from holdfast.workflows.engine.call.outcomes import (
    Answered,
    Failed,
    Final,
    Refused,
    Stopped,
    Succeeded,
)
from holdfast.workflows.engine.call.states import ProposedCall, ToolCall, Turn
from tests.engine.driver import tool

ERROR = CallError(code=ErrorCode.TOOL_ERROR, message="no")
ASKED = AskedCall(id="t1c1", provider_id="a", tool="look", arguments={})


def a_call(*, sequential: bool = False) -> ToolCall:
    return ToolCall(ProposedCall(ASKED, tool("look", sequential=sequential)))


def test_one_sequential_tool_makes_a_turn_so() -> None:
    unknown = ToolCall(ProposedCall(ASKED))

    assert Turn(1, [a_call(), unknown, a_call(sequential=True)]).is_sequential
    assert not Turn(1, [a_call(), unknown]).is_sequential


def turn_of(*outcomes: Final) -> Turn:
    calls = [a_call() for _ in outcomes]
    for one, outcome in zip(calls, outcomes, strict=True):
        one.end(outcome)
    return Turn(1, calls)


@pytest.mark.parametrize(
    ("outcomes", "stops"),
    [
        ([Succeeded(1, terminate=True)], True),
        ([Succeeded(1, terminate=True), Succeeded(2, terminate=True)], True),
        ([Succeeded(1, terminate=True), Succeeded(2)], False),
        ([Succeeded(1, terminate=True), Refused(ERROR)], False),
        ([Succeeded(1, terminate=True), Failed(ERROR)], False),
        ([Succeeded(1, terminate=True), Answered(2)], False),
        ([Succeeded(1, terminate=True), Stopped("x")], False),
        ([], False),
    ],
)
def test_a_turn_asks_to_stop_only_where_every_result_does(
    outcomes: list[Final], stops: bool
) -> None:
    assert turn_of(*outcomes).requests_stop is stops


def test_the_first_call_that_stopped_the_run_has_the_reason() -> None:
    assert turn_of(Succeeded(1), Stopped("enough"), Stopped("more")).stop_message == "enough"
    assert turn_of(Stopped("")).stop_message == "look stopped the run"
    assert turn_of(Succeeded(1)).stop_message is None

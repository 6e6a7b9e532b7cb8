"""A call moves along the lines of its table, and along no other."""

import itertools

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
from holdfast.workflows.engine.call.tool_call import CallStage, IllegalTransition, ToolCall, Turn
from tests.engine.driver import tool

P, N, W, Q, R, U, E = CallStage
LEGAL = [
    *((P, N), (P, W), (P, Q), (P, R), (P, E)),
    *((N, W), (N, Q), (N, R), (N, E)),
    *((W, N), (W, W), (W, Q), (W, R), (W, E)),
    *((Q, W), (Q, R), (Q, E)),
    *((R, W), (R, U), (R, E), (U, W), (U, R), (U, E)),
]
ERROR = CallError(code=ErrorCode.TOOL_ERROR, message="no")


def a_call(stage: CallStage = P, name: str = "look", *, sequential: bool = False) -> ToolCall:
    asked = AskedCall(id="t1c1", provider_id="a", tool=name, arguments={})
    return ToolCall(asked, tool(name, sequential=sequential), stage=stage)


@pytest.mark.parametrize(("start", "end"), LEGAL)
def test_a_legal_move_is_made(start: CallStage, end: CallStage) -> None:
    one = a_call(start)
    one.move(end)

    assert one.stage is end


@pytest.mark.parametrize(
    ("start", "end"),
    [pair for pair in itertools.product(CallStage, CallStage) if pair not in LEGAL],
)
def test_an_illegal_move_raises_and_changes_nothing(start: CallStage, end: CallStage) -> None:
    one = a_call(start)
    with pytest.raises(IllegalTransition) as refused:
        one.move(end)

    assert str(refused.value) == f"call t1c1: {start.value} -> {end.value}"
    assert one.stage is start


@pytest.mark.parametrize("start", [P, W, R, U])
def test_a_call_has_one_result(start: CallStage) -> None:
    one = a_call(start)
    one.end(Succeeded(1))
    with pytest.raises(IllegalTransition):
        one.end(Succeeded(2))

    assert one.outcome == Succeeded(1)


def test_one_sequential_tool_makes_a_turn_so() -> None:
    unknown = a_call()
    unknown.found_tool = None

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

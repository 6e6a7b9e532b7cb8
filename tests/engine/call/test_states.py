"""The states of a call: no move but those of the table is possible, and a call ends once."""

import itertools

import pytest

from holdfast.schemas.message import AskedCall
from holdfast.workflows.engine.call.outcomes import Succeeded
from holdfast.workflows.engine.call.states import (
    STATES,
    TRANSITIONS,
    CallEvent,
    CallStage,
    ClosedCall,
    ExecutedCall,
    IllegalTransition,
    ProposedCall,
    ToolCall,
)
from tests.engine.driver import tool

ASKED = AskedCall(id="t1c1", provider_id="a", tool="look", arguments={})


def test_no_other_move_is_possible_and_an_attempt_changes_nothing() -> None:
    for stage, event in {*itertools.product(CallStage, CallEvent)} - TRANSITIONS.keys():
        one = ToolCall(ProposedCall(ASKED, tool()))
        one.stage = stage
        with pytest.raises(IllegalTransition):
            one.move(event, one.decided)
        assert (one.stage, one.state) == (stage, one.prepared)


def test_a_move_takes_only_a_value_of_the_type_of_its_stage() -> None:
    made = ToolCall(ProposedCall(ASKED, tool()))
    executed = ExecutedCall(made.decided, Succeeded(1))
    values = (made.prepared, made.decided, executed, ClosedCall(made.decided, Succeeded(1)))
    for (stage, event), to in TRANSITIONS.items():
        for value in values:
            one = ToolCall(ProposedCall(ASKED, tool()))
            one.stage = stage
            if type(value) is STATES[to]:
                one.move(event, value)
                assert (one.stage, one.state) == (to, value)
            else:
                with pytest.raises(IllegalTransition):
                    one.move(event, value)


def test_a_call_that_has_ended_has_one_outcome_and_is_not_revised() -> None:
    one = ToolCall(ProposedCall(ASKED, tool()))
    one.end(Succeeded(1))
    with pytest.raises(IllegalTransition):
        one.end(Succeeded(2))
    with pytest.raises(IllegalTransition):
        one.revise(one.prepared)

    assert one.outcome == Succeeded(1)

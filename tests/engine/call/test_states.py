"""The states of a call: a play fails without its move, and no other move is possible."""

import itertools

import pytest

from holdfast.schemas.message import AskedCall
from holdfast.workflows.engine.call.outcomes import Succeeded
from holdfast.workflows.engine.call.states import (
    TRANSITIONS,
    CallEvent,
    CallStage,
    IllegalTransition,
    ProposedCall,
    ToolCall,
)
from tests.engine.driver import tool
from tests.engine.plays.playing import play
from tests.engine.plays.test_plays import PLAYS
from tests.support.process import ROOT

# The play that fails without a move.
PLAY_OF = {
    (CallStage.PROPOSED, CallEvent.POSTPONED): "calls/reference",
    (CallStage.WAITING, CallEvent.POSTPONED): "calls/edited_before_a_hook",
    (CallStage.PROPOSED, CallEvent.ASKED): "approvals/approved",
    (CallStage.PENDING, CallEvent.ASKED): "approvals/while_a_reference_is_open",
    (CallStage.WAITING, CallEvent.ASKED): "principal/expired_before_the_approval",
    (CallStage.QUEUED, CallEvent.ASKED): "principal/expired_while_an_earlier_call_writes",
    (CallStage.UNSURE, CallEvent.ASKED): "principal/expired_before_it_runs_again",
    (CallStage.RUNNING, CallEvent.ASKED): "calls/input_of_an_mcp_server",
    (CallStage.PROPOSED, CallEvent.ENQUEUED): "calls/written_in_order",
    (CallStage.PENDING, CallEvent.ENQUEUED): "calls/reference_and_earlier_writer",
    (CallStage.WAITING, CallEvent.ENQUEUED): "approvals/while_an_earlier_call_writes",
    (CallStage.PROPOSED, CallEvent.STARTED): "calls/result",
    (CallStage.PENDING, CallEvent.STARTED): "calls/reference",
    (CallStage.WAITING, CallEvent.STARTED): "approvals/approved",
    (CallStage.QUEUED, CallEvent.STARTED): "calls/written_in_order",
    (CallStage.UNSURE, CallEvent.STARTED): "outcomes/it_did_not_happen",
    (CallStage.RUNNING, CallEvent.OUTCOME_LOST): "outcomes/it_happened",
    (CallStage.PROPOSED, CallEvent.HAS_OUTCOME): "calls/unknown_tool",
    (CallStage.PENDING, CallEvent.HAS_OUTCOME): "calls/reference_to_a_failed_call",
    (CallStage.WAITING, CallEvent.HAS_OUTCOME): "approvals/denied",
    (CallStage.QUEUED, CallEvent.HAS_OUTCOME): "calls/cancelled_while_an_earlier_call_writes",
    (CallStage.RUNNING, CallEvent.HAS_OUTCOME): "calls/result",
    (CallStage.UNSURE, CallEvent.HAS_OUTCOME): "outcomes/given_up",
    (CallStage.ENDED, CallEvent.RESULT_REVIEWED): "calls/result",
    (CallStage.REVIEWED, CallEvent.RESULT_PUBLISHED): "calls/reference",
    (CallStage.ENDED, CallEvent.RESULT_LOGGED): "calls/unknown_tool",
    (CallStage.REVIEWED, CallEvent.RESULT_LOGGED): "calls/result",
    (CallStage.PUBLISHED, CallEvent.RESULT_LOGGED): "calls/reference",
}
ASKED = AskedCall(id="t1c1", provider_id="a", tool="look", arguments={})


def test_each_move_has_a_play() -> None:
    assert PLAY_OF.keys() == TRANSITIONS.keys()


@pytest.mark.parametrize("move", PLAY_OF, ids=lambda move: f"{move[0].value}-{move[1].value}")
def test_a_play_fails_without_the_move_of_a_call(
    move: tuple[CallStage, CallEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(TRANSITIONS, move)
    stage, event = move
    with pytest.raises(IllegalTransition, match=f" is {stage.value}: {event.value}"):
        play(PLAYS[PLAY_OF[move]].read_text(encoding="utf-8"))


def test_no_other_move_is_possible_and_an_attempt_changes_nothing() -> None:
    others = [one for one in itertools.product(CallStage, CallEvent) if one not in TRANSITIONS]
    for stage, event in others:
        one = ToolCall(ProposedCall(ASKED, tool()))
        one.stage = stage
        with pytest.raises(IllegalTransition):
            one.move(event, one.decided)
        assert (one.stage, one.state) == (stage, one.proposed)
    assert len(others) == len(CallStage) * len(CallEvent) - len(PLAY_OF)


def test_a_call_that_has_ended_has_one_outcome_and_is_not_revised() -> None:
    one = ToolCall(ProposedCall(ASKED, tool()))
    one.end(Succeeded(1))
    with pytest.raises(IllegalTransition):
        one.end(Succeeded(2))
    with pytest.raises(IllegalTransition):
        one.revise(one.prepared)

    assert one.outcome == Succeeded(1)


def test_only_one_module_compares_stages() -> None:
    product = (ROOT / "holdfast").rglob("*.py")
    assert [path.name for path in product if "CallStage." in path.read_text()] == ["states.py"]

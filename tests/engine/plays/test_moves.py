"""The moves of runs and of their calls: each is made by a play, which fails without it."""

import ast
import re
from types import ModuleType
from typing import Any

import pytest

from holdfast.workflows.engine import phases
from holdfast.workflows.engine.call import states
from holdfast.workflows.engine.call.states import CallEvent, CallStage, IllegalTransition
from holdfast.workflows.engine.phases import AwaitMessage, RunEvent, RunPhase, RunPhases
from tests.engine.plays.playing import play
from tests.engine.plays.test_plays import PLAYS
from tests.support.process import ROOT

ENGINE = ROOT / "holdfast" / "workflows" / "engine"
# The play that fails without a move.
OF_A_RUN = {
    (RunPhase.READY, RunEvent.REQUESTED): "run/answer",
    (RunPhase.REQUESTING, RunEvent.REQUEST_CLOSED): "run/answer",
    (RunPhase.READY, RunEvent.CALLS_PROPOSED): "calls/result",
    (RunPhase.CALLING, RunEvent.CALLS_CLOSED): "calls/result",
    (RunPhase.READY, RunEvent.EXTENSION_REQUESTED): "run/budget_extended",
    (RunPhase.EXTENDING, RunEvent.EXTENSION_DECIDED): "run/budget_not_extended",
    (RunPhase.READY, RunEvent.CONCLUDED): "run/turns_used_up",
    (RunPhase.ANSWERED, RunEvent.CONTINUED): "conversation/after_the_output",
    (RunPhase.ANSWERED, RunEvent.MESSAGE_AWAITED): "conversation/turns",
    (RunPhase.IDLE, RunEvent.MESSAGE_ARRIVED): "conversation/idle",
    (RunPhase.READY, RunEvent.FINISHED): "single/approved",
    (RunPhase.ANSWERED, RunEvent.FINISHED): "run/answer",
    (RunPhase.READY, RunEvent.FAILED): "run/model_fails",
    (RunPhase.REQUESTING, RunEvent.FAILED): "run/cancelled_while_the_model_answers",
    (RunPhase.CALLING, RunEvent.FAILED): "run/cancelled",
    (RunPhase.EXTENDING, RunEvent.FAILED): "run/cancelled_at_the_end_of_a_budget",
    (RunPhase.ANSWERED, RunEvent.FAILED): "constant/answer_does_not_fit",
    (RunPhase.IDLE, RunEvent.FAILED): "conversation/cancelled",
}
OF_A_CALL = {
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
MOVES = [
    *((phases, move, name) for move, name in OF_A_RUN.items()),
    *((states, move, name) for move, name in OF_A_CALL.items()),
]


def test_each_move_has_a_play() -> None:
    assert OF_A_RUN.keys() == phases.TRANSITIONS.keys()
    assert OF_A_CALL.keys() == states.TRANSITIONS.keys()


@pytest.mark.parametrize(
    ("module", "move", "name"),
    MOVES,
    ids=[f"{state.value}-{event.value}" for _, (state, event), _ in MOVES],
)
def test_a_play_fails_without_its_move(
    module: ModuleType, move: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = {each: to for each, to in module.TRANSITIONS.items() if each != move}
    monkeypatch.setattr(module, "TRANSITIONS", moves)
    state, event = move
    with pytest.raises(IllegalTransition, match=f" is {state.value}: {event.value}"):
        play(PLAYS[name].read_text(encoding="utf-8"))


def test_each_module_lists_the_events_of_a_run_that_it_owns() -> None:
    owned = {}
    for path in sorted(ENGINE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        sent = set(re.findall(r"\.move\(\s*RunEvent\.(\w+)", source))
        header = ast.get_docstring(ast.parse(source)) or ""
        listed = re.search(r"^Events: ([^.]+)\.$", header, re.MULTILINE)
        named = set() if listed is None else {*re.split(r",\s+", listed[1])}
        assert {RunEvent[name].value for name in sent} == named, path
        owned[path.name] = named
    assert set().union(*owned.values()) == {event.value for event in RunEvent}


def test_a_move_takes_only_a_step_of_its_phase() -> None:
    for step in (None, AwaitMessage(None)):
        with pytest.raises(IllegalTransition):
            RunPhases().move(RunEvent.REQUESTED, step)


@pytest.mark.parametrize(
    ("kind", "modules"), [("RunPhase", {"phases"}), ("CallStage", {"states", "lifecycle"})]
)
def test_no_other_module_compares_phases_or_stages(kind: str, modules: set[str]) -> None:
    product = (ROOT / "holdfast").rglob("*.py")
    naming = {path.stem for path in product if f"{kind}." in path.read_text(encoding="utf-8")}
    assert naming == modules

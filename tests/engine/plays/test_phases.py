"""The phases of a run: each move is made by a play, and by the module that names its event."""

import ast
import re

import pytest

from holdfast.workflows.engine.phases import TRANSITIONS, IllegalEvent, RunEvent, RunPhase
from tests.engine.plays.playing import play
from tests.engine.plays.test_plays import PLAYS
from tests.support.process import ROOT

ENGINE = ROOT / "holdfast" / "workflows" / "engine"
# The play that fails without a move.
PLAY_OF = {
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


def test_each_move_has_a_play() -> None:
    assert PLAY_OF.keys() == TRANSITIONS.keys()


@pytest.mark.parametrize("move", PLAY_OF, ids=lambda move: f"{move[0].value}-{move[1].value}")
def test_a_play_fails_without_its_move(
    move: tuple[RunPhase, RunEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(TRANSITIONS, move)
    phase, event = move
    with pytest.raises(IllegalEvent, match=f"the run is {phase.value}: {event.value}"):
        play(PLAYS[PLAY_OF[move]].read_text(encoding="utf-8"))


def test_each_module_lists_the_events_that_it_owns() -> None:
    owned = {}
    for path in sorted(ENGINE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        sent = set(re.findall(r"phases\.on_(\w+)\(", source))
        header = ast.get_docstring(ast.parse(source)) or ""
        listed = re.search(r"^Events: ([^.]+)\.$", header, re.MULTILINE)
        named = set() if listed is None else {*re.split(r",\s+", listed[1])}
        assert {name.replace("_", " ") for name in sent} == named, path
        owned[path.name] = named
    assert set().union(*owned.values()) == {event.value for event in RunEvent}


def test_only_one_module_knows_phases() -> None:
    product = (ROOT / "holdfast").rglob("*.py")
    assert [path.name for path in product if "RunPhase." in path.read_text()] == ["phases.py"]

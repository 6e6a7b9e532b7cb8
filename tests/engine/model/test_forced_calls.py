"""`_limits.forceAtStep`: from a turn on, the model must call a tool unless it has."""

from typing import Any

from holdfast.schemas.agent import ForcedTool
from holdfast.schemas.tool import CallLimits
from holdfast.workflows.engine.phases import AskModel
from tests.engine.driver import Play, call, reply, tool

LOOK, CHECK = reply("", call("look")), reply("", call("check"))


def forced(step: int, **more: Any) -> Any:
    """The tool `check`, which has to be called at this step."""
    limits = {"force_at_step": step, **more.pop("limits", {})}
    return tool("check", limits=CallLimits.model_validate(limits, by_name=True), **more)


def choices(play: Play) -> list[str]:
    """What each request of the run has the model choose from."""
    found = []
    while isinstance(step := play.next(), AskModel) or play.run.phases.end is None:
        if isinstance(step, AskModel):
            choice = play.run.settings.ask().tool_choice
            found.append(choice.name if isinstance(choice, ForcedTool) else choice)
        play.take(step)
    return found


def test_it_is_forced_at_its_turn_and_after_that_no_more() -> None:
    play = Play(tool(), forced(3), model=[LOOK, LOOK, CHECK, reply("done")])
    assert choices(play) == ["auto", "auto", "check", "auto"]
    assert play.result["status"] == "completed"


def test_it_is_not_forced_where_it_was_called_before() -> None:
    play = Play(tool(), forced(2), model=[CHECK, LOOK, reply("done")])
    assert choices(play) == ["auto", "auto", "auto"]


def test_it_is_not_forced_again_after_a_denial() -> None:
    decisions = {"t1c1": [{"decision": "deny"}]}
    model = [CHECK, reply("done")]
    play = Play(forced(1, side_effects=True), model=model, decisions=decisions)
    assert choices(play) == ["check", "auto"]


def test_it_is_not_due_before_what_it_comes_after() -> None:
    check = forced(1, limits={"after": ["look"]})
    play = Play(tool(), check, model=[LOOK, CHECK, reply("done")])
    assert choices(play) == ["auto", "check", "auto"]


def test_the_agents_own_first_call_comes_first_and_a_run_without_calls_makes_none() -> None:
    model, first = [LOOK, CHECK, reply("done")], ForcedTool(name="look")
    assert choices(Play(tool(), forced(1), model=model, tool_choice=first)) == [
        *("look", "check", "auto")
    ]
    silent = Play(tool(), forced(1), model=[reply("done")], tool_choice="none")
    assert choices(silent) == ["none"]


def test_the_last_request_of_a_budget_forces_nothing() -> None:
    play = Play(tool(), forced(2), model=[LOOK, reply("done")], budget={"maxIterations": 1})
    assert choices(play) == ["auto", "none"]
    assert play.result["output"] == "done"

"""§11: the tool of a pending approval, as screens receive it."""

import pytest

from holdfast.schemas.agent import ResolvedSkill
from tests.engine.driver import Play, tool

SKILLS = [
    ResolvedSkill(
        name="refunds", tools=[tool("find", description="Finds orders."), tool("refund")]
    ),
    ResolvedSkill(name="travel", tools=[tool("find", description="Finds trains.")]),
]


def test_the_tool_of_the_active_skill_precedes_another_of_its_name() -> None:
    play = Play(tool("look"), definition={"skills": SKILLS}, skill="travel")
    assert play.run.state.show_tool("find").description == "Finds trains."
    assert play.run.state.show_tool("look").name == "look"


def test_a_tool_whose_parameters_differ_between_skills_is_of_no_decided_call() -> None:
    sent = {"type": "object", "properties": {"to": {"type": "string"}}}
    other = ResolvedSkill(name="mail", tools=[tool("find", parameters=sent), tool("refund")])
    play = Play(tool("look"), definition={"skills": [*SKILLS, other]}, skill="travel")
    assert play.run.state.show_tool("refund", of_any_skill=True).name == "refund"
    with pytest.raises(ValueError, match="no tool `find`"):
        play.run.state.show_tool("find", of_any_skill=True)


def test_before_a_skill_is_chosen_every_tool_is_known() -> None:
    play = Play(tool("look"), definition={"skills": SKILLS})
    assert play.run.state.show_tool("refund").name == "refund"
    with pytest.raises(ValueError, match="no tool `refnd`; did you mean `refund`"):
        play.run.state.show_tool("refnd")

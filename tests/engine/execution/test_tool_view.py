"""§11: a tool as people's screens are shown it: the one that the waiting call is of."""

import pytest

from holdfast.schemas.agent import Skill
from holdfast.workflows.engine.tool_view import NoSuchTool, show_tool
from tests.engine.driver import Play, tool

SKILLS = [
    Skill(name="refunds", tools=[tool("find", description="Finds orders."), tool("refund")]),
    Skill(name="travel", tools=[tool("find", description="Finds trains.")]),
]


def test_the_tool_of_the_skill_in_force_comes_before_another_of_its_name() -> None:
    play = Play(tool("look"), definition={"skills": SKILLS}, skill="travel")
    assert show_tool("find", play.run.state).description == "Finds trains."
    assert show_tool("look", play.run.state).name == "look"


def test_before_a_skill_is_chosen_every_tool_is_known() -> None:
    play = Play(tool("look"), definition={"skills": SKILLS})
    assert show_tool("refund", play.run.state).name == "refund"
    with pytest.raises(NoSuchTool, match="no tool `refnd`; did you mean `refund`"):
        show_tool("refnd", play.run.state)

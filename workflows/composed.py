"""The schema of an agent's answers in composed calling, for people who look at it."""

from holdfast.schemas.agent import Agent
from holdfast.schemas.tool import Schema
from holdfast.workflows.engine.model.composed import composed_schema
from holdfast.workflows.engine.skills import allowed


def schema_of_answers(agent: Agent, skill: str | None = None) -> Schema:
    """What a run of the agent with this skill asks for. With none, it is what is asked first: an
    agent with several skills is asked which."""
    if skill is None and len(agent.skills) == 1:
        skill = agent.skills[0].name
    return composed_schema(agent, allowed(agent, skill))

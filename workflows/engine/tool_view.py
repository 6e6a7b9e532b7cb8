"""The tools of a run, in the form that people see beside a pending approval."""

from collections.abc import Iterator
from typing import Any

from holdfast.schemas.agent import AgentRules
from holdfast.schemas.phrases import quote_value, suggest_names
from holdfast.schemas.tool import ShownTool, Tool
from holdfast.workflows.engine.approvals.policy import effective_policy
from holdfast.workflows.engine.run_state import RunState


class NoSuchTool(ValueError):
    """A run has no tool of this name."""


def show_tool(name: Any, state: RunState) -> ShownTool:
    """Return the tool of a name: of the active skill if it has one, otherwise of any other.

    Raises:
        NoSuchTool: The run has none.
    """
    tools = [*state.tools(), *_all(state.rules)]
    found = next((tool for tool in tools if tool.name == name), None)
    if found is None:
        suggestion = suggest_names(str(name), list(dict.fromkeys(tool.name for tool in tools)))
        raise NoSuchTool(f"this run has no tool {quote_value(str(name))}; {suggestion}")
    same = {field: getattr(found, field) for field in ShownTool.model_fields if field != "approval"}
    return ShownTool(**same, approval=effective_policy(found, state.rules))


def _all(rules: AgentRules) -> Iterator[Tool]:
    yield from rules.tools
    for skill in rules.skills:
        yield from skill.tools

"""The tools of an agent, part by part: its own tools, and those of each of its skills.

Tools are read before the agent as a whole, since their own problems are more precise than a
problem of the whole list. Knowledge and memory follow when the agent is known to be well formed. A
run has the agent's own part and that of one skill: within these two, each name is unique, and the
tools that a tool waits for must be among them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.catalog.builtin_tools import knowledge_tool, memory_tools
from holdfast.catalog.registry import DefinitionRegistry
from holdfast.catalog.tool_reader import reserved_name_problems, resolve_tool_entry
from holdfast.runtime.settings_files.file_problems import InvalidValueError
from holdfast.schemas.agent import AgentDefinition, ForcedTool, SkillDefinition
from holdfast.schemas.phrases import suggest_names
from holdfast.schemas.tool import Tool
from holdfast.validation.problems import ValueProblem, Where


@dataclass
class ToolPart:
    """The tools of the agent itself, or of the skill at `where` beside the agent's own.

    `places` are the places of the tools, one for one; `lost` are those of tools that do not load.
    """

    where: Where = ()
    beside: "ToolPart | None" = None
    tools: list[Tool] = field(default_factory=list)
    places: list[Where] = field(default_factory=list)
    faults: list[ValueProblem] = field(default_factory=list)
    lost: list[Where] = field(default_factory=list)

    def take(self, tool: Tool, *place: str | int) -> None:
        """Add a tool and the place where it is written."""
        self.tools.append(tool)
        self.places.append((*self.where, *place))

    def lack(self, refused: InvalidValueError, *place: str | int) -> None:
        """Add the problems of a tool that does not load."""
        self.faults.extend(fault.under(*self.where, *place) for fault in refused.faults)
        self.lost.append((*self.where, *place))


def read_tool_parts(written: dict[str, Any], world: DefinitionRegistry) -> list[ToolPart]:
    """Read the tools of a written agent: its own first, then those of each skill."""
    own = ToolPart()
    parts = [own]
    _read_tools(own, written, world)
    skills = written.get("skills")
    for n, skill in enumerate(skills if isinstance(skills, list) else []):
        parts.append(ToolPart(("skills", n), own))
        _read_tools(parts[-1], skill if isinstance(skill, dict) else {}, world)
    return parts


def add_knowledge(
    parts: list[ToolPart], definition: AgentDefinition, name: str, world: DefinitionRegistry
) -> None:
    """Add the knowledge of the agent and of its skills, and the agent's memory, as tools."""
    holders: list[AgentDefinition | SkillDefinition] = [definition, *definition.skills]
    for part, holder in zip(parts, holders, strict=True):
        for n, written in enumerate(holder.knowledge):
            try:
                part.take(knowledge_tool(written, world), "knowledge", n)
            except InvalidValueError as refused:
                part.lack(refused, "knowledge", n)
    for tool in memory_tools(name, world) if definition.memory else ():
        parts[0].take(tool, "memory")


def part_problems(parts: list[ToolPart]) -> Iterator[ValueProblem]:
    """Yield the problems of the parts, and the names that a run would have twice."""
    for part in parts:
        yield from part.faults
        seen = set() if part.beside is None else {tool.name for tool in part.beside.tools}
        for tool, where in zip(part.tools, part.places, strict=True):
            yield from (fault.under(*where) for fault in reserved_name_problems(tool.name))
            if tool.name in seen:
                yield ValueProblem(where, f"it has `{tool.name}` twice", "keep one of them")
            seen.add(tool.name)


def name_problems(definition: AgentDefinition, parts: list[ToolPart]) -> Iterator[ValueProblem]:
    """Yield references to tools that the agent lacks; none if some tools did not load."""
    if not any(part.lost for part in parts):
        known = [tool.name for part in parts for tool in part.tools]
        yield from _agents_name_faults(definition, known)
        for part in parts:
            runs = parts if part.beside is None else [part, part.beside]
            yield from _after_faults(part, [tool.name for each in runs for tool in each.tools])


def _read_tools(part: ToolPart, written: dict[str, Any], world: DefinitionRegistry) -> None:
    tools = written.get("tools")
    for n, entry in enumerate(tools if isinstance(tools, list) else []):
        try:
            part.take(resolve_tool_entry(entry, world), "tools", n)
        except InvalidValueError as refused:
            part.lack(refused, "tools", n)


def _agents_name_faults(definition: AgentDefinition, known: list[str]) -> Iterator[ValueProblem]:
    choice = definition.tool_choice
    if isinstance(choice, ForcedTool) and choice.name not in known:
        fix = suggest_names(choice.name, known, "the agent has no tools")
        yield ValueProblem(("toolChoice", "name"), f"the agent has no tool `{choice.name}`", fix)
    for name in definition.approval.auto:
        if name not in known:
            reason = f"`approval.auto` names `{name}`, which is not among the agent's tools"
            yield ValueProblem(
                ("approval", "auto"), reason, suggest_names(name, known, "it has none")
            )


def _after_faults(part: ToolPart, known: list[str]) -> Iterator[ValueProblem]:
    """Yield `after` references to missing tools; an agent's own tool may name one of a skill."""
    who = "agent" if part.beside is None else "skill"
    for tool, where in zip(part.tools, part.places, strict=True):
        for other in tool.limits.after:
            if other not in known:
                reason = f"`{tool.name}` runs only after `{other}`, which the {who} lacks"
                yield ValueProblem(where, reason, suggest_names(other, known))

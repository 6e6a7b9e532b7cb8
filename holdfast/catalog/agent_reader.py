"""Resolve agents from their written form to the one that a run stores.

The tools of an agent are in parts: its own, and those of each of its skills. They are read before
the agent as a whole, since their own problems are more precise than a problem of the whole list.
Knowledge and memory follow when the agent is known to be well formed. A run has the agent's own
part and that of one skill: within these two, each name is unique, and the tools that a tool waits
for must be among them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from holdfast.catalog.builtin_tools import knowledge_tool, memory_tools
from holdfast.catalog.constant_calls import constant_call_problems
from holdfast.catalog.mcp_tools import Listing, instructions_of, is_mcp, tools_of_entry
from holdfast.catalog.policies.limits import limited_agent
from holdfast.catalog.registry import (
    DefinitionRegistry,
    ToolsByActivity,
    activity_problems,
    hook_bindings,
    hook_effects,
    hook_problems,
    unstated_effects,
)
from holdfast.catalog.tool_reader import (
    forward_problems,
    in_current_draft,
    is_pattern,
    matching_tools,
    reserved_name_problems,
    resolve_tool_entry,
)
from holdfast.runtime.narration.arguments import effect_names
from holdfast.runtime.narration.schema_shapes import ShapeReader
from holdfast.runtime.settings_files.file_problems import InvalidValueError
from holdfast.schemas.agent import (
    AgentDefinition,
    ForcedTool,
    ResolvedAgent,
    ResolvedSkill,
    SkillDefinition,
)
from holdfast.schemas.base import Lenient, json_size, parse_duration
from holdfast.schemas.budget import BUDGET_DEFAULTS, ON_LIMIT_DEFAULTS
from holdfast.schemas.phrases import suggest_names
from holdfast.schemas.tool import APPROVAL_DEFAULTS, TOOL, ResolvedTool, Schema, binding_of
from holdfast.validation.problems import ValueProblem, Where, name_problem, problems_of, under
from holdfast.validation.schema_check import schema_problems
from holdfast.validation.schema_drafts import to_current_draft

MAX_AGENT_BYTES = 1_000_000
# How long a model's failing request is made again where another model follows it.
RETRY_FOR = parse_duration("2m")
_NO_ENDPOINTS = (
    "this worker has none: set a key such as OPENAI_API_KEY, or name a file of them with"
    " `--endpoints`"
)


@dataclass
class _ToolPart:
    """The tools of the agent itself, or of the skill at `where` beside the agent's own.

    `places` are the places of the tools, one for one; `lost` are those of tools that do not load.
    It `is_unlisted` if it has tools of MCP servers, which are not listed yet.
    """

    where: Where = ()
    beside: "_ToolPart | None" = None
    tools: list[ResolvedTool] = field(default_factory=list)
    places: list[Where] = field(default_factory=list)
    faults: list[ValueProblem] = field(default_factory=list)
    lost: list[Where] = field(default_factory=list)
    is_unlisted: bool = False
    instructions: str = ""

    def add_tool(self, tool: ResolvedTool, *place: str | int) -> None:
        self.tools.append(tool)
        self.places.append((*self.where, *place))

    @contextmanager
    def reading(self, *place: str | int) -> Iterator[None]:
        """Add the problems of a tool that does not load, and the place where it is written."""
        try:
            yield
        except InvalidValueError as refused:
            self.faults.extend(under(refused.faults, *self.where, *place))
            self.lost.append((*self.where, *place))

    def has(self, tool: ResolvedTool) -> bool:
        own = any((each.name, each.mcp) == (tool.name, tool.mcp) for each in self.tools)
        return own or (self.beside is not None and self.beside.has(tool))

    def names(self) -> set[str]:
        own = {tool.name for tool in self.tools}
        return own if self.beside is None else own | self.beside.names()

    def problems(self) -> Iterator[ValueProblem]:
        """Yield the problems of the tools, and the names that a run would have twice."""
        yield from self.faults
        seen = set() if self.beside is None else self.beside.names()
        for tool, where in zip(self.tools, self.places, strict=True):
            yield from under(reserved_name_problems(tool.name), *where)
            if tool.name in seen:
                yield ValueProblem(where, f"it has `{tool.name}` twice", "keep one of them")
            seen.add(tool.name)


def resolve_definition(
    written: Any, name: str, world: DefinitionRegistry, listing: Listing | None = None
) -> ResolvedAgent:
    """Resolve a written agent to the agent that a run stores, by this name if it has none.

    Without a `listing` of the tools of MCP servers, it has none of these.

    Raises:
        InvalidValueError: the agent does not load; the error has every problem.
    """
    if not isinstance(written, dict):
        raise InvalidValueError.of("this is no agent", "write an object with `model` in it")
    # A blank `name:` is none.
    written = {key: each for key, each in written.items() if key != "name" or each is not None}
    unfit = None if "name" in written else name_problem(name, "name")
    named = {"name": name, **written} if unfit is None else written
    faults = [] if unfit is None else [unfit]
    parts = _read_tool_parts(written, world, listing)
    try:
        definition = AgentDefinition.model_validate(
            named, by_alias=True, by_name=False, strict=True
        )
    except ValidationError as error:
        found = problems_of(error, named, AgentDefinition)
        # The tools in `lost` have their own problems, which are more precise than pydantic's.
        lost = [place for part in parts for place in part.lost]
        new = [
            each for each in found if not any(each.where[: len(place)] == place for place in lost)
        ]
        own = [fault for part in parts for fault in part.problems()]
        raise InvalidValueError([*faults, *own, *new]) from None
    _add_other_tools(definition, parts, world, is_named="name" in written)
    texts = [definition.instructions, *(skill.instructions for skill in definition.skills)]
    for part, text in zip(parts, texts, strict=True):
        with part.reading("instructions"):
            part.instructions = instructions_of(text, world, listing)
    faults += (fault for part in parts for fault in part.problems())
    faults += _definition_problems(definition, parts, world)
    faults += constant_call_problems(definition, parts[0].tools, world)
    if not any(part.lost or part.is_unlisted for part in parts):
        faults += _tool_name_problems(definition, parts)
    if faults:
        raise InvalidValueError(faults)
    agent = _agent(definition, name, parts, world)
    # In a run's log, a tool is stored in each of its skills. Each tool is measured once, and an
    # agent whose tools alone are too large is not measured as a whole.
    tools = agent.all_tools
    measured = {key: _size_bytes(tool) for key, tool in {id(each): each for each in tools}.items()}
    size_bytes = sum(measured[id(tool)] for tool in tools)
    size_bytes = size_bytes if size_bytes > MAX_AGENT_BYTES else _size_bytes(agent)
    if size_bytes > MAX_AGENT_BYTES:
        fix = f"at most {MAX_AGENT_BYTES}: give it fewer or smaller tools"
        raise InvalidValueError.of(f"the agent has {size_bytes} bytes, tools resolved", fix)
    return agent


def _read_tool_parts(
    written: dict[str, Any], world: DefinitionRegistry, listing: Listing | None
) -> list[_ToolPart]:
    """Read the tools of a written agent: its own first, then those of each skill."""
    own = _ToolPart()
    parts = [(own, written)]
    skills = written.get("skills")
    parts += [
        (_ToolPart(("skills", n), own), skill if isinstance(skill, dict) else {})
        for n, skill in enumerate(skills if isinstance(skills, list) else [])
    ]
    for part, holder in parts:
        tools = holder.get("tools")
        entries = enumerate(tools if isinstance(tools, list) else [])
        # Patterns come last, and add what is not there yet.
        for n, entry in sorted(entries, key=lambda each: is_pattern(each[1])):
            with part.reading("tools", n):
                is_open = is_pattern(entry)
                if is_mcp(entry):
                    part.is_unlisted |= listing is None
                    found = tools_of_entry(entry, world, listing)
                elif is_open:
                    found = matching_tools(entry, world)
                else:
                    found = [resolve_tool_entry(entry, world)]
                for tool in found:
                    if not (is_open and part.has(tool)):
                        part.add_tool(tool, "tools", n)
    known = _known_tools([part for part, _ in parts], world)
    for part, holder in parts:
        for tool, where in zip(part.tools, part.places, strict=True):
            if isinstance(entry := holder["tools"][where[-1]], dict):
                faults = unstated_effects(entry, tool, known)
                part.faults += under(faults, *where)
    return [part for part, _ in parts]


def _add_other_tools(
    definition: AgentDefinition, parts: list[_ToolPart], world: DefinitionRegistry, is_named: bool
) -> None:
    """Add the tools of knowledge and memory, and those of the catalog that constant calls name."""
    holders: list[AgentDefinition | SkillDefinition] = [definition, *definition.skills]
    tools = _known_tools(parts, world)
    for part, holder in zip(parts, holders, strict=True):
        for n, source in enumerate(holder.knowledge):
            with part.reading("knowledge", n):
                part.add_tool(knowledge_tool(source, world, tools), "knowledge", n)
        if not holder.memory:
            continue
        if world.is_inline and not is_named:
            reason = "memory is stored under the agent's name, and this one has none"
            part.faults.append(ValueProblem((*part.where, "memory"), reason, "give it a `name`"))
        elif definition.memory and part.beside is not None:
            reason, fix = "the agent has its memory already", "leave it out in one of the places"
            part.faults.append(ValueProblem((*part.where, "memory"), reason, fix))
        else:
            for tool in memory_tools(definition.name or "", world):
                part.add_tool(tool, "memory")
    own = parts[0]
    for n, name in enumerate(call.get(TOOL) for call in definition.calls):
        if isinstance(name, str) and name not in own.names() and not own.is_unlisted:
            with own.reading("calls", n, TOOL):
                own.add_tool(resolve_tool_entry(name, world), "calls", n, TOOL)


def _known_tools(parts: list[_ToolPart], world: DefinitionRegistry) -> ToolsByActivity:
    """Return the tools that have rules for an activity: all but knowledge."""
    own = (tool for part in parts for tool in part.tools if tool.knowledge is None)
    return ToolsByActivity([*world.tools.values(), *own], world)


def _skill_rules(
    skill: SkillDefinition, parts: list[_ToolPart], world: DefinitionRegistry
) -> list[ResolvedTool]:
    """List the tools that have rules for a skill's activity: its own, or those that it runs."""
    if skill.activity is None:
        return []
    if (effects := skill.side_effects) is None:
        return _known_tools(parts, world).of(binding_of(skill.activity))
    return [
        ResolvedTool(name=skill.name, parameters={}, side_effects=effects, idempotent=not effects)
    ]


def _definition_problems(
    definition: AgentDefinition, parts: list[_ToolPart], world: DefinitionRegistry
) -> Iterator[ValueProblem]:
    for n, model in enumerate(definition.models):
        endpoint = model.endpoint
        if world.endpoints is not None and endpoint not in world.endpoints:
            place: Where = ("model", n) if isinstance(definition.model, list) else ("model",)
            fix = suggest_names(endpoint, world.endpoints, _NO_ENDPOINTS)
            yield ValueProblem((*place, "endpoint"), f"there is no endpoint `{endpoint}`", fix)
    schemas: dict[Where, Any] = {
        **{(key,): getattr(definition, key) for key in ("input", "output", "state")},
        ("approval", "when"): definition.approval.when,
        **{("skills", n, "when"): skill.when for n, skill in enumerate(definition.skills)},
    }
    for where, schema in schemas.items():
        yield from under(schema_problems(schema), *where)
    yield from under(forward_problems(definition.approval), "approval")
    known = ShapeReader(definition.input).read(definition.input).properties
    for name in effect_names(definition.title):
        if name not in known:
            reason, fix = f"`{{{name}}}` names no property of `input`", suggest_names(name, known)
            yield ValueProblem(("title",), reason, fix)
    yield from hook_problems(definition, world)
    yield from hook_effects(hook_bindings(definition), _known_tools(parts, world))
    yield from _skill_problems(definition, parts, world)


def _skill_problems(
    definition: AgentDefinition, parts: list[_ToolPart], world: DefinitionRegistry
) -> Iterator[ValueProblem]:
    seen: set[str] = set()
    if definition.change_skill and not definition.skills:
        yield ValueProblem(("changeSkill",), "there are no skills", "add `skills`, or leave it out")
    for n, skill in enumerate(definition.skills):
        if skill.name in seen:
            reason = f"it has the skill `{skill.name}` twice"
            yield ValueProblem(("skills", n, "name"), reason, "give one of them another name")
        seen.add(skill.name)
        if skill.activity is None:
            continue
        rules = _skill_rules(skill, parts, world)
        is_once = any(tool.once for tool in rules)
        schema = _skill_parameters(definition, rules)
        faults = [*activity_problems(skill.activity, world, schema, is_once=is_once)]
        if len(rules) > 1:
            names = ", ".join(f"`{tool.name}`" for tool in rules)
            reason = f"{names} run this activity, and the skill can follow one"
            faults.append(ValueProblem((), reason, "write the skill's own `sideEffects`"))
        yield from under(faults, "skills", n, "activity")
        for key in skill.for_a_model:
            if key in skill.model_fields_set:
                reason = "this skill runs an activity, without a model"
                fix = "leave it out, or leave out `activity`"
                yield ValueProblem(("skills", n, key), reason, fix)


def _skill_parameters(definition: AgentDefinition, rules: list[ResolvedTool]) -> Schema:
    """Return the schema of the arguments that a skill's activity is called with."""
    if rules and rules[0].activity is not None:
        return rules[0].parameters
    written = definition.input
    if not isinstance(written, dict):
        return {"additionalProperties": True}
    return {"properties": {"input": written}} if written.get("type") == "string" else written


def _tool_name_problems(
    definition: AgentDefinition, parts: list[_ToolPart]
) -> Iterator[ValueProblem]:
    known = {tool.name: tool for part in parts for tool in part.tools}
    choice = definition.tool_choice
    if isinstance(choice, ForcedTool) and choice.name not in known:
        fix = suggest_names(choice.name, known, "the agent has no tools")
        yield ValueProblem(("toolChoice", "name"), f"the agent has no tool `{choice.name}`", fix)
    for name in definition.approval.auto:
        if name not in known:
            reason = f"`approval.auto` names `{name}`, which is not among the agent's tools"
            fix = suggest_names(name, known, "it has none")
            yield ValueProblem(("approval", "auto"), reason, fix)
        elif known[name].person:
            reason = f"`approval.auto` names `{name}`, which only a person can answer"
            yield ValueProblem(("approval", "auto"), reason, "leave it out")
    for part in parts:
        # An agent's own tool may wait for one of a skill.
        runs = parts if part.beside is None else [part, part.beside]
        beside = [tool.name for each in runs for tool in each.tools]
        who = "agent" if part.beside is None else "skill"
        for tool, where in zip(part.tools, part.places, strict=True):
            for other in tool.limits.after:
                if other not in beside:
                    reason = f"`{tool.name}` runs only after `{other}`, which the {who} lacks"
                    yield ValueProblem(where, reason, suggest_names(other, beside))


def _agent(
    definition: AgentDefinition, name: str, parts: list[_ToolPart], world: DefinitionRegistry
) -> ResolvedAgent:
    same = {key: value for key, value in definition if key in ResolvedAgent.model_fields}
    models = definition.models
    for n, model in enumerate(models[:-1]):
        models[n] = model.model_copy(update={"retry_for": model.retry_for or RETRY_FOR})
    settled = {
        "model": models[0] if models else None,
        "fallbacks": models[1:],
        **{key: to_current_draft(same[key]) for key in ("input", "output", "state")},
        "name": definition.name or name,
        "description": definition.description or "",
        "instructions": parts[0].instructions,
        "tools": parts[0].tools,
        "skills": [
            ResolvedSkill(
                name=written.name,
                description=written.description,
                when=to_current_draft(written.when),
                instructions=part.instructions,
                tools=part.tools,
                activity=None if written.activity is None else binding_of(written.activity),
                rules=next(iter(_skill_rules(written, parts, world)), None),
            )
            for written, part in zip(definition.skills, parts[1:], strict=True)
        ],
        "hooks": hook_bindings(definition),
        "calls": [
            {"tool": call[TOOL], "arguments": {key: call[key] for key in call if key != TOOL}}
            for call in definition.calls
        ],
        "budget": definition.budget.over(BUDGET_DEFAULTS),
        "on_limit": {**ON_LIMIT_DEFAULTS, **definition.on_limit},
        "approval": in_current_draft(definition.approval).over(APPROVAL_DEFAULTS),
    }
    return limited_agent(ResolvedAgent.model_validate(same | settled), world.limits)


def _size_bytes(kept: Lenient) -> int:
    try:
        return len(kept.model_dump_json(by_alias=True).encode())
    except ValueError:  # half a character is JSON, and no UTF-8
        return json_size(kept.model_dump(mode="json", by_alias=True))

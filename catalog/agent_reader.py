"""Resolve agents from their written form to the one that a run stores.

Tools are resolved and defaults are filled in.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from holdfast.catalog.agent_tools import (
    ToolPart,
    add_knowledge,
    name_problems,
    part_problems,
    read_tool_parts,
)
from holdfast.catalog.registry import (
    DefinitionRegistry,
    activity_problems,
    hook_bindings,
    hook_problems,
)
from holdfast.catalog.tool_reader import approval_problems
from holdfast.runtime.settings_files.file_problems import InvalidValueError
from holdfast.schemas.agent import (
    BUDGET_DEFAULTS,
    FOR_A_MODEL,
    ON_LIMIT_DEFAULTS,
    Agent,
    AgentApproval,
    AgentDefinition,
    Skill,
    SkillDefinition,
)
from holdfast.schemas.base import Lenient, json_size
from holdfast.schemas.phrases import suggest_names
from holdfast.schemas.tool import APPROVAL_DEFAULTS, binding_of
from holdfast.validation.problems import ValueProblem, Where, name_problem, problems_of
from holdfast.validation.schema_check import schema_problems

MAX_AGENT_BYTES = 1_000_000
_NO_ENDPOINTS = (
    "this worker has none: set a key such as OPENAI_API_KEY, or name a file of them with"
    " `--endpoints`"
)


def resolve_definition(written: Any, name: str, world: DefinitionRegistry) -> Agent:
    """Resolve a written agent to the agent that a run stores.

    Args:
        written: the agent as an object.
        name: its name if the object has none.
        world: the definitions that it may refer to.

    Raises:
        InvalidValueError: the agent does not load; the error has every problem.
    """
    if not isinstance(written, dict):
        raise InvalidValueError(
            [ValueProblem((), "this is no agent", "write an object with `model` in it")]
        )
    unfit = None if "name" in written else name_problem(name, "name")
    named = {"name": name, **written} if unfit is None else written
    outside = [] if unfit is None else [unfit]
    parts = read_tool_parts(written, world)
    definition = _validated(named, parts, outside)
    add_knowledge(parts, definition, definition.name or name, world)
    faults = [*outside, *part_problems(parts), *_faults(definition, parts, world)]
    if faults:
        raise InvalidValueError(faults)
    agent = _agent(definition, name, parts)
    size_bytes = _size_bytes(agent)
    if size_bytes > MAX_AGENT_BYTES:
        fix = f"at most {MAX_AGENT_BYTES}: give it fewer or smaller tools"
        raise InvalidValueError(
            [ValueProblem((), f"the agent has {size_bytes} bytes, tools resolved", fix)]
        )
    return agent


def _size_bytes(agent: Agent) -> int:
    """Return the size of the agent in a run's log, where a tool is stored in each of its skills.

    Each tool is measured once, and an agent whose tools alone are too large is not built.
    """
    tools = [*agent.tools, *(tool for skill in agent.skills for tool in skill.tools)]
    distinct = {id(tool): tool for tool in tools}
    each = {key: _whole_bytes(tool) for key, tool in distinct.items()}
    tools_bytes = sum(each[id(tool)] for tool in tools)
    return tools_bytes if tools_bytes > MAX_AGENT_BYTES else _whole_bytes(agent)


def _whole_bytes(kept: Lenient) -> int:
    return json_size(kept.model_dump(mode="json", by_alias=True))


def _validated(
    written: dict[str, Any], parts: list[ToolPart], outside: list[ValueProblem]
) -> AgentDefinition:
    try:
        return AgentDefinition.model_validate(written, by_alias=True, by_name=False, strict=True)
    except ValidationError as error:
        found = problems_of(error, written, AgentDefinition)
        # The tools in `lost` have their own problems, which are more precise than pydantic's.
        lost = [place for part in parts for place in part.lost]
        new = [fault for fault in found if not _is_within(fault.where, lost)]
        raise InvalidValueError([*outside, *part_problems(parts), *new]) from None


def _is_within(where: Where, places: list[Where]) -> bool:
    return any(where[: len(place)] == place for place in places)


def _faults(
    definition: AgentDefinition, parts: list[ToolPart], world: DefinitionRegistry
) -> Iterator[ValueProblem]:
    endpoint = definition.model.endpoint
    if world.endpoints is not None and endpoint not in world.endpoints:
        fix = suggest_names(endpoint, world.endpoints, _NO_ENDPOINTS)
        yield ValueProblem(("model", "endpoint"), f"there is no endpoint `{endpoint}`", fix)
    for key in ("input", "output", "state"):
        schema = getattr(definition, key)
        if schema is not None:
            yield from (fault.under(key) for fault in schema_problems(schema))
    yield from (fault.under("approval") for fault in approval_problems(definition.approval))
    yield from hook_problems(definition, world)
    yield from _skill_faults(definition, world)
    yield from name_problems(definition, parts)


def _skill_faults(definition: AgentDefinition, world: DefinitionRegistry) -> Iterator[ValueProblem]:
    seen: set[str] = set()
    for n, skill in enumerate(definition.skills):
        if skill.name in seen:
            reason = f"it has the skill `{skill.name}` twice"
            yield ValueProblem(("skills", n, "name"), reason, "give one of them another name")
        seen.add(skill.name)
        yield from (fault.under("skills", n) for fault in _work_faults(skill, world))


def _work_faults(skill: SkillDefinition, world: DefinitionRegistry) -> Iterator[ValueProblem]:
    if skill.activity is None:
        return
    yield from (fault.under("activity") for fault in activity_problems(skill.activity, world))
    for key in FOR_A_MODEL:
        if key in skill.model_fields_set:
            reason = "an activity does the work of this skill, without a model"
            yield ValueProblem((key,), reason, "leave it out, or leave out `activity`")


def _agent(definition: AgentDefinition, name: str, parts: list[ToolPart]) -> Agent:
    own, *skills = parts
    return Agent(
        name=definition.name or name,
        description=definition.description or "",
        instructions=definition.instructions,
        model=definition.model,
        calling=definition.calling,
        tools=own.tools,
        skills=[
            _skill(written, part) for written, part in zip(definition.skills, skills, strict=True)
        ],
        hooks=hook_bindings(definition),
        plan=definition.plan,
        input=definition.input,
        output=definition.output,
        state=definition.state,
        tool_choice=definition.tool_choice,
        budget=definition.budget.over(BUDGET_DEFAULTS),
        on_limit=dict((ON_LIMIT_DEFAULTS | definition.on_limit).items()),
        concurrency=definition.concurrency,
        approval=_approval(definition),
        principal_scopes=definition.principal_scopes,
        reasoning_for_call=definition.reasoning_for_call,
    )


def _skill(written: SkillDefinition, part: ToolPart) -> Skill:
    return Skill(
        name=written.name,
        description=written.description,
        instructions=written.instructions,
        tools=part.tools,
        activity=None if written.activity is None else binding_of(written.activity),
    )


def _approval(definition: AgentDefinition) -> AgentApproval:
    own = {name: value for name, value in definition.approval if value is not None}
    return AgentApproval.model_validate({**dict(APPROVAL_DEFAULTS), **own})

"""Resolve tools from the JSON Schema that a person writes to the tool that a run stores.

A tool is first normalized, then read, then checked for the definitions that it refers to.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from holdfast.catalog.normalize import NormalizedTool, normalize_tool
from holdfast.catalog.registry import (
    DefinitionRegistry,
    activity_problems,
    hook_bindings,
    hook_problems,
)
from holdfast.runtime.settings_files.file_problems import InvalidValueError
from holdfast.schemas import names
from holdfast.schemas.phrases import suggest_names
from holdfast.schemas.reference import parse_output_path
from holdfast.schemas.tool import (
    ANONYMOUS,
    ActivityBinding,
    ActivityRef,
    ApprovalPolicy,
    CallLimits,
    Tool,
    ToolDefinition,
    binding_of,
)
from holdfast.validation.problems import ValueProblem, name_problem, problems_of
from holdfast.validation.schema_check import schema_problems

# Keywords that are not in the schema of the parameters: the description is offered beside it.
_NOT_PARAMETERS = ("$schema", "$id", "description")


def resolve_tool(written: Any, name: str | None, world: DefinitionRegistry) -> Tool:
    """Resolve a written tool to the tool that a run stores.

    Args:
        written: the JSON Schema with its meta-properties.
        name: the tool's name if the schema has none (`_tool`).
        world: the definitions that it may refer to.

    Raises:
        InvalidValueError: the tool does not load; the error has every problem.
    """
    folded = normalize_tool(written)
    if name is not None and "_tool" not in folded.fixed:
        unfit = name_problem(name, "_tool")
        folded.faults.extend([] if unfit is None else [unfit])
        folded.fixed["_tool"] = name if unfit is None else "unnamed"
    folded.faults.extend(map(folded.at_source, _two_carriers(folded.fixed)))
    definition = _validated(folded)
    folded.faults.extend(folded.at_source(fault) for fault in _faults(definition, folded, world))
    if folded.faults:
        raise InvalidValueError(folded.faults)
    return _tool(definition, folded, world)


def resolve_tool_entry(entry: Any, world: DefinitionRegistry) -> Tool:
    """Return a tool of the catalog by its name, or one that is written out.

    Raises:
        InvalidValueError: there is no such tool, or it does not load.
    """
    if not isinstance(entry, str | dict):
        fix = "write the name of a tool, or a JSON Schema object"
        raise InvalidValueError([ValueProblem((), "this is no tool", fix)])
    if not isinstance(entry, str):
        return resolve_tool(entry, None, world)
    if entry not in world.tools:
        fault = ValueProblem((), f"there is no tool `{entry}`", _instead(entry, world))
        raise InvalidValueError(
            [] if entry in world.broken_tools or world.is_incomplete else [fault]
        )
    return world.tools[entry]


def _instead(name: str, world: DefinitionRegistry) -> str:
    bound = {tool.activity.type for tool in world.tools.values() if tool.activity is not None}
    if name in world.activities and name not in bound:
        return "the activity takes no pydantic model: give it one, or a file in `tools/`"
    return suggest_names(name, world.tools, "the catalog has no tools")


def _validated(folded: NormalizedTool) -> ToolDefinition:
    whole = {**folded.schema, **folded.fixed}
    try:
        return ToolDefinition.model_validate(whole, by_alias=True, by_name=False, strict=True)
    except ValidationError as error:
        found = problems_of(error, whole, ToolDefinition)
        raise InvalidValueError([*folded.faults, *map(folded.at_source, found)]) from None


def _faults(
    definition: ToolDefinition, folded: NormalizedTool, world: DefinitionRegistry
) -> Iterator[ValueProblem]:
    if definition.tool is None:
        yield ValueProblem((), "the tool has no name", 'give it one: "_tool": "…"')
    else:
        yield from reserved_name_problems(definition.tool)
    yield from schema_problems(folded.schema)
    if definition.output is not None:
        yield from (fault.under("_output") for fault in schema_problems(definition.output))
    if definition.approval is not None:
        yield from (fault.under("_approval") for fault in approval_problems(definition.approval))
    if definition.output_path is not None:
        yield from _path_faults(definition.output_path)
    yield from _carrier_faults(definition, world)
    yield from hook_problems(definition, world)


def reserved_name_problems(name: str) -> Iterator[ValueProblem]:
    """Yield a problem if a tool has the name of one of the engine's own."""
    if name == names.CHOOSE_SKILL:
        yield ValueProblem((), f"the tool name `{name}` is the engine's own", "give it another")


def approval_problems(policy: ApprovalPolicy) -> Iterator[ValueProblem]:
    """Yield the problems of the schema that decides when an approval is needed."""
    if policy.when is not None:
        yield from (fault.under("when") for fault in schema_problems(policy.when))


def _path_faults(path: str) -> Iterator[ValueProblem]:
    try:
        parse_output_path(path)
    except ValueError as error:
        reason, _, fix = str(error).partition("; ")
        yield ValueProblem(("_outputPath",), reason, fix)


def _carrier_faults(
    definition: ToolDefinition, world: DefinitionRegistry
) -> Iterator[ValueProblem]:
    """Yield the problems of the activity, the agent, or the model that runs the tool."""
    if definition.activity is not None:
        yield from _activity_faults(definition, definition.activity, world)
    if definition.delegate is not None:
        yield from _delegate_faults(definition.delegate, world)
    elif definition.tool is not None and _activity(definition, world) is None:
        yield from _latent_faults(definition, definition.tool, world)


def _activity_faults(
    definition: ToolDefinition, written: ActivityRef, world: DefinitionRegistry
) -> Iterator[ValueProblem]:
    yield from (fault.under("_activity") for fault in activity_problems(written, world))
    if binding_of(written).local and definition.side_effects and not definition.idempotent:
        fix = "leave out `local`, or say `_idempotent: true` if it is so"
        yield ValueProblem(("_activity", "local"), "a local activity may run twice", fix)


def _two_carriers(fixed: Mapping[str, Any]) -> Iterator[ValueProblem]:
    """Yield a problem if the tool names two executors, even if one of them does not load."""
    if fixed.get("_delegate") is not None and fixed.get("_activity") is not None:
        reason = "`_delegate` and `_activity` each name what runs the tool"
        yield ValueProblem(("_delegate",), reason, "keep one of them")


def _delegate_faults(agent: str, world: DefinitionRegistry) -> Iterator[ValueProblem]:
    if world.agents is not None and agent not in (ANONYMOUS, *world.agents):
        fix = suggest_names(agent, (ANONYMOUS, *world.agents))
        yield ValueProblem(("_delegate",), f"there is no agent `{agent}`", fix)


def _latent_faults(
    definition: ToolDefinition, name: str, world: DefinitionRegistry
) -> Iterator[ValueProblem]:
    near = suggest_names(name, world.activities, "`--tools` gives it some")
    if definition.output is None:
        reason = f"this worker has no activity `{name}` to run the tool"
        ways = f"name one with `_activity` ({near}), an agent with `_delegate`"
        fix = f"{ways}, or have the model itself answer by `_output`"
        yield ValueProblem((), reason, fix)
    elif definition.side_effects:
        reason = f"the model itself answers `{name}`, which has no effect on the world"
        fix = f"name what has one with `_activity` ({near}), or leave `_sideEffects` out"
        yield ValueProblem(("_sideEffects",), reason, fix)


def _activity(definition: ToolDefinition, world: DefinitionRegistry) -> ActivityBinding | None:
    """Return the activity that runs the tool: the one it names, or the one with its own name."""
    if definition.delegate is not None:
        return None
    if definition.activity is not None:
        return binding_of(definition.activity)
    # If activities are missing, the tool's own may be among them.
    is_there = definition.tool in world.activities or world.is_incomplete
    return ActivityBinding(type=definition.tool or "?") if is_there else None


def _parameters(folded: NormalizedTool) -> dict[str, Any]:
    kept = {key: value for key, value in folded.schema.items() if key not in _NOT_PARAMETERS}
    return {"type": "object", "properties": {}, **kept}


def _tool(definition: ToolDefinition, folded: NormalizedTool, world: DefinitionRegistry) -> Tool:
    idempotent = definition.idempotent
    return Tool(
        name=definition.tool or "",
        label=definition.label or definition.title,
        description=definition.description or "",
        parameters=_parameters(folded),
        chosen=folded.chosen,
        output=definition.output,
        output_path=definition.output_path,
        output_method=definition.output_method or "set",
        scopes=definition.scopes or [],
        instance=definition.instance,
        delegate=definition.delegate,
        activity=_activity(definition, world),
        hooks=hook_bindings(definition),
        side_effects=definition.side_effects,
        idempotent=not definition.side_effects if idempotent is None else idempotent,
        approval=definition.approval or ApprovalPolicy(),
        requires=definition.requires,
        sequential=definition.sequential,
        limits=definition.limits or CallLimits(),
        untrusted=definition.untrusted,
        show=definition.show,
    )

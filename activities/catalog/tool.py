"""Tools: from the JSON Schema that a person writes to the tool that a run keeps.

A tool is first folded into one form (`fold`), then read, then checked for what it needs.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from activities.catalog.faults import RefusedError
from activities.catalog.fold import Folded, fold
from activities.catalog.schema import schema_faults
from schemas import names
from schemas.faults import Fault, Where, faults_of, name_fault, nearest
from schemas.reference import parse_output_path
from schemas.tool import (
    ActivityBinding,
    ApprovalPolicy,
    CallLimits,
    Tool,
    ToolDefinition,
)

# Keywords that are no part of the parameters' schema: the description is offered beside it.
_NOT_PARAMETERS = ("$schema", "$id", "description")


@dataclass(frozen=True)
class World:
    """What tools and agents may name: what this worker has.

    While a catalog loads, `broken` are the tools that did not, and `guessing` says that activities
    and tools are missing because a module could not be read: neither is a fault of those who name
    them.
    Where the endpoints could not be read, they are None.
    """

    task_queue: str
    activities: Collection[str] = ()
    endpoints: Collection[str] | None = ()
    tools: Mapping[str, Tool] = field(default_factory=dict)
    broken: Collection[str] = ()
    guessing: bool = False


def resolve_tool(written: Any, name: str | None, world: World) -> Tool:
    """Make the tool that a run keeps of a tool as it is written.

    Args:
        written: the JSON Schema with its meta-properties.
        name: the tool's name where it does not say one (`_tool`).

    Raises:
        RefusedError: it does not load, with every fault that was found.
    """
    folded = fold(written)
    if name is not None and "_tool" not in folded.fixed:
        unfit = name_fault(name, "_tool")
        folded.faults.extend([] if unfit is None else [unfit])
        folded.fixed["_tool"] = name if unfit is None else "unnamed"
    definition = _validated(folded)
    folded.faults.extend(folded.told(fault) for fault in _faults(definition, folded, world))
    if folded.faults:
        raise RefusedError(folded.faults)
    return _tool(definition, folded)


def _validated(folded: Folded) -> ToolDefinition:
    whole = {**folded.schema, **folded.fixed}
    try:
        return ToolDefinition.model_validate(whole, by_alias=True, by_name=False, strict=True)
    except ValidationError as error:
        found = faults_of(error, whole, ToolDefinition)
        raise RefusedError([*folded.faults, *map(folded.told, found)]) from None


def _faults(definition: ToolDefinition, folded: Folded, world: World) -> Iterator[Fault]:
    if definition.tool is None:
        yield Fault((), "the tool has no name", 'give it one: "_tool": "…"')
    yield from schema_faults(folded.schema)
    if definition.output is not None:
        yield from (fault.under("_output") for fault in schema_faults(definition.output))
    if definition.approval is not None:
        yield from (fault.under("_approval") for fault in approval_faults(definition.approval))
    if definition.output_path is not None:
        yield from _path_faults(definition.output_path)
    if definition.tool is not None or definition.activity is not None:
        yield from _activity_faults(definition, world)


def approval_faults(policy: ApprovalPolicy) -> Iterator[Fault]:
    """What is wrong with the schema that says when an approval is asked for."""
    if policy.when is not None:
        yield from (fault.under("when") for fault in schema_faults(policy.when))


def _path_faults(path: str) -> Iterator[Fault]:
    try:
        parse_output_path(path)
    except ValueError as error:
        reason, _, mend = str(error).partition("; ")
        yield Fault(("_outputPath",), reason, mend)


def _activity_faults(definition: ToolDefinition, world: World) -> Iterator[Fault]:
    binding = _binding(definition)
    where: Where = () if definition.activity is None else ("_activity",)
    if isinstance(definition.activity, ActivityBinding):
        where = ("_activity", "type")
    if binding.task_queue in (None, world.task_queue):
        yield from _presence_faults(binding.type, definition, where, world)
    if not binding.local:
        return
    if binding.task_queue is not None:
        mend = "leave out `taskQueue`, or `local`"
        yield Fault(("_activity", "local"), "a local activity runs on the run's own worker", mend)
    if definition.side_effects and not definition.idempotent:
        mend = "leave out `local`, or say `_idempotent: true` if it is so"
        yield Fault(("_activity", "local"), "a local activity may be carried out twice", mend)


def _presence_faults(
    activity: str, definition: ToolDefinition, where: Where, world: World
) -> Iterator[Fault]:
    if activity in names.RESERVED_ACTIVITIES:
        yield Fault(where, f"the activity name `{activity}` is the worker's own", "name another")
    elif activity in world.activities or world.guessing:
        return
    elif definition.activity is None:
        near = nearest(activity, world.activities, "`--tools` gives it some")
        reason = f"this worker has no activity `{activity}`, which would carry out the tool"
        yield Fault(where, reason, f"name one with `_activity` ({near})")
    else:
        near = nearest(activity, world.activities, "`--tools` gives it some")
        mend = f"{near} (an activity of another worker needs its `taskQueue`)"
        yield Fault(where, f"this worker has no activity `{activity}`", mend)


def _binding(definition: ToolDefinition) -> ActivityBinding:
    match definition.activity:
        case None:
            return ActivityBinding(type=definition.tool or "?")
        case str(name):
            return ActivityBinding(type=name)
        case binding:
            return binding


def _parameters(folded: Folded) -> dict[str, Any]:
    kept = {key: value for key, value in folded.schema.items() if key not in _NOT_PARAMETERS}
    return {"type": "object", "properties": {}, **kept}


def _tool(definition: ToolDefinition, folded: Folded) -> Tool:
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
        activity=_binding(definition),
        side_effects=definition.side_effects,
        idempotent=not definition.side_effects if idempotent is None else idempotent,
        approval=definition.approval or ApprovalPolicy(),
        requires=definition.requires,
        sequential=definition.sequential,
        limits=definition.limits or CallLimits(),
        untrusted=definition.untrusted,
        show=definition.show,
    )

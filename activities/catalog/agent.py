"""Agents: from what a person writes to what a run keeps: tools resolved, defaults filled in."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from activities.catalog.faults import RefusedError
from activities.catalog.schema import schema_faults
from activities.catalog.tool import World, approval_faults, resolve_tool
from schemas.agent import (
    BUDGET_DEFAULTS,
    ON_LIMIT_DEFAULTS,
    Agent,
    AgentApproval,
    AgentDefinition,
    Forced,
)
from schemas.base import json_size
from schemas.faults import Fault, faults_of, name_fault, nearest
from schemas.tool import APPROVAL_DEFAULTS, Tool

MAX_AGENT_BYTES = 1_000_000


def resolve_definition(written: Any, name: str, world: World) -> Agent:
    """Make the agent that a run keeps of an agent as it is written.

    Args:
        written: the agent as an object.
        name: its name where it does not say one.

    Raises:
        RefusedError: it does not load, with every fault that was found.
    """
    if not isinstance(written, dict):
        raise RefusedError([Fault((), "this is no agent", "write an object with `model` in it")])
    tools, faults = _tools(written.get("tools"), world)
    unfit = None if "name" in written else name_fault(name, "name")
    if unfit is None:
        written = {"name": name, **written}
    else:
        faults.append(unfit)
    definition = _validated(written, faults)
    faults.extend(_faults(definition, tools, world))
    if faults:
        raise RefusedError(faults)
    agent = _agent(definition, name, tools)
    size_bytes = json_size(agent.to_json())
    if size_bytes > MAX_AGENT_BYTES:
        mend = f"at most {MAX_AGENT_BYTES}: give it fewer or smaller tools"
        raise RefusedError([Fault((), f"the agent has {size_bytes} bytes, tools resolved", mend)])
    return agent


def _tools(written: Any, world: World) -> tuple[list[Tool], list[Fault]]:
    tools: list[Tool] = []
    faults: list[Fault] = []
    for n, entry in enumerate(written if isinstance(written, list) else []):
        try:
            tool = tool_of(entry, world)
        except RefusedError as refused:
            faults.extend(fault.under("tools", n) for fault in refused.faults)
            continue
        if any(tool.name == other.name for other in tools):
            faults.append(Fault(("tools", n), f"it has `{tool.name}` twice", "keep one of them"))
        tools.append(tool)
    return tools, faults


def tool_of(entry: Any, world: World) -> Tool:
    """The tool that is meant: one of the catalog, by its name, or one that is written out.

    Raises:
        RefusedError: there is no such tool, or it does not load.
    """
    if not isinstance(entry, str | dict):
        mend = "write the name of a tool, or a JSON Schema object"
        raise RefusedError([Fault((), "this is no tool", mend)])
    if not isinstance(entry, str):
        return resolve_tool(entry, None, world)
    if entry not in world.tools:
        fault = Fault((), f"there is no tool `{entry}`", _instead(entry, world))
        raise RefusedError([] if entry in world.broken or world.guessing else [fault])
    return world.tools[entry]


def _instead(name: str, world: World) -> str:
    """What to do about a tool that is not there."""
    carried_out = {tool.activity.type for tool in world.tools.values()}
    if name in world.activities and name not in carried_out:
        return "the activity takes no pydantic model: give it one, or a file in `tools/`"
    return nearest(name, world.tools, "the catalog has no tools")


def _validated(written: dict[str, Any], faults: list[Fault]) -> AgentDefinition:
    try:
        return AgentDefinition.model_validate(written, by_alias=True, by_name=False, strict=True)
    except ValidationError as error:
        places = [fault.where[:2] for fault in faults]
        found = faults_of(error, written, AgentDefinition)
        # Of a tool, what was found before says more than the model that it was read as.
        new = [fault for fault in found if fault.where[:2] not in places]
        raise RefusedError([*faults, *new]) from None


def _faults(definition: AgentDefinition, tools: list[Tool], world: World) -> Iterator[Fault]:
    endpoint = definition.model.endpoint
    if world.endpoints is not None and endpoint not in world.endpoints:
        mend = nearest(endpoint, world.endpoints, "this worker has none: see `--endpoints`")
        yield Fault(("model", "endpoint"), f"there is no endpoint `{endpoint}`", mend)
    for key in ("input", "output", "state"):
        schema = getattr(definition, key)
        if schema is not None:
            yield from (fault.under(key) for fault in schema_faults(schema))
    yield from (fault.under("approval") for fault in approval_faults(definition.approval))
    yield from _tool_name_faults(definition, tools)


def _tool_name_faults(definition: AgentDefinition, tools: list[Tool]) -> Iterator[Fault]:
    known = [tool.name for tool in tools]
    choice = definition.tool_choice
    if (
        isinstance(choice, Forced)
        and choice.name not in known
        and len(tools) == len(definition.tools)
    ):
        mend = nearest(choice.name, known, "the agent has no tools")
        yield Fault(("toolChoice", "name"), f"the agent has no tool `{choice.name}`", mend)
    for n, tool in enumerate(tools):
        for other in tool.limits.after:
            if other not in known and len(tools) == len(definition.tools):
                reason = f"`{tool.name}` is only carried out after `{other}`, which the agent lacks"
                yield Fault(("tools", n), reason, nearest(other, known))


def _agent(definition: AgentDefinition, name: str, tools: list[Tool]) -> Agent:
    return Agent(
        name=definition.name or name,
        description=definition.description or "",
        instructions=definition.instructions,
        model=definition.model,
        tools=tools,
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


def _approval(definition: AgentDefinition) -> AgentApproval:
    own = {name: value for name, value in definition.approval if value is not None}
    return AgentApproval.model_validate({**dict(APPROVAL_DEFAULTS), **own})

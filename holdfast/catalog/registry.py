"""The definitions that tools and agents may refer to, and the problems of such references."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic.alias_generators import to_camel

from holdfast.runtime.addresses import AddressPrefix
from holdfast.runtime.narration.schema_shapes import ShapeReader
from holdfast.schemas import names
from holdfast.schemas.agent import AgentDefinition
from holdfast.schemas.phrases import first_names, quote_value, suggest_names
from holdfast.schemas.reference import argument_path
from holdfast.schemas.run import CallContext
from holdfast.schemas.settings.budgets import SharedBudget
from holdfast.schemas.settings.endpoints import Endpoint
from holdfast.schemas.settings.limits import NO_LIMITS, Limits
from holdfast.schemas.settings.servers import McpLocked, Server
from holdfast.schemas.tool import (
    NOT_FOR_HOOKS,
    ActivityBinding,
    ActivityRef,
    AgentHooks,
    Hooks,
    RepairAgent,
    ResolvedTool,
    Schema,
    ToolDefinition,
    binding_of,
)
from holdfast.validation.content_cache import ContentCache
from holdfast.validation.problems import ValueProblem, Where, under


class ActivitySignature(NamedTuple):
    """The parameters of a Python activity: a call passes `fewest` to `most` of them, in order.

    In `parameters`, the one that receives the context of the call has the context's key as name.
    """

    parameters: tuple[str, ...]
    fewest: int
    most: int

    def binding(self, name: str, known: Sequence[str] = ()) -> str:
        """Return how a tool with these parameters binds the activity of this name."""
        own, context = self.parameters, CallContext.key
        is_named = {*own} <= {*known, context}
        if self.fewest <= 1 <= self.most:
            return f"_activity: {name}"
        if own[2:] == (context,) and not is_named:
            return f"_activity: {{type: {name}, input: call}}"
        own = own if is_named else own[: self.fewest]
        places = known if len(known) == len(own) and not is_named else own
        return f"_activity: {{type: {name}, input: [{', '.join(places)}]}}"


@dataclass(frozen=True)
class DefinitionRegistry:
    """The definitions that tools and agents may refer to.

    While a catalog loads, `broken_tools` are those that do not load, and `is_incomplete` is true if
    a module could not be imported, so that its activities and tools are missing: a reference to
    either is not reported as another error. `endpoints` and `agents` are None if they could not be
    read. `signatures` are those of the activities of Python.

    `folder` is the catalog's, with its `limits`; `budgets` are those of Python, and `served` the
    endpoints, as far as their settings are known; `knowledge_urls` are the addresses that the
    worker may fetch from, `servers` its MCP servers, whose tools `mcp_lock` restricts, if there is
    one; `principal_tokens`: it requires them. `is_inline` is true if the referring definition comes
    with a run's request. `resolved` keeps the tools of runs, which come with requests or from MCP
    servers, and repeat from run to
    run; a registry of other definitions needs another.
    """

    task_queue: str
    activities: Collection[str] = ()
    signatures: Mapping[str, ActivitySignature] = field(default_factory=dict)
    endpoints: Collection[str] | None = ()
    agents: Collection[str] | None = ()
    tools: Mapping[str, ResolvedTool] = field(default_factory=dict)
    broken_tools: Collection[str] = ()
    is_incomplete: bool = False
    folder: Path | None = None
    knowledge_urls: Collection[AddressPrefix] = ()
    servers: Mapping[str, Server] = field(default_factory=dict)
    mcp_lock: McpLocked | None = None
    is_inline: bool = False
    limits: Limits = NO_LIMITS
    budgets: Sequence[SharedBudget] = ()
    served: Mapping[str, Endpoint] = field(default_factory=dict, repr=False)
    principal_tokens: bool = False
    resolved: ContentCache = field(default_factory=ContentCache, compare=False, repr=False)


def activity_problems(
    written: ActivityRef, world: DefinitionRegistry, parameters: Schema, *, is_once: bool
) -> Iterator[ValueProblem]:
    """Yield the reasons why an activity cannot run calls, each at most once, or a skill's work.

    `parameters` is the schema of their arguments.
    """
    yield from _presence_faults(written, world)
    yield from input_problems(binding_of(written), world, parameters)
    binding = binding_of(written)
    if binding.local and binding.task_queue is not None:
        fix = "leave out `taskQueue`, or `local`"
        yield ValueProblem(("local",), "a local activity runs on the run's own worker", fix)
    if binding.local and is_once:
        fix = "leave out `local`, or write `_idempotent: true` if the activity is idempotent"
        yield ValueProblem(("local",), "a local activity may run twice", fix)


def input_problems(
    binding: ActivityBinding, world: DefinitionRegistry, parameters: Schema
) -> Iterator[ValueProblem]:
    """Yield the places that an `input` names in vain; without any, why its activity refuses it."""
    reader, written, faults = ShapeReader(parameters), binding.input, list[ValueProblem]()
    listed = written if isinstance(written, list) else []
    for key, text in written.items() if isinstance(written, dict) else enumerate(listed):
        if text == CallContext.key and listed:
            continue
        if (path := argument_path(text)) is None:
            reason = f"{quote_value(text)} is no place in the arguments"
            faults.append(ValueProblem(("input", key), reason, "write it like `customer.id`"))
        elif (known := _known_instead(path.steps, reader)) is not None:
            reason, fix = f"`{text}` names no parameter", suggest_names(text, known)
            faults.append(ValueProblem(("input", key), reason, fix))
    yield from faults
    signature = world.signatures.get(binding.type)
    if not faults and signature and binding.task_queue in (None, world.task_queue):
        yield from _signature_problems(binding, signature, reader.read(parameters).properties)


def _known_instead(steps: Iterable[str | int], reader: ShapeReader) -> list[str] | None:
    """Return the names in place of the first step that a schema lacks, or None if it has all."""
    schema, before = reader.root, ""
    for step in steps:
        shape, is_index = reader.read(schema), isinstance(step, int)
        if shape.branches or "patternProperties" in shape.rules:
            return None
        is_open = shape.takes_properties if before else shape.rules.get("additionalProperties")
        is_known = is_index or step in shape.properties or is_open
        if not is_known or (shape.kinds and ("array" if is_index else "object") not in shape.kinds):
            return [f"{before}{name}" for name in shape.properties]
        schema = shape.item_schema(step) if isinstance(step, int) else shape.property_schema(step)
        before = f"{before.removesuffix('.')}[{step}]." if is_index else f"{before}{step}."
    return None


def _signature_problems(
    binding: ActivityBinding, signature: ActivitySignature, known: list[str]
) -> Iterator[ValueProblem]:
    """Yield why a Python activity does not take what a tool with these parameters passes."""
    own, written = signature.parameters, binding.input
    count = len(written) if isinstance(written, list) else 3 if written == "call" else 1
    wrong = []
    if not signature.fewest <= count <= signature.most:
        wrong = ["one value" if count == 1 else f"{count} values"]
    elif isinstance(written, list):
        wrong = [
            f"`{path}` as `{name}`"
            for name, path in zip(own, written, strict=False)
            if path != name and (path in own or name == CallContext.key)
        ]
    for what in wrong[:1]:
        takes = ", ".join(f"`{name}`" for name in own) or "no parameters"
        where: Where = ("input",) if "input" in binding.model_fields_set else ()
        reason = f"`{binding.type}` takes {takes}, and is passed {what}"
        yield ValueProblem(where, reason, f"write `{signature.binding(binding.type, known)}`")


class ToolsByActivity:
    """Tools, each once, by the activity that runs them."""

    def __init__(self, tools: Iterable[ResolvedTool], world: DefinitionRegistry) -> None:
        self._task_queue = world.task_queue
        self._tools: defaultdict[tuple[str, str], list[ResolvedTool]] = defaultdict(list)
        for tool in {id(tool): tool for tool in tools}.values():
            if tool.activity is not None:
                self._tools[self._key(tool.activity)].append(tool)

    def of(self, activity: ActivityBinding) -> list[ResolvedTool]:
        """List the tools that an activity runs."""
        return self._tools.get(self._key(activity), [])

    def _key(self, activity: ActivityBinding) -> tuple[str, str]:
        return activity.type, activity.task_queue or self._task_queue


def unstated_effects(
    written: dict[str, Any], tool: ResolvedTool, tools: ToolsByActivity
) -> Iterator[ValueProblem]:
    """Yield a problem if a tool runs another one's side effects without a statement of its own."""
    yield from hook_effects(tool.hooks, tools)
    if tool.activity is None or "_sideEffects" in {**written, **written.get("properties", {})}:
        return
    for fault in effect_problems(tools.of(tool.activity), f"`{tool.name}`"):
        fix = "write its own `_sideEffects`: true, or false if this use has none"
        yield replace(fault, where=("_activity",), fix=fix)


def hook_effects(hooks: Hooks, tools: ToolsByActivity) -> Iterator[ValueProblem]:
    """Yield the hooks that run a tool's side effects: no approval is requested for a hook."""
    for name, binding in hooks:
        if isinstance(binding, ActivityBinding):
            yield from under(effect_problems(tools.of(binding), "this hook"), _key(name))


def effect_problems(same: Iterable[ResolvedTool], what: str = "this") -> Iterator[ValueProblem]:
    """Yield a problem if tools of an activity that may have no side effects have some."""
    if others := dict.fromkeys(f"`{other.name}`" for other in same if other.side_effects):
        has = "has" if len(others) == 1 else "have"
        reason = f"{what} runs the activity of {first_names(others, 3)}, which {has} side effects"
        yield ValueProblem((), reason, "name an activity without any")


def hook_problems(
    definition: ToolDefinition | AgentDefinition, world: DefinitionRegistry
) -> Iterator[ValueProblem]:
    """Yield the reasons why hooks cannot run."""
    for name, written in _hooks(definition):
        if isinstance(written, RepairAgent):
            faults = agent_problems(written.agent, world, "agent")
        else:
            faults = _presence_faults(written, world)
        yield from under(faults, _key(name))
        set_fields = written.model_fields_set if isinstance(written, ActivityBinding) else ()
        for key in NOT_FOR_HOOKS:
            if key in set_fields:
                where = (_key(name), key)
                yield ValueProblem(where, "this option is not for hooks", "leave it out")


def agent_problems(
    name: str, world: DefinitionRegistry, key: str, others: Collection[str] = ()
) -> Iterator[ValueProblem]:
    """Yield a problem if the agent that a field names is none of the catalog, or of the others."""
    if world.agents is not None and name not in (known := {*world.agents, *others}):
        fix = suggest_names(name, known, "the catalog has no agents")
        yield ValueProblem((key,), f"there is no agent `{name}`", fix)


def _key(hook: str) -> str:
    return f"_{to_camel(hook)}"


def hook_bindings(definition: ToolDefinition | AgentDefinition) -> Hooks:
    """Return the hooks with their options."""
    bindings: dict[str, Any] = {
        name: written if isinstance(written, RepairAgent) else binding_of(written)
        for name, written in _hooks(definition)
    }
    return (AgentHooks if isinstance(definition, AgentDefinition) else Hooks)(**bindings)


def _hooks(
    definition: ToolDefinition | AgentDefinition,
) -> Iterator[tuple[str, ActivityRef | RepairAgent]]:
    for name in AgentHooks.model_fields:
        written = getattr(definition, name, None)
        if written is not None:
            yield name, written


def _presence_faults(written: ActivityRef, world: DefinitionRegistry) -> Iterator[ValueProblem]:
    binding = binding_of(written)
    where: Where = ("type",) if isinstance(written, ActivityBinding) else ()
    if binding.task_queue not in (None, world.task_queue):
        return
    if binding.type in names.RESERVED_ACTIVITIES:
        reason = f"the activity name `{binding.type}` is the worker's own"
        yield ValueProblem(where, reason, "name another")
    elif binding.type not in world.activities and not world.is_incomplete:
        near = suggest_names(binding.type, world.activities, "`--tools` gives it some")
        fix = f"{near} (an activity of another worker needs its `taskQueue`)"
        yield ValueProblem(where, f"this worker has no activity `{binding.type}`", fix)

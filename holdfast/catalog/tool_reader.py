"""Resolve tools from the JSON Schema that a person writes to the tool that a run stores.

A tool is first normalized: every meta-property moves to the top, as a value. It is written there as
a value, or under `properties` as a schema: a `const` fixes a value, and some can be left to the
model. Then the tool is read, then checked for the definitions that it refers to. A problem names
the place where its value is written.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from pydantic import ValidationError

from holdfast.catalog import registry
from holdfast.catalog.policies.limits import limited_tool
from holdfast.catalog.policies.rules import described_rule, rule_problems
from holdfast.runtime.narration.arguments import effect_names
from holdfast.runtime.narration.schema_shapes import ShapeReader
from holdfast.runtime.settings_files.file_problems import InvalidValueError
from holdfast.schemas import names
from holdfast.schemas.base import format_duration
from holdfast.schemas.phrases import closest_names, suggest_names
from holdfast.schemas.reference import parse_output_path
from holdfast.schemas.tool import (
    ANONYMOUS,
    APPROVAL_DEFAULTS,
    CHOSEN_BY_MODEL,
    META_PROPERTIES,
    REASONING,
    ActivityBinding,
    ApprovalPolicy,
    ResolvedTool,
    ToolDefinition,
    binding_of,
)
from holdfast.validation.content_cache import content_of
from holdfast.validation.problems import ValueProblem, Where, name_problem, problems_of, under
from holdfast.validation.schema_check import schema_problems
from holdfast.validation.schema_drafts import to_current_draft
from holdfast.validation.schema_keywords import tool_keyword_problems

PolicyT = TypeVar("PolicyT", bound=ApprovalPolicy)

OUR_SCHEMAS = ("tool.schema.json", "urn:holdfast:tool")
# Keywords that are not in the schema of the parameters: the description is offered beside it.
_NOT_PARAMETERS = ("$schema", "$id", "description")
# Keywords of the tool itself, beside a schema of its arguments.
_BESIDE_PARAMETERS = ("$schema", "$comment", "title", "description")
# What applies to calls that run, and not to those that a person answers.
_OF_APPROVALS = ("require", "when", "quorum")
_RUNNERS = ("_person", "_delegate", "_activity")
_UNDER_PARAMETERS = "write the schema of the arguments under `_parameters`, with this name"


def resolve_tool(
    written: Any, name: str | None, world: registry.DefinitionRegistry
) -> ResolvedTool:
    """Resolve a written tool to the tool that a run stores, by this name if it has no `_tool`.

    Raises:
        InvalidValueError: the tool does not load; the error has every problem.
    """
    if not isinstance(written, dict):
        raise InvalidValueError.of("this is no tool", "write a JSON Schema object")
    normalized = _NormalizedTool(written)
    fixed, faults = normalized.fixed, normalized.faults
    if name is not None and "_tool" not in fixed:
        unfit = name_problem(name, "_tool")
        faults.extend([] if unfit is None else [unfit])
        fixed["_tool"] = name if unfit is None else "unnamed"
    # Reported even if one of the two does not load.
    runners = [key for key in _RUNNERS if fixed.get(key) not in (None, False)]
    if len(runners) > 1:
        reason = f"`{'` and `'.join(runners)}` each name what runs the tool"
        normalized.add([ValueProblem((runners[0],), reason, "keep one of them")])
    whole = {**normalized.schema, **fixed}
    try:
        definition = ToolDefinition.model_validate(whole, by_alias=True, by_name=False, strict=True)
    except ValidationError as error:
        normalized.add(problems_of(error, whole, ToolDefinition))
        raise InvalidValueError(faults) from None
    activity = None if definition.activity is None else binding_of(definition.activity)
    # If activities are missing, the tool's own may be among them.
    is_own = definition.tool in world.activities or world.is_incomplete
    if activity is None and is_own and not definition.person:
        activity = ActivityBinding(type=definition.tool or "?")
    normalized.add(_part_problems(definition, normalized.schema))
    normalized.add(_executor_problems(definition, activity, normalized.schema, world))
    normalized.add(registry.hook_problems(definition, world))
    if faults:
        raise InvalidValueError(faults)
    # What is unset has the same default in both.
    known = ((key, each) for key, each in definition if key in ResolvedTool.model_fields)
    same = {key: each for key, each in known if each is not None}
    parameters = {"type": "object", "properties": {}, **to_current_draft(normalized.schema)}
    for keyword in _NOT_PARAMETERS:
        parameters.pop(keyword, None)
    idempotent = definition.idempotent
    settled = {
        "name": definition.tool or "",
        "label": definition.label or definition.title,
        "parameters": parameters,
        "chosen": {key: to_current_draft(each) for key, each in normalized.chosen.items()},
        "output": to_current_draft(definition.output),
        **_approval(definition, parameters),
        "activity": None if definition.delegate is not None else activity,
        "hooks": registry.hook_bindings(definition),
        "idempotent": not definition.side_effects if idempotent is None else idempotent,
    }
    return limited_tool(ResolvedTool.model_validate(same | settled), world.limits)


def resolve_tool_entry(entry: Any, world: registry.DefinitionRegistry) -> ResolvedTool:
    """Return a tool of the catalog by its name, or one that is written out.

    Raises:
        InvalidValueError: there is no such tool, or it does not load.
    """
    if isinstance(entry, dict) and world.is_inline:
        key = content_of("inline", entry)
        return world.resolved.get(key, lambda: resolve_tool(entry, None, world))
    if isinstance(entry, dict):
        return resolve_tool(entry, None, world)
    if not isinstance(entry, str):
        fix = "write the name of a tool, or a JSON Schema object"
        raise InvalidValueError.of("this is no tool", fix)
    if entry in world.tools:
        return world.tools[entry]
    if entry in world.broken_tools or world.is_incomplete:
        raise InvalidValueError([])
    bound = {tool.activity.type for tool in world.tools.values() if tool.activity is not None}
    fix = suggest_names(entry, world.tools, "the catalog has no tools")
    if entry in {*world.activities} - bound:
        fix = "the activity takes no pydantic model: give it one, or a file in `tools/`"
    raise InvalidValueError.of(f"there is no tool `{entry}`", fix)


def is_pattern(entry: Any) -> bool:
    """Return whether an entry of `tools` is a pattern of names: no name has these characters."""
    return isinstance(entry, str) and any(each in entry for each in "*?[")


def matching_tools(pattern: str, world: registry.DefinitionRegistry) -> list[ResolvedTool]:
    """List the tools of the catalog with a name that matches, by name.

    Raises:
        InvalidValueError: there is none.
    """
    found = [world.tools[name] for name in sorted(world.tools) if fnmatchcase(name, pattern)]
    if any(fnmatchcase(name, pattern) for name in world.broken_tools) or world.is_incomplete:
        raise InvalidValueError([])
    if not found:
        fix = suggest_names(pattern.strip("*"), world.tools, "the catalog has no tools")
        raise InvalidValueError.of(f"no tool matches `{pattern}`", fix)
    return found


def reserved_name_problems(name: str) -> Iterator[ValueProblem]:
    """Yield a problem if a tool has the name of one of the engine's own."""
    if name == names.CHOOSE_SKILL:
        yield ValueProblem((), f"the tool name `{name}` is the engine's own", "give it another")


def output_path_problems(written: str) -> Iterator[ValueProblem]:
    """Yield a problem if an `_outputPath` names no place to write to."""
    try:
        parse_output_path(written)
    except ValueError as error:
        reason, _, fix = str(error).partition("; ")
        yield ValueProblem(("_outputPath",), reason, fix)


def in_current_draft(policy: PolicyT) -> PolicyT:
    return policy.model_copy(update={"when": to_current_draft(policy.when)})


class _NormalizedTool:
    """A tool with every meta-property at the top, as a value, and the problems found so far."""

    def __init__(self, written: dict[str, Any]) -> None:
        properties = written.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        self.faults = list(tool_keyword_problems(written))
        left_out = [fault.where[0] for fault in self.faults]
        self.schema = {
            key: value
            for key, value in written.items()
            # `$schema` may name a schema for editors, which is no dialect of JSON Schema.
            if not (key.startswith("_") or key in left_out)
            and not (key == "$schema" and isinstance(value, str) and value.endswith(OUR_SCHEMAS))
        }
        if isinstance(self.schema.get("properties"), dict):
            plain = {key: each for key, each in properties.items() if not key.startswith("_")}
            self.schema["properties"] = plain
        if isinstance(required := self.schema.get("required"), list):
            plain_names = [key for key in required if not str(key).startswith("_")]
            self.schema["required"] = plain_names
        self.fixed = {key: value for key, value in written.items() if key in META_PROPERTIES}
        self.chosen: dict[str, Any] = {}
        # The places of the meta-properties under `properties`, and of what is under `_parameters`.
        self._moved: dict[str, Where] = {}
        if isinstance(parameters := written.get("_parameters"), dict):
            self._use(parameters)
        for where, keys in (((), written), (("properties",), properties)):
            for key in keys:
                if key.startswith("_") and key not in META_PROPERTIES:
                    fix = suggest_names(key, META_PROPERTIES)
                    if where and not closest_names(key, META_PROPERTIES):
                        fix = _UNDER_PARAMETERS
                    reason = f"unknown meta-property `{key}`"
                    self.faults.append(ValueProblem((*where, key), reason, fix))
        for key in [key for key in properties if key in META_PROPERTIES]:
            faults = self._move(key, properties[key])
            self.faults += under(faults, "properties", key)

    def add(self, faults: Iterable[ValueProblem]) -> None:
        """Add problems at the places where their values are written."""
        for fault in faults:
            moved = self._moved.get(str(fault.where[0])) if fault.where else None
            where = fault.where if moved is None else (*moved, *fault.where[1:])
            self.faults.append(replace(fault, where=where))

    def _use(self, parameters: dict[str, Any]) -> None:
        """Use a schema of the arguments in which a name may begin with `_`."""
        for key in [key for key in self.schema if key not in _BESIDE_PARAMETERS]:
            reason = f"`{key}` and `_parameters` are both about the arguments"
            self.faults.append(ValueProblem((key,), reason, "write all of it under `_parameters`"))
        named = parameters.get("properties")
        for name in named if isinstance(named, dict) else ():
            if name in (*META_PROPERTIES, REASONING):
                where = ("_parameters", "properties", name)
                reason = f"a parameter cannot have the name `{name}`, which Holdfast reads itself"
                self.faults.append(ValueProblem(where, reason, "give it another"))
        self.schema = {**parameters, **self.schema}
        self._moved |= {key: ("_parameters", key) for key in parameters}

    def _move(self, key: str, schema: Any) -> Iterable[ValueProblem]:
        where: Where = ("properties", key)
        if key in self.fixed:
            reason = f"`{key}` is set here and at the top of the tool"
            return [ValueProblem((), reason, "keep one of them")]
        if key == "_output":
            self.fixed[key], self._moved[key] = schema, where
        elif isinstance(schema, dict) and "const" in schema:
            self.fixed[key], self._moved[key] = schema["const"], (*where, "const")
        elif key not in CHOSEN_BY_MODEL:
            fix = f'fix it: {{"const": …}}, or "{key}": … at the top of the tool'
            return [ValueProblem((), f"`{key}` is not for the model to choose", fix)]
        elif not isinstance(schema, dict | bool):
            fix = "write a JSON Schema, or fix the value with `const`"
            return [ValueProblem((), "this is no schema", fix)]
        else:
            self.chosen[key] = schema
            return schema_problems(schema)
        return ()


def _part_problems(definition: ToolDefinition, schema: Mapping[str, Any]) -> Iterator[ValueProblem]:
    """Yield the problems of the parts that refer to nothing outside of the tool."""
    if definition.tool is None:
        yield ValueProblem((), "the tool has no name", 'give it one: "_tool": "…"')
    else:
        yield from reserved_name_problems(definition.tool)
    yield from schema_problems(schema)
    yield from under(schema_problems(definition.output), "_output")
    known = ShapeReader(schema).read(schema).properties
    for where, policy in _policies(definition):
        yield from under(_policy_problems(policy, known), *where)
    rules = definition.approval if isinstance(definition.approval, list) else []
    if not any(True for rule in rules for _ in schema_problems(rule.when)):
        yield from under(rule_problems(rules, schema), "_approval")
    if definition.output_path is not None:
        yield from output_path_problems(definition.output_path)


def _policies(definition: ToolDefinition) -> list[tuple[Where, ApprovalPolicy]]:
    """List the policies of a tool with their places."""
    written = definition.approval
    if isinstance(written, list):
        return [(("_approval", n), rule) for n, rule in enumerate(written)]
    return [(("_approval",), written or ApprovalPolicy())]


def _approval(definition: ToolDefinition, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the policy of a tool, or its rules, each with a description."""
    written = definition.approval
    if not isinstance(written, list):
        return {"approval": in_current_draft(written or ApprovalPolicy())}
    rules = [described_rule(in_current_draft(rule), parameters) for rule in written]
    return {"approval": ApprovalPolicy(), "approval_rules": rules}


def _policy_problems(policy: ApprovalPolicy, known: list[str]) -> Iterator[ValueProblem]:
    yield from under(schema_problems(policy.when), "when")
    for name in effect_names(policy.effect):
        if name not in known:
            reason = f"`{{{name}}}` names no argument"
            yield ValueProblem(("effect",), reason, suggest_names(name, known))
    yield from forward_problems(policy)
    if policy.require == "never" and policy.on_timeout is not None:
        reason = "`onTimeout` does not apply to an unknown outcome, the only question here"
        fix = "leave it out, or leave out `require: never`"
        yield ValueProblem(("onTimeout",), reason, fix)


def forward_problems(policy: ApprovalPolicy) -> Iterator[ValueProblem]:
    """Yield the problems of a policy's forwards."""
    if policy.forward and not policy.approvers:
        reason = "anyone may decide without `approvers`, so that there is no one to forward it to"
        yield ValueProblem(("forward",), reason, "add `approvers`, or leave it out")
    before, end = timedelta(), policy.over(APPROVAL_DEFAULTS).timeout or timedelta.max
    for n, forward in enumerate(policy.forward or []):
        if not before < forward.after < end:
            reason = f"it is not between {format_duration(before)} and {format_duration(end)}"
            fix = "list the earliest first, each before the `timeout`"
            yield ValueProblem(("forward", n, "after"), reason, fix)
        before = forward.after


def _executor_problems(
    definition: ToolDefinition,
    activity: ActivityBinding | None,
    parameters: dict[str, Any],
    world: registry.DefinitionRegistry,
) -> Iterator[ValueProblem]:
    """Yield the problems of the activity, the agent, or the model that runs the tool."""
    if definition.activity is not None:
        is_once = definition.side_effects and not definition.idempotent
        faults = registry.activity_problems(definition.activity, world, parameters, is_once=is_once)
        yield from under(faults, "_activity")
    elif activity is not None and definition.delegate is None:
        yield from registry.input_problems(activity, world, parameters)
    name, agent = definition.tool, definition.delegate
    if definition.each and (definition.person or (activity is None and agent is None)):
        reason = "`_each` is for a tool that an activity runs, or an agent"
        yield ValueProblem(("_each",), reason, "leave it out")
    if definition.person:
        yield from _person_problems(definition)
    elif agent is not None:
        yield from registry.agent_problems(agent, world, "_delegate", (ANONYMOUS,))
    elif name is not None and activity is None:
        near = suggest_names(name, world.activities, "`--tools` gives it some")
        if definition.output is None:
            reason = f"this worker has no activity `{name}` to run the tool"
            ways = f"name one with `_activity` ({near}), an agent with `_delegate`"
            yield ValueProblem((), reason, f"{ways}, or have the model itself answer by `_output`")
        elif definition.side_effects:
            reason = f"the model itself answers `{name}`, which has no side effects"
            fix = f"name the activity with `_activity` ({near}), or leave `_sideEffects` out"
            yield ValueProblem(("_sideEffects",), reason, fix)


def _person_problems(definition: ToolDefinition) -> Iterator[ValueProblem]:
    """Yield the options that do not apply where a person answers the calls."""
    # Rules choose the person by the arguments.
    keys = ("require", "quorum") if isinstance(definition.approval, list) else _OF_APPROVALS
    policies = _policies(definition)
    written: dict[Where, Any] = {
        ("_sideEffects",): definition.side_effects or None,
        ("_idempotent",): definition.idempotent,
        **{(*where, key): getattr(one, key) for where, one in policies for key in keys},
    }
    for where, value in written.items():
        if value is not None:
            reason = f"`{where[-1]}` does not apply: one person answers each call, and nothing runs"
            yield ValueProblem(where, reason, "leave it out")
    for where, policy in policies:
        if policy.on_timeout == "approve":
            reason = "`onTimeout: approve` has no answer to use"
            yield ValueProblem((*where, "onTimeout"), reason, "write `deny` or `fail`")

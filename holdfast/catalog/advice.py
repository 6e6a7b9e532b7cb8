"""Advice on definitions that load, and may not do what their author intends.

`holdfast check` prints it; nothing else depends on it. Advice on schemas is a second opinion, that
of the library `jsonschema`: workers log it, too.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from pydantic.alias_generators import to_snake

from holdfast.catalog.mcp_tools import ListedTool, left_out
from holdfast.catalog.policies.rules import rule_advice
from holdfast.catalog.registry import DefinitionRegistry
from holdfast.catalog.tool_reader import OUR_SCHEMAS, is_pattern
from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.json_schema import DRAFT
from holdfast.schemas.phrases import quote_value
from holdfast.schemas.settings.limits import ApprovalLimits
from holdfast.schemas.tool import ApprovalPolicy, ResolvedTool
from holdfast.validation.content_cache import cached_by_content
from holdfast.validation.problems import ValueProblem, Where, format_place, under
from holdfast.validation.schema_check import schema_problems
from holdfast.validation.schema_drafts import to_current_draft
from holdfast.validation.schema_keywords import subschemas
from holdfast.validation.schema_node import CannotCheck
from holdfast.validation.validator import fits

# Of one definition or server: the library takes up to a third of a millisecond for each.
MAX_SUBSCHEMAS = 5_000
MAX_MESSAGE_CHARACTERS = 300
# What holds a schema in an agent and, with `_` before it, in a tool.
_SCHEMAS = ("input", "output", "state", "when", "_output", "_parameters")
# Keywords that may describe a property that `properties` does not name.
_OTHER_PROPERTIES = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties")


def tool_advice(tool: ResolvedTool) -> Iterator[ValueProblem]:
    """Yield suggestions to the author of a tool: on its approval and its required names."""
    yield from under(policy_advice(tool.approval), "_approval")
    for n, rule in enumerate(tool.approval_rules):
        yield from under(policy_advice(rule), "_approval", n)
    yield from under(rule_advice(tool), "_approval")
    yield from _required_advice(tool.parameters)


def agent_advice(written: dict[str, Any], agent: ResolvedAgent) -> Iterator[ValueProblem]:
    """Yield suggestions to the author of an agent; `written` is its definition."""
    yield from under(policy_advice(agent.approval), "approval")
    turns, rounds = agent.budget.max_turns, agent.budget.max_iterations
    if turns is not None and rounds is not None and turns < rounds:
        reason = f"`maxTurns` {turns} ends a run before `maxIterations` {rounds} is reached"
        fix = f"write `maxIterations: {max(turns - 1, 0)}`: the model is then requested to finish"
        yield ValueProblem(("budget", "maxTurns"), reason, fix)
    for name in agent.on_threshold:
        if getattr(agent.budget, to_snake(name)) is None:
            reason = f"`{name}` has no limit here, so that nothing is a share of it"
            fix = f"write `budget: {{{name}: …}}`, unless each request sets it"
            yield ValueProblem(("onThreshold", name), reason, fix)
    last = min((each for each in (turns, rounds) if each is not None), default=None)
    for tool in agent.all_tools:
        step = tool.limits.force_at_step
        if last is not None and step is not None and step > last:
            reason = f"`{tool.name}` is forced at turn {step}, and calls end with turn {last}"
            fix = "lower its `forceAtStep`, or raise the budget"
            yield ValueProblem(("tools",), reason, fix)
    yield from _rule_advice(agent)
    yield from nullable_advice(written)
    # Tools that are written out here; the others have advice of their own.
    skills = enumerate(agent.skills)
    holders: list[tuple[Where, Any, list[ResolvedTool]]] = [((), written, agent.tools)]
    holders += [(("skills", n), written["skills"][n], skill.tools) for n, skill in skills]
    for where, holder, tools in holders:
        # The tools of patterns come after the others.
        named = [each for each in enumerate(holder.get("tools", [])) if not is_pattern(each[1])]
        for (n, entry), tool in zip(named, tools, strict=False):
            if isinstance(entry, dict):
                yield from under(tool_advice(tool), *where, "tools", n)


def nullable_advice(written: Any, where: Where = ()) -> Iterator[ValueProblem]:
    """Yield each `nullable` of a definition as it is written, which is read as a type."""
    steps = written.items() if isinstance(written, dict) else ()
    for key, each in enumerate(written) if isinstance(written, list) else steps:
        yield from nullable_advice(each, (*where, key))
        if key == "nullable" and each is True and isinstance(written.get("type"), str):
            reason, fix = "it is read as another type", f'type: [{written["type"]}, "null"]'
            yield ValueProblem((*where, key), reason, f"write `{fix}`")


def schema_advice(written: dict[str, Any], *, is_tool: bool) -> Iterator[ValueProblem]:
    """Yield where a default does not fit, or `jsonschema` refuses a schema, of a tool or agent.

    Our own diagnosis accepts the schema. It is checked against the meta-schema of its own draft,
    which is a part of the library: nothing is fetched. Formats are not checked: patterns are read
    by our own engine. No meta-schema is for a schema with parts of a `$schema` of their own.
    """
    left = MAX_SUBSCHEMAS
    for where, schema in _schemas(written, (), is_tool=is_tool):
        if isinstance(schema, dict):
            parts, found = _schema_advice(schema)
            if (left := left - parts) < 0:
                return
            yield from under(found, *where)


@cached_by_content
def _schema_advice(schema: dict[str, Any]) -> tuple[int, list[ValueProblem]]:
    """Return how many subschemas a schema has, the defaults that do not fit, and one refusal."""
    # Imported here: it takes a tenth of a second.
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for

    # Our own is first: the library exceeds Python's stack on a schema that is nested too deep.
    if schema_problems(schema):
        return 0, []
    found = []
    current = to_current_draft(schema)
    for where, part in subschemas(current):
        with suppress(CannotCheck):
            if "default" in part and not fits(part["default"], current, part):
                reason = f"{quote_value(part['default'])} does not fit, and is not filled in"
                fix = "write one that fits the schema"
                found.append(ValueProblem((*where, "default"), reason, fix))
    parts = [each for _, each in subschemas(schema)]
    validator: Any = validator_for({"$schema": DRAFT, **schema}, default=None)  # type: ignore[arg-type]
    is_known = validator is not None and not any("$schema" in each for each in parts[1:])
    if not is_known or len(parts) > MAX_SUBSCHEMAS:
        return len(parts), found
    # As `check_schema` does, which reports the whole of a nested schema as the place.
    if error := best_match(validator(validator.META_SCHEMA).iter_errors(schema)):
        message = error.message[:MAX_MESSAGE_CHARACTERS]
        reason = f"the schema does not fit its meta-schema: {message}"
        fix = "correct it, since other programs may refuse the schema"
        found.append(ValueProblem(tuple(error.absolute_path), reason, fix))
    return len(parts), found


def server_advice(
    server: str, listed: Sequence[ListedTool], world: DefinitionRegistry
) -> Iterator[ValueProblem]:
    """Yield the tools of an MCP server that are left out, and `schema_advice` on the others.

    Servers write `null` as the default of an optional parameter, which their users cannot correct.
    """
    yield from left_out(server, listed, world)
    schemas = [{"_parameters": each.input_schema, "_output": each.output_schema} for each in listed]
    for each in schema_advice({"tools": schemas}, is_tool=False):
        if each.where[-1] == "default":
            continue
        tool, place = listed[int(each.where[1])].name, format_place(each.where[2:])
        reason = f"MCP server `{server}`, tool `{tool}`: `{place}`: {each.reason}"
        yield ValueProblem((), reason, each.fix)


def _schemas(written: dict[str, Any], at: Where, *, is_tool: bool) -> Iterator[tuple[Where, Any]]:
    if is_tool:
        own = {key: each for key, each in written.items() if not key.startswith("_")}
        if str(own.get("$schema")).endswith(OUR_SCHEMAS):
            del own["$schema"]
        yield at, own
    for key, value in written.items():
        if key in _SCHEMAS:
            yield (*at, key), value
        elif key in ("approval", "_approval") and isinstance(value, dict):
            yield (*at, key, "when"), value.get("when")
        elif key == "_approval" and isinstance(value, list):
            whens = [each.get("when") if isinstance(each, dict) else None for each in value]
            yield from (((*at, key, n, "when"), when) for n, when in enumerate(whens))
        elif key in ("tools", "skills") and isinstance(value, list):
            for n, each in enumerate(value):
                if isinstance(each, dict):
                    yield from _schemas(each, (*at, key, n), is_tool=key == "tools")


def _rule_advice(agent: ResolvedAgent) -> Iterator[ValueProblem]:
    for n, skill in enumerate(agent.skills):
        rule = skill.when if isinstance(skill.when, dict) else {}
        if "type" not in rule and rule.keys() & {"properties", "required"}:
            reason, fix = "`when` fits every text, too", "add `type: object`"
            yield ValueProblem(("skills", n, "when"), reason, fix)


def policy_advice(policy: ApprovalPolicy | ApprovalLimits) -> Iterator[ValueProblem]:
    """Yield the rules of a policy about people, who are not known without a signature."""
    names = ["quorum"] if (policy.quorum or 1) > 1 else []
    names += ["notBy"] if policy.not_by is not None else []
    if names and not policy.signed:
        reason = f"`{'` and `'.join(names)}` without `signed`: a client can decide in any name"
        yield ValueProblem((names[0],), reason, "add `signed: true`")


def _required_advice(schema: Any) -> Iterator[ValueProblem]:
    """Yield the required names that no property has, here and in objects within."""
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties", {})
    if not any(keyword in schema for keyword in _OTHER_PROPERTIES):
        for n, name in enumerate(schema.get("required", [])):
            if name not in properties:
                reason = f"`{name}` is required, and is no property"
                fix = "add it to `properties`, or leave it out of `required`"
                yield ValueProblem(("required", n), reason, fix)
    for key, inner in properties.items():
        yield from under(_required_advice(inner), "properties", key)
    yield from under(_required_advice(schema.get("items")), "items")

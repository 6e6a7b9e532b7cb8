"""Advice on definitions that load, and may not do what their author intends.

`holdfast check` prints it; nothing else depends on it.
"""

from collections.abc import Iterator
from typing import Any

from pydantic.alias_generators import to_snake

from holdfast.catalog.tool_reader import is_pattern
from holdfast.schemas.agent import Agent
from holdfast.schemas.tool import ApprovalPolicy, Tool
from holdfast.validation.problems import ValueProblem, Where

# Keywords that may describe a property that `properties` does not name.
_OTHER_PROPERTIES = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties")


def tool_advice(tool: Tool) -> Iterator[ValueProblem]:
    """Yield what the author of a tool may want to change."""
    yield from (each.under("_approval") for each in _policy_advice(tool.approval))
    yield from _required_advice(tool.parameters)


def agent_advice(written: dict[str, Any], agent: Agent) -> Iterator[ValueProblem]:
    """Yield what the author of an agent may want to change; `written` is its definition."""
    yield from (each.under("approval") for each in _policy_advice(agent.approval))
    turns, rounds = agent.budget.max_turns, agent.budget.max_iterations
    if turns is not None and rounds is not None and turns < rounds:
        reason = f"`maxTurns` {turns} ends a run before `maxIterations` {rounds} is reached"
        fix = f"write `maxIterations: {max(turns - 1, 0)}`: the model is then asked to finish"
        yield ValueProblem(("budget", "maxTurns"), reason, fix)
    for name in agent.on_threshold:
        if getattr(agent.budget, to_snake(name)) is None:
            reason = f"`{name}` has no limit here, so that nothing is a share of it"
            fix = f"write `budget: {{{name}: …}}`, unless each request sets it"
            yield ValueProblem(("onThreshold", name), reason, fix)
    last = min((each for each in (turns, rounds) if each is not None), default=None)
    for tool in [*agent.tools, *(each for skill in agent.skills for each in skill.tools)]:
        step = tool.limits.force_at_step
        if last is not None and step is not None and step > last:
            reason = f"`{tool.name}` is forced at turn {step}, and calls end with turn {last}"
            fix = "lower its `forceAtStep`, or raise the budget"
            yield ValueProblem(("tools",), reason, fix)
    yield from _rule_advice(agent)
    # Tools that are written out here; the others have advice of their own.
    skills = enumerate(agent.skills)
    holders: list[tuple[Where, Any, list[Tool]]] = [((), written, agent.tools)]
    holders += [(("skills", n), written["skills"][n], skill.tools) for n, skill in skills]
    for where, holder, tools in holders:
        # The tools of patterns come after the others.
        named = [each for each in enumerate(holder.get("tools", [])) if not is_pattern(each[1])]
        for (n, entry), tool in zip(named, tools, strict=False):
            if isinstance(entry, dict):
                yield from (each.under(*where, "tools", n) for each in tool_advice(tool))


def _rule_advice(agent: Agent) -> Iterator[ValueProblem]:
    for n, skill in enumerate(agent.skills):
        rule = skill.when if isinstance(skill.when, dict) else {}
        if "type" not in rule and rule.keys() & {"properties", "required"}:
            reason, fix = "`when` fits every text, too", "add `type: object`"
            yield ValueProblem(("skills", n, "when"), reason, fix)


def _policy_advice(policy: ApprovalPolicy) -> Iterator[ValueProblem]:
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
        yield from (each.under("properties", key) for each in _required_advice(inner))
    yield from (each.under("items") for each in _required_advice(schema.get("items")))

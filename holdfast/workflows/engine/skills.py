"""Skills: named parts of an agent, of which a run has one.

    one is named, has a fitting `when`, or is the only one ─► active ◄─┐
    none of these ─► choosing ─────────────────────────────► active ──┘ a message of a conversation
                           names another one, or the model of an agent with `changeSkill` chooses it

A run uses the only skill of its agent, or the first whose `when` its input fits, without a choice,
which would cost a request. During the choice, the model is offered only the choice, as a tool; the
engine itself answers a call of it, without an activity, a hook or a person. After that, the skill's
tools and the agent's own are allowed, and no others: this module looks up the allowed tools for
each call, independent of prompts and results.
"""

from typing import Any

from holdfast.schemas.agent import AgentRules, ResolvedSkill
from holdfast.schemas.names import CHOOSE_SKILL
from holdfast.schemas.phrases import quote_value, suggest_names
from holdfast.schemas.tool import ApprovalPolicy, CallLimits, ResolvedTool
from holdfast.validation.schema_node import ValidationLimits
from holdfast.validation.validator import errors
from holdfast.workflows.engine.call.outcomes import Succeeded
from holdfast.workflows.engine.call.states import ToolCall

_CHOOSE = (
    "Choose the skill that fits the task, before anything else. Its instructions and its tools"
    " apply from then on"
)
_FOR_GOOD = "; it cannot be changed later."
_CHANGE = (
    "Change to another skill, if the current request needs it. Its instructions and its tools"
    " replace those of the present skill from your next answer on."
)

_CONFIDENCE = {
    "confidence": {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
        "description": "How sure you are that it fits.",
    }
}


def skill_of(rules: AgentRules, name: str | None) -> ResolvedSkill | None:
    return next((skill for skill in rules.skills if skill.name == name), None)


def allowed_tools(rules: AgentRules, name: str | None) -> list[ResolvedTool]:
    """Return the tools of a run with the skill of this name, or without one yet."""
    if (skill := skill_of(rules, name)) is not None:
        others = [one for one in rules.skills if one is not skill and one.activity is None]
        changes = [choice(rules, others, _CHANGE)] if rules.change_skill and others else []
        return [*rules.tools, *skill.tools, *changes]
    if not rules.skills:
        return rules.tools
    description = _CHOOSE + ("." if rules.change_skill else _FOR_GOOD)
    return [choice(rules, rules.skills, description, per_run=1)]


def fitting(rules: AgentRules, given: Any, limits: ValidationLimits) -> str | None:
    """Return the first skill with a rule that the run's input fits."""
    ruled = ((one.name, one.when) for one in rules.skills if one.when is not None)
    return next((name for name, when in ruled if not errors(given, when, limits.budget())), None)


def skill_problem(rules: AgentRules, name: str, *, is_change: bool = False) -> str | None:
    """Return why a request, or a message that changes the skill, cannot name this one, if so."""
    skill, known = skill_of(rules, name), [one.name for one in rules.skills]
    if not known:
        return f"`skill`: agent `{rules.name}` has no skills; leave it out"
    if skill is None:
        fix = suggest_names(name, known)
        return f"`skill`: agent `{rules.name}` has no skill {quote_value(name)}; {fix}"
    if is_change and skill.activity is not None:
        return f"`skill`: `{name}` is an activity, which receives no messages; leave it out"
    return None


def choice(
    rules: AgentRules, skills: list[ResolvedSkill], description: str, per_run: int | None = None
) -> ResolvedTool:
    """Return the tool to choose a skill; some providers allow only short tool descriptions."""
    lines = [f"- {one.name}: {one.description}".removesuffix(": ") for one in skills]
    which = {
        "type": "string",
        "enum": [skill.name for skill in skills],
        "description": "\n".join(["One of:", *lines]),
    }
    return ResolvedTool(
        name=CHOOSE_SKILL,
        label="Choose a skill",
        description=description,
        parameters={
            "type": "object",
            "properties": {"skill": which, **_CONFIDENCE},
            "required": ["skill"],
            "additionalProperties": False,
        },
        approval=ApprovalPolicy(require="never"),
        limits=CallLimits(per_run=per_run),
    )


def answer(call: ToolCall) -> Succeeded:
    chosen = call.arguments["skill"]
    return Succeeded(f"The skill `{chosen}` is active: its instructions and tools apply now.")

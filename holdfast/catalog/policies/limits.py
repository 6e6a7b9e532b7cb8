"""The bounds of `limits.yaml`: they tighten what tools and agents state, and loosen nothing.

They apply when a definition is read, so a run has those of its start. A tool is limited by its own
policy, and again in each agent, whose policy may exempt further calls.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from holdfast.runtime.settings_files.source import read_source
from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.base import Lenient, format_duration, readable_json
from holdfast.schemas.phrases import first_names
from holdfast.schemas.settings.limits import NO_LIMITS, Limits
from holdfast.schemas.tool import ACTIVITY_TIMEOUT, ActivityBinding, ApprovalPolicy, ResolvedTool
from holdfast.schemas.tool import APPROVAL_DEFAULTS as DEFAULTS
from holdfast.validation.problems import ValueProblem, Where, format_place

LIMITS = "limits.yaml"
MAX_CHANGES_TOLD = 10
# A stricter value of a policy is higher.
_STRICTNESS: dict[str, Callable[[Any], Any]] = {
    "require": ("never", "side_effects", "always").index,
    "timeout": lambda timeout: -timeout,
    "on_timeout": ("approve", "deny", "fail").index,
    "quorum": int,
    "not_by": bool,
    "signed": bool,
}
# Of a tool, by the last part of their places.
_IF_NONE = DEFAULTS.model_dump(mode="json", by_alias=True)
_IF_NONE["startToCloseTimeout"] = format_duration(ACTIVITY_TIMEOUT)

PolicyT = TypeVar("PolicyT", bound=ApprovalPolicy)


def load_limits(folder: Path | None) -> Limits:
    """Load the limits of a catalog folder, which may have none, or raise `LoadError`."""
    if folder is None or not os.path.lexists(folder / LIMITS):
        return NO_LIMITS
    return read_source(folder / LIMITS).parse_as(Limits)


def limited_agent(agent: ResolvedAgent, limits: Limits) -> ResolvedAgent:
    """Return an agent within the limits."""
    if limits == NO_LIMITS:
        return agent

    def within(tool: ResolvedTool) -> ResolvedTool:
        return limited_tool(tool, limits, agent.approval)

    called = [(tool.name, tool) for tool in agent.all_tools]
    called += [(skill.name, skill.rules) for skill in agent.skills if skill.rules is not None]
    covered = [name for name, tool in called if _is_covered(tool, limits)]
    auto = [name for name in agent.approval.auto if name not in covered]
    approval = _limited_policy(agent.approval, DEFAULTS, limits, has_exceptions=True)
    changes = {
        "approval": approval.model_copy(update={"auto": auto}),
        "budget": agent.budget.bounded(limits.budget),
        "concurrency": min(agent.concurrency, limits.concurrency or agent.concurrency),
        "skills": [
            skill.model_copy(
                update={
                    "tools": [*map(within, skill.tools)],
                    "activity": _limited_activity(skill.activity, limits),
                    "rules": skill.rules and within(skill.rules),
                }
            )
            for skill in agent.skills
        ],
        "tools": [*map(within, agent.tools)],
    }
    return agent.model_copy(update=changes)


def limited_tool(
    tool: ResolvedTool, limits: Limits, defaults: ApprovalPolicy = DEFAULTS
) -> ResolvedTool:
    """Return a tool within the limits, in an agent with these `defaults`."""
    has_exceptions = not _is_covered(tool, limits)
    policy = _limited_policy(tool.approval, defaults, limits, has_exceptions=has_exceptions)
    # The `when` of a rule chooses a policy, and exempts no call.
    rules = [
        _limited_policy(rule, defaults, limits, has_exceptions=True) for rule in tool.approval_rules
    ]
    activity = _limited_activity(tool.activity, limits)
    changes = {"approval": policy, "approval_rules": rules, "activity": activity}
    if all(getattr(tool, key) == value for key, value in changes.items()):
        return tool
    return tool.model_copy(update=changes)


def _is_covered(tool: ResolvedTool, limits: Limits) -> bool:
    require = limits.approval.require
    return require == "always" or (require == "side_effects" and tool.side_effects)


def _limited_policy(
    policy: PolicyT, defaults: ApprovalPolicy, limits: Limits, *, has_exceptions: bool
) -> PolicyT:
    """Return a policy within the limits; without exceptions, its `when` exempts no call."""
    whole, changes = policy.over(defaults).over(DEFAULTS), dict[str, Any]()
    for key, strictness in _STRICTNESS.items():
        least, own = getattr(limits.approval, key), getattr(whole, key)
        if least and (own is None or strictness(own) < strictness(least)):
            changes[key] = least
    if not has_exceptions and whole.when is not None:
        changes["when"] = True
    return policy.model_copy(update=changes)


def _limited_activity(activity: ActivityBinding | None, limits: Limits) -> ActivityBinding | None:
    longest = limits.tool_timeout
    own = (activity and activity.start_to_close_timeout) or ACTIVITY_TIMEOUT
    if activity is None or longest is None or own <= longest:
        return activity
    return activity.model_copy(update={"start_to_close_timeout": longest})


def limit_advice(loose: Lenient, limited: Lenient) -> Iterator[ValueProblem]:
    """Yield what the limits change in a definition, as one line."""
    values = (each.model_dump(mode="json", by_alias=True) for each in (loose, limited))
    if changes := [*_changes((), *values)]:
        told = first_names(changes, MAX_CHANGES_TOLD)
        yield ValueProblem((), f"`{LIMITS}` tightens {told}", "")


def _changes(where: Where, loose: Any, limited: Any) -> Iterator[str]:
    if (
        isinstance(loose, dict | list)
        and type(loose) is type(limited)
        and len(loose) == len(limited)
    ):
        for key in loose if isinstance(loose, dict) else range(len(loose)):
            yield from _changes((*where, key), loose[key], limited[key])
    elif loose != limited:
        before = _IF_NONE.get(str(where[-1])) if loose is None else loose
        yield f"`{format_place(where)}` from {readable_json(before)} to {readable_json(limited)}"

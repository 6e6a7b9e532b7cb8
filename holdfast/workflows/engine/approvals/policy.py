"""Approval policies: which calls need an approval, and from which groups.

A tool has one policy, or a list of rules: the first that fits a call is its policy. A call that no
rule fits has the defaults; its agent's `when` and `require: never` are for tools without a list.
A call whose arguments, or a `when`, cannot be checked falls under every rule: it needs the
decisions that each of them requires.

A plan has the strictest of its calls' policies, so that its approvers may, as far as possible,
approve each of its calls. If no group may decide on all calls, each group that may decide on one
call may decide on the plan; a call that this approval does not cover needs its own. A plan is
forwarded only if the policy of each call forwards to the same groups at the same times.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.schemas.agent import AgentRules
from holdfast.schemas.decision import AppliedRule, Decided
from holdfast.schemas.run import Principal
from holdfast.schemas.tool import (
    APPROVAL_DEFAULTS,
    ApprovalPolicy,
    ApprovalRule,
    ResolvedTool,
    Schema,
)
from holdfast.validation.schema_node import CannotCheck, ValidationLimits, WorkBudget
from holdfast.validation.text_safety import is_same_person
from holdfast.validation.validator import fits

# The stricter one comes first.
_ON_TIMEOUT = ("fail", "deny", "approve")


@dataclass(frozen=True)
class AppliedPolicy:
    """A policy of a call, with the rule that it is from if the tool has a list."""

    policy: ApprovalPolicy
    rule: AppliedRule | None = None

    def key(self, tool: str) -> str:
        """Return what people approve if they approve all further calls of a tool."""
        return tool if self.rule is None else self.rule.key


# By which policies a call with these arguments needs an approval.
PoliciesOf = Callable[[dict[str, Any], ValidationLimits], list[AppliedPolicy]]


def effective_policy(tool: ResolvedTool, rules: AgentRules) -> ApprovalPolicy:
    """Return the tool's policy, over its agent's, over the defaults."""
    return tool.approval.over(_agent_policy(tool, rules)).over(APPROVAL_DEFAULTS)


def effective_rules(tool: ResolvedTool, rules: AgentRules) -> list[ApprovalRule]:
    """Return the tool's rules, over its agent's policy, over the defaults."""
    agent = _agent_policy(tool, rules)
    return [rule.over(agent).over(APPROVAL_DEFAULTS) for rule in tool.approval_rules]


def applied_policies(
    tool: ResolvedTool, rules: AgentRules, arguments: dict[str, Any] | None, budget: WorkBudget
) -> list[AppliedPolicy]:
    """Return the policy of a call, or those of all rules if it cannot be checked which one fits."""
    if not tool.approval_rules:
        return [AppliedPolicy(effective_policy(tool, rules))]
    found = [
        AppliedPolicy(
            rule,
            AppliedRule(tool=tool.name, number=n, name=rule.name, description=rule.description),
        )
        for n, rule in enumerate(effective_rules(tool, rules), start=1)
    ]
    if found[-1].policy.when not in (None, True):
        none_fits = AppliedRule(tool=tool.name, number=0)
        found.append(AppliedPolicy(effective_policy(tool, rules), none_fits))
    if arguments is None:
        return found
    try:
        return [
            next(
                one
                for one in found
                if one.policy.when is None or fits(arguments, one.policy.when, budget=budget)
            )
        ]
    except CannotCheck:
        return found


def required_policies(
    tool: ResolvedTool,
    rules: AgentRules,
    arguments: dict[str, Any] | None,
    limits: ValidationLimits,
    remembered: Collection[str] = (),
) -> list[AppliedPolicy]:
    """Return those of the policies of a call by which it needs an approval.

    People have approved all further calls of the keys that are `remembered`.
    """
    if tool.name in rules.approval.auto:
        return []
    return [
        one
        for one in applied_policies(tool, rules, arguments, limits.budget())
        if one.key(tool.name) not in remembered
        # A rule of a list fits the arguments already.
        and requires_approval(tool, one.policy, None if one.rule else arguments, limits.budget())
    ]


def combined_policy(applied: Sequence[AppliedPolicy]) -> ApprovalPolicy:
    """Return the policy under which people decide on a call."""
    policies = [one.policy for one in applied]
    return policies[0] if len(policies) == 1 else strictest_policy(policies)


def requires_approval(
    tool: ResolvedTool, policy: ApprovalPolicy, arguments: dict[str, Any] | None, budget: WorkBudget
) -> bool:
    """Return whether a call needs one; it does if its arguments, or `when`, cannot be checked.

    Without `arguments`, `when` is not checked: so it is for a rule that fits already.
    """
    required = policy.require == "side_effects" and tool.side_effects
    if not (required or policy.require == "always"):
        return False
    return arguments is None or _fits(arguments, policy.when, budget, otherwise=True)


def is_within(arguments: dict[str, Any], bound: dict[str, Any] | None, budget: WorkBudget) -> bool:
    """Return whether arguments fit the bound of a plan's approval, if it has one."""
    return _fits(arguments, bound, budget, otherwise=False)


def strictest_policy(policies: Sequence[ApprovalPolicy]) -> ApprovalPolicy:
    """Combine the policies of several calls that people decide on together."""
    timeouts = [each.timeout for each in policies if each.timeout is not None]
    reminders = [each.remind for each in policies if each.remind is not None]
    named = [each.approvers for each in policies if each.approvers]
    groups = list(dict.fromkeys(group for each in named for group in each))
    careful = [each.on_timeout for each in policies if each.on_timeout is not None]
    forward = policies[0].forward
    return ApprovalPolicy(
        timeout=min(timeouts, default=None),
        on_timeout=min(careful, key=_ON_TIMEOUT.index, default=None),
        remind=min(reminders, default=None),
        # An empty list means anyone.
        approvers=[group for group in groups if all(group in some for some in named)] or groups,
        quorum=max(each.quorum or 1 for each in policies),
        not_by=next((each.not_by for each in policies if each.not_by), None),
        signed=any(each.signed for each in policies) or None,
        forward=forward if all(each.forward == forward for each in policies) else None,
    ).over(APPROVAL_DEFAULTS)


def forward_policy(policy: ApprovalPolicy, forwards: int) -> ApprovalPolicy:
    """Return a policy whose approvers are also the groups of so many of its forwards."""
    if not policy.approvers:
        return policy  # anyone may decide
    groups = [group for each in (policy.forward or [])[:forwards] for group in each.to]
    approvers = list(dict.fromkeys([*policy.approvers, *groups]))
    return policy.model_copy(update={"approvers": approvers})


def as_forwarded(
    applied: Sequence[AppliedPolicy], asked: ApprovalPolicy, forwards: int
) -> list[ApprovalPolicy]:
    """Return the policies of calls after so many forwards of the one that people were asked by."""
    policies = [one.policy for one in applied]
    return [
        forward_policy(each, forwards) if each.forward == asked.forward else each
        for each in policies
    ]


def satisfies(policy: ApprovalPolicy, by: Sequence[Decided], principal: Principal | None) -> bool:
    """Return whether enough different people decided who may decide under a policy."""
    named = policy.not_by is not None or (policy.quorum or 1) > 1
    own = principal.id if principal is not None else None
    entitled = [
        decided
        for decided in by
        if not (policy.approvers and not any(each in policy.approvers for each in decided.groups))
        and not (
            policy.not_by
            and any(is_same_person(each, own) for each in (decided.by, *decided.on_behalf_of))
        )
        and not (named and decided.by is None)
        and not (policy.signed and not decided.signed)
    ]
    return len(entitled) >= (policy.quorum or 1)


def _agent_policy(tool: ResolvedTool, rules: AgentRules) -> ApprovalPolicy:
    agent = rules.approval
    if not tool.approval_rules:
        return agent
    require = agent.require if agent.require == "always" else None
    return agent.model_copy(update={"when": None, "require": require})


def _fits(
    arguments: dict[str, Any], schema: Schema | bool | None, budget: WorkBudget, *, otherwise: bool
) -> bool:
    try:
        return schema is None or fits(arguments, schema, budget=budget)
    except CannotCheck:
        return otherwise

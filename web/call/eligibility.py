"""Who may decide on a call, and whether the one in front of the page may.

The run checks it again when a decision comes; the page says it before anybody has typed anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from holdfast.runtime.text_safety import one_line
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.tool import ApprovalPolicy, ShownTool
from holdfast.validation.text_safety import normalized_person
from holdfast.web.auth.person import Person
from holdfast.workflows.engine.approvals.policy import strictest_policy

_GROUPS_CHARS: Final = 300
_NAME_CHARS: Final = 100


@dataclass(frozen=True)
class Standing:
    """Whether somebody may decide; why not; and the terms in words."""

    may: bool
    why_not: str = ""
    terms: list[str] = field(default_factory=list)


def policy_of(waiting: PendingApproval, tools: Sequence[ShownTool]) -> ApprovalPolicy | None:
    """The terms of a wait, as far as the tools of its calls say them."""
    return strictest_policy([tool.approval for tool in tools]) if tools else None


def standing(
    waiting: PendingApproval,
    policy: ApprovalPolicy | None,
    person: Person,
    principal: str,
    *,
    signs: bool,
) -> Standing:
    """Who may decide, and whether this person is one of them; `signs` says whether their decisions
    are signed for them here."""
    own = bool(principal) and normalized_person(person.name) == normalized_person(principal)
    not_own = policy is not None and policy.not_by == "principal"
    why_not = ""
    if waiting.approvers and not set(waiting.approvers) & set(person.groups):
        why_not = f"Only members of {_groups(waiting.approvers)} decide on this. {_yours(person)}"
    elif own and not_own:
        why_not = "This run acts on your behalf, and whom a run acts for does not decide on this."
    terms = _terms(waiting, principal, not_own=not_own, signs=signs)
    if waiting.approvers and not why_not:
        terms.insert(1, "You are one of them.")
    return Standing(not why_not, why_not, terms)


def _terms(waiting: PendingApproval, principal: str, *, not_own: bool, signs: bool) -> list[str]:
    said = [
        f"Members of {_groups(waiting.approvers)} decide."
        if waiting.approvers
        else "Anybody who can see this decides."
    ]
    if not_own:
        whom = f", {one_line(principal, _NAME_CHARS)}," if principal else ""
        said.append(f"Whom the run acts for{whom} does not.")
    if waiting.quorum > 1:
        said.append(f"{waiting.quorum} people must agree; one who denies is enough to deny.")
    if waiting.signed:
        said.append(
            "Only a signed decision counts; yours is signed here."
            if signs
            else "Only a signed decision counts: add the token below."
        )
    return said


def _groups(groups: Sequence[str]) -> str:
    return one_line(" or ".join(groups), _GROUPS_CHARS)


def _yours(person: Person) -> str:
    if not person.groups:
        return "You are in no group: sign in as somebody who is, or ask one of them."
    return f"You are in {one_line(', '.join(person.groups), _GROUPS_CHARS)}: ask one of them."

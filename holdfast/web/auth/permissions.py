"""Permissions: which rights a person has on a run, by the rules of `inbox.yaml`.

    rules that match the person and the run ─► rights, as far as the key of a token has them
    `decide` without `read` ─► the pending approvals of the person's groups, and nothing else

Without rules, everyone has all rights. A run is matched by its own agent and principal, which
Temporal knows: a run without them, such as a single call, is matched by rules that name none.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final, NoReturn, get_args

from starlette.requests import HTTPConnection

from holdfast.client.errors import NoSuchRunError
from holdfast.client.run_lists import RunListing, equals_one_of
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.settings.inbox import OWN, PermissionRule, Right
from holdfast.schemas.settings.keys import KEY_RIGHTS
from holdfast.validation.text_safety import is_same_person
from holdfast.web.auth.sessions import Person

MAY_NOT_DECIDE: Final = "Your permissions do not include decisions on this run."
Rights = frozenset[Right]
_Names = list[str] | None
_Rule = tuple[_Names, _Names, Rights]
ALL: Final[Rights] = frozenset(get_args(Right))
HIDDEN_SECONDS: Final = 2.0
# One of these is enough to see that a run exists.
LISTED: Final[Rights] = frozenset({"read", "cancel", "message"})


def is_approver(person: Person, approvers: Iterable[str]) -> bool:
    """Report whether a person is in one of these groups, or no group is named."""
    groups = {*approvers}
    return not groups or names.FOR_ANYBODY in groups or not groups.isdisjoint(person.groups)


def has_decided(person: Person, approval: PendingApproval) -> bool:
    return any(is_same_person(each, person.name) for each in approval.decided_by)


@dataclass(frozen=True)
class RunAccess:
    """The rights of a person on one run; `is_addressed`: an approval is pending for them.

    A hidden run is refused at a fixed time after it was looked up, `found_at`, and its worker has
    less time to answer: the time of a response shows no person who may decide that it exists.
    """

    person: Person
    rights: Rights = ALL
    is_addressed: bool = True
    found_at: float = field(default_factory=monotonic, compare=False)

    def sees(self, approvers: Iterable[str]) -> bool:
        """Report whether the person may see an approval, open or closed, of these approvers."""
        return "read" in self.rights or (
            "decide" in self.rights and is_approver(self.person, approvers)
        )

    @property
    def is_hidden(self) -> bool:
        """Report whether the person may not know that the run exists."""
        return self.rights <= {"decide"} and not (self.rights and self.is_addressed)

    def time_to_answer(self) -> asyncio.Timeout:
        """Limit the time in which a worker answers, for a run that is hidden until then."""
        return asyncio.timeout(0.8 * HIDDEN_SECONDS if self.is_hidden else None)

    async def hide(self, run_id: str) -> NoReturn:
        """Raise `NoSuchRunError`, at the time at which it is raised for every hidden run."""
        await asyncio.sleep(self.found_at + HIDDEN_SECONDS - monotonic())
        raise NoSuchRunError(run_id)


def access_of(connection: HTTPConnection) -> RunAccess:
    """Return what the sender of a request may do on the run of its address."""
    access = connection.state.access
    assert isinstance(access, RunAccess)  # it was required before the endpoint was called
    return access


@dataclass(frozen=True)
class Permissions:
    """The rules of an inbox; None: everyone has all rights."""

    rules: Sequence[PermissionRule] | None = None

    def rights(self, person: Person, agent: str | None, principal: str | None) -> Rights:
        """Return the rights of a person on the runs of an agent for a principal."""
        return _rights(self._rules(person), agent, principal)

    def _rules(self, person: Person) -> list[_Rule]:
        """Return the agents, the principals and the rights of each rule for a person."""
        if self.rules is None:
            return [(None, None, ALL & person.may)]
        own = {OWN: person.name}
        return [
            (
                rule.agents,
                rule.principals and [own.get(one, one) for one in rule.principals],
                frozenset(rule.may) & person.may,
            )
            for rule in self.rules
            if rule.groups is None or not {*rule.groups}.isdisjoint(person.groups)
        ]

    def access(self, person: Person, run: RunListing) -> RunAccess:
        rights = self.rights(person, run.agent, run.principal)
        return RunAccess(person, rights, bool(run.groups) and is_approver(person, run.groups))

    def visible(
        self, person: Person, runs: Iterable[RunListing], *, has_groups: bool
    ) -> list[RunListing]:
        """Return the runs with pending approvals that a person may see, as they may see them.

        `has_groups`: the list has the approvers; without them, a run must answer first.
        """
        rules, found = self._rules(person), []
        for run in runs:
            rights = _rights(rules, run.agent, run.principal)
            if "read" in rights:
                found.append(run)
            elif "decide" in rights:
                # Without the tools and the groups of approvals for others.
                own = tuple(group for group in run.groups if is_approver(person, [group]))
                if own or not has_groups:
                    found.append(run if own == run.groups else replace(run, groups=own, tools=()))
        return found

    def may_start(self, person: Person, agent: str | None, principal: str | None) -> bool:
        """Report whether a person may start runs of an agent for a principal.

        A start is the first message of a run: the rules allow it by that right.
        """
        rights = self.rights(replace(person, may=KEY_RIGHTS), agent, principal)
        return "start" in person.may and "message" in rights

    def scope(self, person: Person) -> Person | None:
        """Return the person, or None for those who all see and may do the same: everything."""
        return None if self.rules is None and person.may == KEY_RIGHTS else person

    def query(self, person: Person) -> str | None:
        """Return further terms of a query for the runs that a person may list; None: for none.

        Raises:
            HoldfastError: Temporal cannot search for one of the names.
        """
        terms = []
        for agents, principals, rights in self._rules(person):
            if LISTED & rights:
                facts = ((names.AGENT_NAME, agents), (names.AGENT_PRINCIPAL, principals))
                terms.append(
                    " AND ".join(equals_one_of(one, texts) for one, texts in facts if texts)
                )
        if "" in terms:
            return ""
        return f" AND (({') OR ('.join(terms)}))" if terms else None


def _rights(rules: Iterable[_Rule], agent: str | None, principal: str | None) -> Rights:
    found = (
        rights
        for agents, principals, rights in rules
        if (agents is None or agent in agents) and (principals is None or principal in principals)
    )
    return Rights().union(*found)

"""Rights by the rules of `inbox.yaml`: of people, and of programs with a key's own."""

import pytest

from holdfast.schemas.settings.inbox import PermissionRule
from holdfast.web.auth.permissions import Permissions
from holdfast.web.auth.sessions import Person
from tests.web.listing.test_rows import run

RULES = Permissions(
    [
        PermissionRule(may=["decide"]),
        PermissionRule(groups=["leads"], agents=["support"], may=["read", "cancel", "message"]),
        PermissionRule(groups=["audit"], may=["read"]),
        PermissionRule(agents=["support"], principals=["own", "bot"], may=["message"]),
    ]
)
LEAD = Person("lee", ("leads", "finance"))


@pytest.mark.parametrize(
    ("person", "agent", "principal", "rights"),
    [
        (LEAD, "support", "ada", "cancel decide message read"),
        (LEAD, "sales", "ada", "decide"),
        (LEAD, None, "lee", "decide"),
        (Person("ada"), "support", "ada", "decide message"),
        (Person("ada"), "support", "bot", "decide message"),
        (Person("ada"), "support", None, "decide"),
        (Person("own"), "support", "own", "decide message"),
        (Person("x", ("audit",), may=frozenset({"read"})), None, None, "read"),
        (Person("x", ("audit",), may=frozenset({"start"})), None, None, ""),
    ],
)
def test_rights_are_those_of_all_rules_that_match_as_far_as_the_key_has_them(
    person: Person, agent: str | None, principal: str | None, rights: str
) -> None:
    assert " ".join(sorted(RULES.rights(person, agent, principal))) == rights


def test_who_may_only_decide_sees_of_a_list_what_is_for_their_groups() -> None:
    runs = [
        run("theirs", tools=("pay",), groups=("ops",)),
        run("both", tools=("pay", "tell"), groups=("ops", "finance")),
        run("anyone", tools=("tell",), groups=("*",)),
        run("unknown"),
        run("led", agent="support", tools=("pay",), groups=("ops",)),
    ]
    seen = RULES.visible(LEAD, runs, has_groups=True)
    assert [(one.id, one.tools, one.groups) for one in seen] == [
        ("both", (), ("finance",)),
        ("anyone", ("tell",), ("*",)),
        ("led", ("pay",), ("ops",)),
    ]
    without = [one.id for one in RULES.visible(LEAD, runs, has_groups=False)]
    assert without == ["theirs", "both", "anyone", "unknown", "led"], "they are asked first"
    assert RULES.scope(LEAD) == RULES.scope(Person("lee", LEAD.groups))
    assert len({RULES.scope(one) for one in (LEAD, Person("ada"), Person("bob"))}) == 3
    assert Permissions().scope(Person("ada")) is None


@pytest.mark.parametrize(
    ("person", "query"),
    [
        (Person("x", ("audit",)), ""),
        (
            Person('a"da', ("leads",)),
            ' AND ((AgentName IN ("support")) OR'
            r' (AgentName IN ("support") AND AgentPrincipal IN ("a\"da", "bot")))',
        ),
        (Person("x", ("audit",), may=frozenset({"decide", "start"})), None),
    ],
)
def test_a_query_finds_no_more_than_a_person_may_list(person: Person, query: str | None) -> None:
    assert RULES.query(person) == query
    assert Permissions([]).query(person) is None

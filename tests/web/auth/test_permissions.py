"""Rights by the rules of `inbox.yaml`: of people, and of programs with a key's own."""

from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.client.errors import NoSuchRunError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run import Run
from holdfast.runtime.identity.key_sets import FileKeySet
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.settings.inbox import PermissionRule
from holdfast.schemas.settings.keys import KeySet
from holdfast.web.auth import permissions
from holdfast.web.auth.permissions import Permissions
from holdfast.web.auth.sessions import BearerTokens, Person
from holdfast.web.http.problems import NotPermittedError
from holdfast.web.mcp import callers
from holdfast.web.services import Services
from tests.support.identity.signing import Approver, write_keys
from tests.web.listing.test_rows import run
from tests.web.run.test_bounds import description

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
    reader = Person("ada", may=frozenset({"read"}))
    assert [Permissions().scope(one) for one in (Person("ada"), reader)] == [None, reader]


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


async def test_a_token_has_the_rights_of_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signer, said = Approver(), KeySet(file="k", may=["read"])
    tokens = BearerTokens(TextSealer(), [FileKeySet("k", said, write_keys(tmp_path / "k", signer))])
    sent = signer.program(client_id="assistant")
    person, _ = await tokens.read(sent)
    assert person.may == {"read"}
    at_mcp = callers.TokenCallers(tokens, ["assistant"])
    token = await at_mcp.verify_token(sent)
    monkeypatch.setattr(callers, "get_access_token", lambda: token)
    caller = at_mcp.find()
    assert caller.may == {"read"}
    assert caller.approver is None, "its client is trusted, and its key decides nothing"


PERSON = {"sub": "u-1", "client_id": "assistant"}
PROGRAMS: dict[str, dict[str, Any]] = {
    "RFC 9068": {"sub": "assistant"},
    "another spelling": {"sub": "Assistant"},
    "Auth0": {"sub": "assistant@clients", "azp": "assistant", "client_id": None},
    "Auth0, by its grant": {"gty": "client-credentials"},
    "FusionAuth": {"gty": ["client_credentials"]},
    "Okta": {"sub": "0oa1", "cid": "0oa1"},
    "Entra": {"idtyp": "app", "azp": "assistant", "client_id": None},
    "Entra, without the optional claim": {"sub": "o-1", "oid": "o-1"},
    "Keycloak": {"preferred_username": "service-account-assistant"},
}


async def is_asked(
    monkeypatch: pytest.MonkeyPatch, folder: Path, sent: dict[str, Any], **said: Any
) -> bool:
    """Whether a trusted client's answer with this token is a decision."""
    signer = Approver()
    keys = FileKeySet("k", KeySet(file="k", **said), write_keys(folder / "k", signer))
    at_mcp = callers.TokenCallers(BearerTokens(TextSealer(), [keys]), ["assistant"])
    claims = {name: each for name, each in (PERSON | sent).items() if each is not None}
    token = await at_mcp.verify_token(signer.program(**{"by": claims.pop("sub"), **claims}))
    monkeypatch.setattr(callers, "get_access_token", lambda: token)
    return at_mcp.find().approver is not None


@pytest.mark.parametrize("name", PROGRAMS)
async def test_the_token_of_a_program_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert not await is_asked(monkeypatch, tmp_path, PROGRAMS[name])


@pytest.mark.parametrize(
    ("rule", "claims", "is_person"),
    [
        (None, {}, True),
        (
            None,
            {"gty": "password", "idtyp": "user", "preferred_username": "ann", "oid": "o-1"},
            True,
        ),
        ({"claim": "email"}, {}, False),
        ({"claim": "email"}, {"email": ""}, False),
        ({"claim": "email"}, {"email": "ann@shop.example"}, True),
        ({"claim": "idtyp", "value": "user"}, {"idtyp": "app"}, False),
        ({"claim": "idtyp", "value": "user"}, {"idtyp": "user", "sub": "o-1", "oid": "o-1"}, True),
        ({"claim": "amr", "value": "pwd"}, {"amr": ["otp", "pwd"]}, True),
        ({"claim": "human"}, {"human": False}, False),
    ],
)
async def test_a_key_set_defines_a_person(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rule: Any,
    claims: dict[str, Any],
    is_person: bool,
) -> None:
    assert await is_asked(monkeypatch, tmp_path, claims, person=rule) == is_person


def test_a_start_is_the_first_message_of_a_run() -> None:
    ada = Person("ada", may=frozenset({"start"}))
    assert RULES.may_start(ada, "support", "ada")
    assert not RULES.may_start(ada, "support", None), "the principal of a token is not known here"
    assert not RULES.may_start(ada, None, "ada")
    assert not RULES.may_start(Person("ada", may=frozenset({"message"})), "support", "ada")


async def test_a_run_that_may_not_be_known_is_as_one_that_is_not(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def describe(run: Run) -> Any:
        if run.id == "none":
            raise NoSuchRunError(run.id)
        return description([], typed_search_attributes=[])

    monkeypatch.setattr(Run, "describe", describe)
    monkeypatch.setattr(permissions, "HIDDEN_SECONDS", 0.01)
    parts = Services(HoldfastClient(nowhere), permissions=RULES)
    told = []
    for run_id in ("none", "order-7"):
        with pytest.raises(NoSuchRunError) as refused:
            await parts.require(Person("joe"), "read", run_id)
        told.append(str(refused.value).replace(run_id, ""))
    assert told[0] == told[1]
    with pytest.raises(NotPermittedError, match="do not include `cancel`"):
        await parts.require(Person("eve", ("audit",)), "cancel", "order-7")

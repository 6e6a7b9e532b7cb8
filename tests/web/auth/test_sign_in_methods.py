"""Known by a proxy, or by a token: only those who may name a person do."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from starlette.requests import Request
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.runtime.identity.key_sets import FileKeySet, LiveKeySet, UrlKeySet
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.settings.inbox import Proxy
from holdfast.schemas.settings.keys import KeySet
from holdfast.web.auth.sessions import BearerTokens
from holdfast.web.auth.sign_in import LinkSignIn, ProxySignIn
from holdfast.web.http.problems import RefusedRequest
from holdfast.web.services import Services
from tests.support.identity.signing import Approver, write_keys
from tests.support.inbox import Stage, opened
from tests.web.auth.pages_of_test import pages

HERE = ["127.0.0.0/8"]
ELSEWHERE = ["10.1.0.0/16", "fd00::/8"]

Open = Callable[..., Any]


@pytest.fixture
def behind(nowhere: Client, stack: AsyncExitStack) -> Open:
    """Opens an inbox behind a proxy in these networks."""

    async def behind_(*networks: str, keys: Any = ()) -> Stage:
        seal = TextSealer()
        said = Proxy.model_validate(
            {"userHeader": "X-User", "groupsHeader": "X-Groups", "networks": list(networks)}
        )
        made = opened(
            Services(HoldfastClient(nowhere)),
            ProxySignIn(seal, said),
            BearerTokens(seal, keys),
            app=pages(),
        )
        return await stack.enter_async_context(made)

    return behind_


async def test_the_proxy_names_the_person_and_their_groups(behind: Open) -> None:
    at = await behind(*HERE)
    shown = (await at.get("/", X_User="ann", X_Groups="finance, refunds ,,finance")).json()
    assert (shown["name"], shown["groups"]) == ("ann", ["finance", "refunds"])
    named = await at.http.get("/", headers={b"x-user": "Zoë".encode()})
    assert named.json()["name"] == "Zoë"
    assert (await at.get("/", X_User="ann @ https://partner.example")).status_code == 403
    at.form_token = shown["form_token"]
    assert (await at.post("/decide", X_User="ann")).json()["by"] == "ann"
    assert (await at.post("/decide", X_User="bob")).status_code == 403, "a form is for one person"


async def test_a_request_without_a_name_from_the_proxy_is_unidentified(behind: Open) -> None:
    at = await behind(*HERE)
    unnamed: list[dict[str, str]] = [{}, {"X_User": ""}, {"X_Groups": "finance"}]
    for headers in unnamed:
        assert (await at.get("/", **headers)).headers["location"] == "/sign-in"
    told = await at.get("/sign-in")
    assert (told.status_code, "bypassed the proxy" in told.text) == (403, True)


async def test_identity_headers_from_elsewhere_are_ignored(behind: Open) -> None:
    at = await behind(*ELSEWHERE)
    for headers in ({"X_User": "ann"}, {"X_Groups": "finance"}, {"x_user": "ann"}):
        answer = await at.get("/", **headers, X_Forwarded_For="10.1.0.1")
        assert answer.status_code == 403
        assert "Only the proxy in front of the inbox may name the user" in answer.text
    assert (await at.get("/")).status_code == 303


@pytest.mark.parametrize(
    ("address", "is_theirs"),
    [
        ("10.1.0.1", True),
        ("::ffff:10.1.0.1", True),
        ("fd00::1", True),
        ("10.2.0.1", False),
        ("::ffff:10.2.0.1", False),
        ("fe80::1", False),
    ],
)
async def test_the_proxy_is_in_its_networks_however_an_address_is_written(
    address: str, is_theirs: bool
) -> None:
    said = Proxy.model_validate({"userHeader": "X-User", "networks": ELSEWHERE})
    scope = {"type": "http", "headers": [(b"x-user", b"ann")], "client": (address, 1)}
    asking = ProxySignIn(TextSealer(), said).authenticate(Request(scope))
    if is_theirs:
        found = await asking
        assert found is not None
        assert found.person.name == "ann"
    else:
        with pytest.raises(RefusedRequest, match="only the proxy"):
            await asking


@pytest.mark.parametrize(
    "headers",
    [
        [("x-user", b"ann"), ("x-user", b"boss")],
        [("x-user", b"ann\xff")],
        [("x-user", "ann\u202egnp".encode())],
        [("x-user", "ann\u00a0".encode())],
        [("x-user", "ann\u3164".encode())],
        [("x-user", "ann\ue000".encode())],
        [("x-user", b"x" * 201)],
        [("x-user", b"ann"), ("x-groups", b"finance\xff")],
        [("x-user", b"ann"), ("x-groups", ",".join(f"g{n}" for n in range(101)).encode())],
    ],
    ids=lambda headers: repr(headers)[:50],
)
async def test_a_header_that_reads_as_two_things_is_none(
    behind: Open, headers: list[tuple[str, bytes]]
) -> None:
    at = await behind(*HERE)
    sent = [(name.encode(), value) for name, value in headers]
    assert (await at.http.get("/", headers=sent)).status_code == 403


# --- programs ------------------------------------------------------------------------------


@pytest.fixture
def signer() -> Approver:
    return Approver()


def keys(file: Path, *signers: Approver, **settings: Any) -> LiveKeySet:
    said = KeySet(file=str(file), **settings)
    return FileKeySet("programs", said, write_keys(file, *signers))


@asynccontextmanager
async def for_programs(client: Client, *sets: LiveKeySet) -> AsyncIterator[Stage]:
    """An inbox that takes the tokens of these keys, and to which a person could sign in."""
    seal = TextSealer()
    link = LinkSignIn(seal, "ann")
    async with opened(
        Services(HoldfastClient(client)), link, BearerTokens(seal, sets), app=pages()
    ) as at:
        del at.http.headers["origin"]
        at.link = link.address(at.address)
        yield at


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_a_program_is_identified_by_its_token_and_needs_no_form_token(
    nowhere: Client, signer: Approver, tmp_path: Path
) -> None:
    sets = keys(tmp_path / "keys.json", signer, groups=["finance"])
    async with for_programs(nowhere, sets) as at:
        token = signer.program(scope="orders:refund x", groups=["finance"])
        shown = (await at.http.get("/", headers=bearer(token))).json()
        assert (shown["name"], shown["groups"]) == ("till", ["finance"])
        assert (shown["scopes"], shown["form_token"]) == (["orders:refund", "x"], "")
        sent = await at.http.post("/runs", json={"a": 1}, headers=bearer(token))
        assert sent.json() == {"by": "till", "body": {"a": 1}}
        form = await at.http.post("/decide", data={"a": "b"}, headers=bearer(token))
        assert form.json() == {"by": "till", "fields": [["a", "b"]]}
        none = await at.http.post("/decide", json={}, headers=bearer(token))
        assert (none.status_code, none.json()["code"]) == (415, "wrong_type")
        evil = {"origin": "https://evil.example", **bearer(token)}
        assert (await at.http.post("/runs", json={}, headers=evil)).status_code == 403


async def test_an_invalid_token_is_refused_with_the_reason(
    nowhere: Client, signer: Approver, tmp_path: Path
) -> None:
    sets = keys(tmp_path / "keys.json", signer, issuer="us", groups=["finance"])
    decision: dict[str, Any] = {"digest": "0" * 64, "workflowId": "r"}
    good: dict[str, Any] = {"sub": "till", "aud": "holdfast:inbox", "iss": "us"}
    wrong = {
        "it has expired": signer.token(**good, exp=1),
        "is for another audience": signer.token(**{**good, "aud": "holdfast:principal"}),
        "lacks `aud`": signer.token(sub="till", iss="us"),
        "another issuer": signer.token(**{**good, "iss": "x"}),
        "lacks `sub`": signer.token(aud="holdfast:inbox", iss="us"),
        "signature is wrong": Approver().token(**good),
        "is for a decision": signer.token(**good, **decision),
        "does not sign for one": signer.token(**good, groups=["boss"]),
        "not a list of texts": signer.token(**good, groups="finance"),
        "no JWT": "x",
        "three parts with dots between": jwt.encode(good, "", "none"),
    }
    async with for_programs(nowhere, sets) as at:
        await at.http.get(at.link)
        for why, token in wrong.items():
            answer = await at.http.get("/", headers=bearer(token))
            assert answer.status_code == 401, why
            assert why.removeprefix("it ") in answer.text
            assert token not in answer.text or token == "x"
        assert (await at.http.get("/", headers=bearer(signer.token(**good)))).is_success


async def test_a_key_for_decisions_alone_knows_no_program(
    nowhere: Client, signer: Approver, tmp_path: Path
) -> None:
    sets = keys(tmp_path / "keys.json", signer, for_=["decisions"])
    async with for_programs(nowhere, sets) as at:
        answer = await at.http.get("/", headers=bearer(signer.program()))
        assert answer.status_code == 401


async def test_without_keys_a_token_is_nobodys(nowhere: Client, signer: Approver) -> None:
    async with for_programs(nowhere) as at:
        answer = await at.http.get("/", headers=bearer(signer.program()))
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


async def test_unavailable_keys_are_a_failure_of_the_server(
    nowhere: Client, signer: Approver, stack: AsyncExitStack
) -> None:
    http = await stack.enter_async_context(httpx.AsyncClient())
    said = KeySet(url="http://127.0.0.1:1/jwks")
    sets = UrlKeySet("programs", said, httpx.URL(said.url or ""), http)
    async with for_programs(nowhere, sets) as at:
        answer = await at.http.get("/", headers=bearer(signer.program()))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")


async def test_programs_come_in_beside_a_proxy(
    behind: Open, signer: Approver, tmp_path: Path
) -> None:
    at = await behind(*HERE, keys=[keys(tmp_path / "keys.json", signer)])
    both = {**bearer(signer.program()), "x-user": "ann"}
    assert (await at.http.get("/", headers=both)).json()["name"] == "till"
    assert (await at.http.get("/", headers={"x-user": "ann"})).json()["name"] == "ann"

"""Signing in with OpenID Connect: there and back, and only with the provider's word for it."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlsplit

import httpx
import jwt
import pytest
from starlette.responses import RedirectResponse, Response, StreamingResponse
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.hosting.dev_server import free_port
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.settings.inbox import Oidc
from holdfast.web.auth import oidc as of_provider
from holdfast.web.auth.oidc import MAX_ANSWER_BYTES, METADATA, SIGN_IN_SECONDS, OidcSignIn
from holdfast.web.auth.oidc import OidcProvider as Known
from holdfast.web.auth.sessions import BearerTokens
from holdfast.web.services import Services
from tests.support.identity.signing import Approver
from tests.support.inbox import HOST, Stage, opened
from tests.web.auth.pages_of_test import pages
from tests.web.auth.provider import CLIENT, Provider, others_provider, provider
from tests.web.conftest import Clock

SECRET = "known-to-provider-and-inbox"
NO_WORD = "The ID token of the provider is not valid"
AWAY = "The sign-in provider is not available now"


class OidcInboxes:
    """Opens inboxes whose people sign in somewhere else."""

    def __init__(self, client: Client, stack: AsyncExitStack) -> None:
        self._client, self._stack = client, stack

    async def open(
        self, issuer: str, secret: str | None = SECRET, root: str = "", **settings: Any
    ) -> Stage:
        http = await self._stack.enter_async_context(httpx.AsyncClient())
        seal = TextSealer()
        said = Oidc.model_validate({"issuer": issuer, "clientId": CLIENT, **settings})
        way = OidcSignIn(seal, said, Known(said, secret, http))
        parts, bearer, port = (
            Services(HoldfastClient(self._client)),
            BearerTokens(seal),
            free_port(),
        )
        url = f"http://{HOST}:{port}{root}"
        made = opened(parts, way, bearer, app=pages(), port=port, url=url)
        return await self._stack.enter_async_context(made)


@pytest.fixture
def inboxes(nowhere: Client, clock: Clock, stack: AsyncExitStack) -> OidcInboxes:
    return OidcInboxes(nowhere, stack)


@pytest.fixture
async def there() -> AsyncIterator[Provider]:
    async with provider() as made:
        yield made


async def leave(at: Stage, path: str = "/") -> str:
    """Open a page while signed out; the provider's page to which the browser is sent."""
    asked = await at.get(path)
    assert asked.status_code == 303
    answer = await at.get(asked.headers["location"])
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def back(leaving: str, **changed: str) -> str:
    [state] = parse_qs(urlsplit(leaving).query)["state"]
    return str(httpx.URL("/sign-in/done", params={"code": "c", "state": state, **changed}))


async def sign_in(at: Stage, there: Provider, **claims: Any) -> httpx.Response:
    leaving = await leave(at)
    there.answer_with(leaving, **claims)
    return await at.get(back(leaving))


# --- there and back ------------------------------------------------------------------------


async def test_people_sign_in_and_are_back_at_the_page_that_they_asked_for(
    inboxes: OidcInboxes,
) -> None:
    ada: Any = {"groups": ["everybody", "money"], "email": "ada@shop.example"}
    with others_provider("ada", **ada) as issuer:
        settings: Any = {"nameClaim": "email", "groups": {"money": ["finance", "refunds"]}}
        at = await inboxes.open(issuer, **settings)
        leaving = await leave(at, "/run/order%2F7?x=1")
        async with httpx.AsyncClient() as elsewhere:
            returned = await elsewhere.post(leaving, data={"sub": "ada"})
        answer = await at.get(returned.headers["location"].removeprefix(at.address))
        assert (answer.status_code, answer.headers["location"]) == (303, "/run/order%2F7?x=1")
        assert "samesite=lax" in answer.headers["set-cookie"].lower()
        shown = (await at.get("/run/order%2F7?x=1")).json()
        assert (shown["name"], shown["groups"]) == ("ada@shop.example", ["finance", "refunds"])
        assert shown["form_token"]
        again = await at.get(returned.headers["location"].removeprefix(at.address))
        assert again.status_code == 400, "the way back leads back once"


async def test_an_inbox_under_a_path_is_returned_to_with_it(
    inboxes: OidcInboxes, there: Provider
) -> None:
    at = await inboxes.open(there.address, root="/holdfast")
    leaving = await leave(at, "/holdfast/run/order%2F7")
    [returned] = parse_qs(urlsplit(leaving).query)["redirect_uri"]
    assert returned == f"{at.address}/holdfast/sign-in/done"
    there.answer_with(leaving)
    answer = await at.get(f"/holdfast{back(leaving)}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/holdfast/run/order%2F7")
    assert "; Path=/holdfast;" in answer.headers["set-cookie"]
    [token] = there.asked
    assert token["redirect_uri"] == returned


async def test_the_provider_is_requested_by_the_standards(
    inboxes: OidcInboxes, there: Provider
) -> None:
    at = await inboxes.open(there.address, scopes=["groups"])
    leaving = await leave(at)
    there.answer_with(leaving)
    assert (await at.get(back(leaving))).status_code == 303
    asked = {name: value for name, [value] in parse_qs(urlsplit(leaving).query).items()}
    assert leaving.startswith(f"{there.address}/authorize?")
    assert asked["redirect_uri"] == f"{at.address}/sign-in/done"
    assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
    assert asked["scope"] == "openid groups"
    assert asked["code_challenge_method"] == "S256"
    [token] = there.asked
    digest = base64.urlsafe_b64encode(_sha256(token["code_verifier"])).decode().rstrip("=")
    assert asked["code_challenge"] == digest
    assert token["redirect_uri"] == asked["redirect_uri"]
    basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
    assert token["authorization"] == f"Basic {basic}"
    assert SECRET not in leaving


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


async def test_reserved_characters_of_the_secret_are_encoded(
    inboxes: OidcInboxes, there: Provider
) -> None:
    """RFC 6749, section 2.3.1."""
    client, secret = "in:box & co", "p+a/s%2Bs é"
    at = await inboxes.open(there.address, secret, clientId=client)
    assert (await sign_in(at, there, aud=client)).status_code == 303
    _, _, basic = there.asked[0]["authorization"].partition(" ")
    sent = base64.b64decode(basic).decode()
    assert [unquote_plus(part) for part in sent.split(":")] == [client, secret]


async def test_a_secret_may_be_wanted_in_the_form_or_not_at_all(
    inboxes: OidcInboxes, there: Provider
) -> None:
    there.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    by_form = await inboxes.open(there.address)
    public = await inboxes.open(there.address, secret=None)
    for at in (by_form, public):
        assert (await sign_in(at, there)).status_code == 303
    first, second = there.asked
    assert (first["client_secret"], first["authorization"]) == (SECRET, "")
    assert (second["client_id"], second.get("client_secret")) == (CLIENT, None)


async def test_several_tabs_may_sign_in_at_a_time(inboxes: OidcInboxes, there: Provider) -> None:
    at = await inboxes.open(there.address)
    one, other = await leave(at, "/run/a"), await leave(at, "/run/b")
    for leaving, home in ((one, "/run/a"), (other, "/run/b")):
        there.answer_with(leaving)
        assert (await at.get(back(leaving))).headers["location"] == home
    assert [each.name for each in at.http.cookies.jar] == [at.cookie]


async def test_of_started_sign_ins_the_newest_four_are_kept(
    inboxes: OidcInboxes, there: Provider, clock: Clock
) -> None:
    at = await inboxes.open(there.address)
    leaving = []
    for n in range(6):
        leaving.append(await leave(at, f"/run/{n}?{'x' * 1_900}"))
        clock.seconds += 1
    assert len(at.http.cookies.jar) == 4
    assert sum(len(f"{each.name}={each.value}; ") for each in at.http.cookies.jar) < 4_000
    for one in leaving[:2]:
        assert (await at.get(back(one))).status_code == 400
    for one in leaving[2:]:
        there.answer_with(one)
        assert (await at.get(back(one))).headers["location"] == "/"


# --- who -----------------------------------------------------------------------------------


async def test_only_the_groups_that_are_named_come_in(
    inboxes: OidcInboxes, there: Provider
) -> None:
    groups = {"money": ["finance"], "it": ["operators"]}
    at = await inboxes.open(there.address, groups=groups, allow=["finance"])
    for theirs in (["it"], [], None, "it", ["finance"]):
        answer = await sign_in(at, there, groups=theirs)
        assert answer.status_code == 403
        assert "You are in no group that may use this inbox" in answer.text
        assert at.cookie not in at.http.cookies
    assert (await sign_in(at, there, groups="money")).status_code == 303


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"sub": None}, "does not send your name (`sub`)"),
        ({"sub": ""}, "does not send your name (`sub`)"),
        ({"sub": "x" * 201}, "Your name cannot be shown in a record"),
        ({"sub": "ann\nbob"}, "Your name cannot be shown in a record"),
        ({"sub": "ann\u202ebob"}, "Your name cannot be shown in a record"),
        ({"sub": " ann"}, "Your name cannot be shown in a record"),
        ({"groups": {"a": 1}}, "does not send your groups as a list of names"),
        ({"groups": [1]}, "does not send your groups as a list of names"),
        ({"groups": ["a\x00"]}, "has a name that cannot be shown"),
        ({"groups": [f"g{n}" for n in range(101)]}, "in more than 100 groups"),
        ({"groups": [f"{n:0>190}" for n in range(60)]}, "more groups than a browser can keep"),
    ],
    ids=lambda said: str(said)[:40],
)
async def test_a_refused_sign_in_has_a_reason(
    inboxes: OidcInboxes, there: Provider, claims: dict[str, Any], told: str
) -> None:
    at = await inboxes.open(there.address)
    answer = await sign_in(at, there, **claims)
    assert (answer.status_code, told in answer.text) == (403, True), answer.text
    assert (await at.get("/")).status_code == 303


@pytest.mark.parametrize(
    "claims",
    [
        {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://x"}}},
        {"hasgroups": True},
        {"hasgroups": "true"},
    ],
    ids=str,
)
async def test_groups_that_entra_leaves_out_are_one_line_for_each(
    inboxes: OidcInboxes, there: Provider, claims: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    at = await inboxes.open(there.address, allow=["finance"])
    answer = await sign_in(at, there, **claims)
    assert (answer.status_code, "You are in too many groups" in answer.text) == (403, True)
    [line] = caplog.messages
    assert "`groups` is left out of the token" in line
    roles = await inboxes.open(there.address, groupsClaim="roles", allow=["finance"])
    assert (await sign_in(roles, there, **claims, roles=["finance"])).is_redirect
    assert "in no group that may use" in (await sign_in(at, there, groups=[], **claims)).text


async def test_an_address_that_was_not_verified_is_no_name(
    inboxes: OidcInboxes, there: Provider
) -> None:
    at = await inboxes.open(there.address, nameClaim="email")
    for unverified in (False, "false", "", "no", 0, ["true"]):
        answer = await sign_in(at, there, email="boss@shop.example", email_verified=unverified)
        assert (answer.status_code, "has not verified your e-mail address" in answer.text) == (
            403,
            True,
        )
    for verified in (True, "true", None):  # none: the provider has no such claim
        answer = await sign_in(at, there, email="boss@shop.example", email_verified=verified)
        assert answer.is_redirect
        at.http.cookies.clear()


# --- attacks -------------------------------------------------------------------------------


async def test_a_way_back_leads_back_only_who_went_it(
    inboxes: OidcInboxes, there: Provider, clock: Clock
) -> None:
    mine, theirs = await inboxes.open(there.address), await inboxes.open(there.address)
    leaving, hers = await leave(mine), await leave(theirs)
    there.answer_with(leaving)
    kept = dict(mine.http.cookies)
    [state] = parse_qs(urlsplit(leaving).query)["state"]
    for wrong in (back(hers), back(leaving, state=state[:8]), "/sign-in/done", back(leaving) + "x"):
        answer = await mine.get(wrong)
        assert answer.status_code == 400
        assert "was not started in this browser" in answer.text
        mine.http.cookies.update(kept)
    clock.seconds += SIGN_IN_SECONDS + 1
    assert (await mine.get(back(leaving))).status_code == 400
    assert not there.asked, "no code was given away"


async def test_the_answer_of_another_provider_is_refused(
    inboxes: OidcInboxes, there: Provider
) -> None:
    at = await inboxes.open(there.address)
    leaving = await leave(at)
    there.answer_with(leaving)
    answer = await at.get(back(leaving, iss="https://evil.example"))
    assert (answer.status_code, there.asked) == (400, [])
    again = await at.get(back(leaving))
    assert (again.status_code, there.asked) == (400, []), "the way back leads back once"
    leaving = await leave(at)
    why = {"error": "access_denied", "error_description": "<b>no\x1b[2J</b>"}
    answer = await at.get(back(leaving, **why))
    assert answer.status_code == 403
    assert "has not signed you in: &lt;b&gt;no&lt;/b&gt;" in answer.text
    assert "Sign in with 127.0.0.1" in answer.text


async def test_a_provider_that_names_itself_does_so_each_time(
    inboxes: OidcInboxes, there: Provider
) -> None:
    """RFC 9207: an answer without it may be another provider's."""
    there.metadata["authorization_response_iss_parameter_supported"] = True
    at = await inboxes.open(there.address)
    others: list[dict[str, str]] = [{}, {"error": "access_denied"}, {"iss": ""}]
    for without in others:
        leaving = await leave(at)
        there.answer_with(leaving)
        answer = await at.get(back(leaving, **without))
        assert (answer.status_code, there.asked) == (400, []), without
        assert "he response is from another provider" in answer.text
    leaving = await leave(at)
    there.answer_with(leaving)
    assert (await at.get(back(leaving, iss=there.address))).is_redirect


@pytest.mark.parametrize("slashes", ["/..", ".//", "//.", "./."])
async def test_the_slash_at_the_end_of_an_issuer_counts_unless_it_is_ignored(
    inboxes: OidcInboxes, there: Provider, slashes: str
) -> None:
    own, metadata, token = (there.address + each.strip(".") for each in slashes)
    there.metadata["issuer"] = metadata
    strict = await inboxes.open(own)
    if own == metadata:
        assert (await sign_in(strict, there, iss=token)).status_code == 403
    else:
        assert (await strict.get("/sign-in")).status_code == 503
    at = await inboxes.open(own, ignoreIssuerSlash=True)
    leaving = await leave(at)
    there.answer_with(leaving, iss=token)
    assert (await at.get(back(leaving, iss=token))).is_redirect
    at.http.cookies.clear()
    for other in (f"{there.address}//", f"{there.address}/a", "https://evil.example/"):
        assert (await sign_in(at, there, iss=other)).status_code == 403


FORGED: dict[str, dict[str, Any]] = {
    "expired": {"exp": 1_000},
    "for another": {"aud": "somebody-else"},
    "for several, and asked for by another": {"aud": [CLIENT, "other"], "azp": "other"},
    "for several, without an authorized party": {"aud": [CLIENT, "other"]},
    "asked for by another": {"azp": "other"},
    "by another": {"iss": "https://evil.example"},
    "of another sign-in": {"nonce": "another"},
    "of no sign-in": {"nonce": None},
    "not yet valid": {"iat": 10**10},
    "without an audience": {"aud": None},
    "without an issuer": {"iss": None},
}


@pytest.mark.parametrize("claims", FORGED.values(), ids=list(FORGED))
async def test_a_token_that_is_not_for_this_is_not_believed(
    inboxes: OidcInboxes, there: Provider, claims: dict[str, Any]
) -> None:
    at = await inboxes.open(there.address)
    answer = await sign_in(at, there, **claims)
    assert (answer.status_code, NO_WORD in answer.text) == (403, True)
    assert (await at.get("/")).status_code == 303


async def test_a_token_that_the_provider_has_not_signed_is_not_believed(
    inboxes: OidcInboxes, there: Provider
) -> None:
    at = await inboxes.open(there.address)
    for forge in (_unsigned, _by_another, _by_hmac, _changed):
        leaving = await leave(at)
        there.answer = {"id_token": forge(there, there.claims(leaving, exp=2**33))}
        answer = await at.get(back(leaving))
        assert (answer.status_code, NO_WORD in answer.text) == (403, True), forge.__name__
    for nothing in ({}, {"id_token": 1}, {"error": "invalid_grant"}, {"id_token": "x.y.z"}):
        leaving = await leave(at)
        there.answer = nothing
        assert (await at.get(back(leaving))).status_code == 403


def _unsigned(there: Provider, claims: dict[str, Any]) -> str:
    return jwt.encode(claims, "", "none", headers={"kid": there.signer.id})


def _by_another(there: Provider, claims: dict[str, Any]) -> str:
    return Approver(there.signer.id).token(**claims)


def _by_hmac(there: Provider, claims: dict[str, Any]) -> str:
    public: str = there.signer.public()["x"]
    return jwt.encode(claims, public, "HS256", headers={"kid": there.signer.id})


def _changed(there: Provider, claims: dict[str, Any]) -> str:
    head, _, signature = there.signer.token(**claims).split(".")
    boss = json.dumps({**claims, "sub": "boss"}).encode()
    return f"{head}.{base64.urlsafe_b64encode(boss).decode().rstrip('=')}.{signature}"


# --- the provider --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        [],
        Response("<html>", 502),
        {"too_much": "x" * MAX_ANSWER_BYTES},
        RedirectResponse(METADATA),
        Response("[" * 100_000),
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
    ids=lambda said: repr(said)[:40],
)
async def test_a_provider_with_invalid_answers_is_reported(
    inboxes: OidcInboxes, there: Provider, metadata: Any, caplog: pytest.LogCaptureFixture
) -> None:
    good = there.metadata
    there.metadata = {**good, **metadata} if metadata and isinstance(metadata, dict) else metadata
    at = await inboxes.open(there.address)
    answer = await at.get("/sign-in?next=/run/a")
    assert (answer.status_code, AWAY in answer.text) == (503, True)
    assert "signing in with OpenID Connect: " in caplog.text
    assert there.looks == 1, "it is asked there, and nowhere that it leads to"
    there.metadata = good
    assert (await at.get("/sign-in")).status_code == 303, "once it is well again, it is asked"


async def test_a_provider_that_never_comes_to_an_end_is_not_waited_for(
    inboxes: OidcInboxes, there: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sign_in() -> AsyncIterator[str]:
        while True:
            yield " "
            await asyncio.sleep(0.01)  # its pace

    monkeypatch.setattr(of_provider, "TIMEOUT_SECONDS", 0.2)
    there.metadata = StreamingResponse(sign_in())
    at = await inboxes.open(there.address)
    async with asyncio.timeout(120):
        assert (await at.get("/sign-in")).status_code == 503


async def test_a_provider_is_asked_once_an_hour_what_it_is_and_what_its_keys_are(
    inboxes: OidcInboxes, there: Provider, clock: Clock
) -> None:
    at = await inboxes.open(there.address)
    for _ in range(2):
        assert (await sign_in(at, there)).status_code == 303
        at.http.cookies.clear()
    assert (there.looks, there.key_looks) == (1, 1)
    clock.seconds += of_provider.FRESH_SECONDS
    await leave(at)
    assert there.looks == 2


async def test_an_unreachable_provider_is_reported(inboxes: OidcInboxes) -> None:
    at = await inboxes.open("http://127.0.0.1:1")
    answer = await at.get("/sign-in")
    assert (answer.status_code, AWAY in answer.text) == (503, True)
    assert 'href="/sign-in"' in answer.text

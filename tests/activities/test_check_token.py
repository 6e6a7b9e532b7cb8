"""§7, §11: which tokens count, and every way to have another count in their place."""

import base64
import hmac
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as ec_key
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.exceptions import ApplicationError

from holdfast.activities.check_token import MAX_KEYS_TRIED, CheckTokenActivity
from holdfast.runtime.identity.key_sets import FileKeySet, LiveKeySet, UrlKeySet
from holdfast.runtime.identity.public_keys import MAX_KEYS, parse_key_set
from holdfast.runtime.settings_files.source import Source
from holdfast.schemas.base import rfc3339
from holdfast.schemas.decision import MAX_TOKEN_CHARACTERS, DecisionClaims, Purpose
from holdfast.schemas.settings.keys import KeySet
from tests.support.signing import (
    ADA,
    BOB,
    DIGEST,
    EVE,
    Signer,
    base64url,
    decision,
    ed25519_key,
    jwks,
    rsa,
    rsa_key,
)

PEOPLE = [ADA, BOB, rsa()]


def key_set(folder: Path, *signers: Signer, name: str = "people", **said: Any) -> LiveKeySet:
    """A set with the keys of these people."""
    file = folder / f"{name}.json"
    file.write_text(jwks(*signers))
    return FileKeySet(name, KeySet.model_validate({"file": str(file), **said}), file)


@pytest.fixture
def people(tmp_path: Path) -> CheckTokenActivity:
    """A worker that knows the keys of Ada, of Bob, and one of RSA."""
    return CheckTokenActivity([key_set(tmp_path, *PEOPLE)])


async def said(
    checker: CheckTokenActivity, token: str, purpose: Purpose = "decision", **more: Any
) -> dict[str, Any]:
    return await checker.check_token({"token": token, "purpose": purpose, **more})


async def refusal(
    checker: CheckTokenActivity, token: str, purpose: Purpose = "decision", **more: Any
) -> str:
    """Why a token does not count: in a sentence, for ever, and without the token."""
    with pytest.raises(ApplicationError) as refused:
        await said(checker, token, purpose, **more)
    error = refused.value
    assert (error.type, error.non_retryable) == ("invalid_token", True)
    assert error.__cause__ is None
    assert "\n" not in error.message
    parts = [part for part in token.split(".") if len(part) > 8]
    assert not any(part in error.message for part in [*parts, "order-7", DIGEST])
    return error.message


def compact(claims: dict[str, Any]) -> bytes:
    """The claims as PyJWT writes them."""
    return json.dumps(claims, separators=(",", ":")).encode()


# What a good token says.


@pytest.mark.parametrize("signer", PEOPLE, ids=["Ada", "Bob", "RSA"])
async def test_a_decision_that_somebody_known_has_signed_counts(
    people: CheckTokenActivity, signer: Signer
) -> None:
    token = signer.token(groups=["finance"], callId="t1c1", decision="deny", remember=True)
    claims = DecisionClaims.read(await said(people, token))
    assert (claims.sub, claims.groups, claims.digest) == ("ada", ["finance"], DIGEST)
    assert (claims.workflow_id, claims.call_id, claims.decision) == ("order-7", "t1c1", "deny")
    assert claims.remember


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scopes": ["orders:read", "orders:refund"]}, ["orders:read", "orders:refund"]),
        ({"scope": "orders:read orders:refund"}, ["orders:read", "orders:refund"]),
        ({"scope": ""}, []),
        ({}, []),
    ],
)
async def test_a_principal_has_the_scopes_of_their_token(
    people: CheckTokenActivity, claims: dict[str, Any], scopes: list[str]
) -> None:
    token = ADA.signed({"sub": "ada", "exp": time.time() + 60, **claims}, {"typ": "at+jwt"})
    assert await said(people, token, "principal") == {"id": "ada", "scopes": scopes}


async def test_a_token_is_known_by_what_was_signed_and_not_by_the_signature(
    people: CheckTokenActivity,
) -> None:
    claims = decision()
    ids = {(await said(people, signer.signed(claims)))["id"] for signer in PEOPLE}
    assert ids == {sha256(compact(claims)).hexdigest()}
    assert (await said(people, ADA.signed({**claims, "jti": "2"})))["id"] not in ids


async def test_nobody_gives_a_token_its_id(people: CheckTokenActivity) -> None:
    token = ADA.token(id="0" * 64)
    payload = base64.urlsafe_b64decode(token.split(".")[1] + "==")
    assert (await said(people, token))["id"] == sha256(payload).hexdigest()


async def test_without_an_id_of_its_key_every_key_of_its_algorithm_is_tried(
    people: CheckTokenActivity,
) -> None:
    for signer in PEOPLE:
        assert (await said(people, Signer(signer.private, None).token()))["sub"] == "ada"


async def test_more_keys_than_that_are_not_tried(tmp_path: Path) -> None:
    signers = [Signer(ed25519_key(number), f"k{number}") for number in range(MAX_KEYS_TRIED + 1)]
    sets = [
        key_set(tmp_path, *signers[first : first + MAX_KEYS], name=f"s{first}")
        for first in range(0, len(signers), MAX_KEYS)
    ]
    nameless = Signer(ed25519_key(MAX_KEYS_TRIED), None)
    assert "name it with a `kid`" in await refusal(CheckTokenActivity(sets), nameless.token())
    assert (await said(CheckTokenActivity(sets), signers[-1].token()))["sub"] == "ada"


async def test_a_key_without_an_id_is_tried_on_every_token(tmp_path: Path) -> None:
    checker = CheckTokenActivity([key_set(tmp_path, Signer(ADA.private, None))])
    assert (await said(checker, ADA.token()))["sub"] == "ada"
    assert "signature is wrong" in await refusal(checker, EVE.token())


# Forgeries.


def forged(header: dict[str, Any], payload: dict[str, Any], signature: bytes = b"") -> str:
    parts = (json.dumps(part).encode() for part in (header, payload))
    return ".".join([*map(base64url, parts), base64url(signature)])


def hmac_with(secret: bytes, algorithm: str = "HS256", **header: Any) -> str:
    """A token that the public key is the shared secret of."""
    unsigned = forged({"alg": algorithm, "kid": "r1", **header}, decision()).rpartition(".")[0]
    digest = hmac.digest(secret, unsigned.encode(), "sha256")
    return f"{unsigned}.{base64url(digest)}"


def as_other(signer: Signer, **header: Any) -> str:
    """A token that is signed well, under a header that says something else."""
    said = {"alg": signer.algorithm, "kid": signer.key_id, **header}
    kept = {name: value for name, value in said.items() if value is not None}
    return signer.raw(json.dumps(kept).encode(), json.dumps(decision()).encode())


WELL = decision()
EVES_JWK = EVE.jwk()
FORGERIES: dict[str, tuple[Callable[[], str], str]] = {
    "no signature": (lambda: forged({"alg": "none"}, WELL, b""), "no JWT"),
    "none, with one": (lambda: forged({"alg": "none"}, WELL, b"x"), "`alg` is not taken"),
    "none, in capitals": (lambda: forged({"alg": "NONE"}, WELL, b"x"), "`alg` is not taken"),
    "no algorithm": (lambda: forged({"kid": "k1"}, WELL, b"x"), "`alg` is not taken"),
    "a list of algorithms": (lambda: as_other(ADA, alg=["EdDSA"]), "`alg` is not taken"),
    "HS256 with the public key": (
        lambda: hmac_with(rsa().pem().encode()),
        "`alg` is not taken",
    ),
    "HS256 with the public key, called RS256": (
        lambda: hmac_with(rsa().pem().encode(), "RS256"),
        "signature is wrong",
    ),
    "HS256 with the raw public key, called EdDSA": (
        lambda: hmac_with(ADA.private.public_key().public_bytes_raw(), "EdDSA", kid="k1"),
        "signature is wrong",
    ),
    "ES256": (lambda: jwt.encode(WELL, ec_key(SECP256R1()), "ES256"), "`alg` is not taken"),
    "RS512 with a known key": (
        lambda: jwt.encode(WELL, rsa_key(0), "RS512", {"kid": "r1"}),
        "`alg` is not taken",
    ),
    "PS256 with a known key": (
        lambda: jwt.encode(WELL, rsa_key(0), "PS256", {"kid": "r1"}),
        "`alg` is not taken",
    ),
    "an EdDSA key as RS256": (lambda: as_other(ADA, alg="RS256"), "not that of its key"),
    "an RSA key as EdDSA": (lambda: as_other(rsa(), alg="EdDSA"), "not that of its key"),
    "an unknown key with the id of another": (EVE.token, "signature is wrong"),
    "a known key with the id of another": (
        lambda: Signer(ADA.private, "k2").token(),
        "signature is wrong",
    ),
    "a key of an unknown id": (lambda: Signer(ADA.private, "k9").token(), "none of this worker's"),
    "an unknown key without an id": (
        lambda: Signer(EVE.private, None).token(),
        "signature is wrong",
    ),
    "its own key": (lambda: EVE.token({"jwk": EVES_JWK}), "signature is wrong"),
    "its own key's address": (
        lambda: EVE.token({"jku": "https://eve.example/jwks.json"}),
        "signature is wrong",
    ),
    "its own certificate": (
        lambda: EVE.token({"x5c": ["MIIB"], "x5u": "https://eve.example"}),
        "signature is wrong",
    ),
    "a path as the key's id": (
        lambda: Signer(EVE.private, "../../dev/null").token(),
        "none of this worker's",
    ),
    "a key's id that is no text": (lambda: as_other(ADA, kid=1), "no name of a key"),
    "an empty id of a key": (lambda: as_other(ADA, kid=""), "no name of a key"),
    "an endless id of a key": (lambda: as_other(ADA, kid="k" * 501), "no name of a key"),
    "what must be understood": (lambda: as_other(ADA, crit=["exp"], exp=1), "more than is done"),
    "a payload that is not encoded": (
        lambda: as_other(ADA, crit=["b64"], b64=False),
        "more than is done",
    ),
    "one token in another": (lambda: as_other(ADA, cty="JWT"), "more than is done"),
    "a token of another kind": (lambda: as_other(ADA, typ="logout+jwt"), "another type"),
    "another claim under its signature": (
        lambda: _with_payload(ADA.token(), decision(sub="eve")),
        "signature is wrong",
    ),
    "another header over its signature": (
        lambda: _with_header(ADA.token(), {"alg": "EdDSA", "kid": "k1", "typ": "jwt"}),
        "signature is wrong",
    ),
    "no signature of Ada's": (lambda: ADA.token().rpartition(".")[0] + "." + "A" * 86, "wrong"),
    "an empty text": (lambda: "", "no JWT"),
    "two parts": (lambda: ADA.token().rpartition(".")[0], "no JWT"),
    "four parts": (lambda: ADA.token() + ".AAAA", "no JWT"),
    "encrypted": (lambda: ".".join(["AAAA"] * 5), "encrypted"),
    "as JSON": (lambda: json.dumps({"payload": "AAAA", "signatures": []}), "no JWT"),
    "padded": (lambda: ADA.token() + "==", "no JWT"),
    "with white space": (lambda: ADA.token() + "\n", "no JWT"),
    "in plain base64": (lambda: ADA.token().replace("-", "+").replace("_", "/") + "+", "no JWT"),
    "in letters of another kind": (lambda: "ａ" + ADA.token()[1:], "no JWT"),
    "with bits to spare": (lambda: _spare(ADA.token()), "no base64url"),
    "cut off": (lambda: ADA.token()[:-1], "base64url"),
    "too long": (lambda: "A" * (MAX_TOKEN_CHARACTERS - 4) + ".AA.AA", "too long"),
    "no JSON": (lambda: ADA.raw(b'{"alg":"EdDSA"}', b"{"), "read in one way"),
    "no object": (lambda: ADA.raw(b'{"alg":"EdDSA"}', b"[1]"), "no JSON object"),
    "a header that is none": (lambda: ADA.raw(b"1", b"{}"), "header is no JSON object"),
    "an algorithm twice": (
        lambda: ADA.raw(b'{"alg":"none","alg":"EdDSA","kid":"k1"}', json.dumps(WELL).encode()),
        "read in one way",
    ),
    "a claim twice": (
        lambda: ADA.raw(b'{"alg":"EdDSA"}', b'{"sub":"eve",' + json.dumps(WELL).encode()[1:]),
        "read in one way",
    ),
    "in UTF-16": (
        lambda: ADA.raw(b'{"alg":"EdDSA"}', json.dumps(WELL).encode("utf-16")),
        "read in one way",
    ),
    "behind a mark of its bytes' order": (
        lambda: ADA.raw(b'{"alg":"EdDSA"}', b"\xef\xbb\xbf" + json.dumps(WELL).encode()),
        "read in one way",
    ),
    "half a character": (lambda: ADA.token(sub="\ud800"), "read in one way"),
    "a number that is none": (lambda: ADA.token(extra=float("nan")), "read in one way"),
    "a number that is too large": (
        lambda: ADA.raw(b'{"alg":"EdDSA"}', b'{"extra":1e999}'),
        "read in one way",
    ),
    "endless digits": (
        lambda: ADA.raw(b'{"alg":"EdDSA"}', b'{"exp":' + b"9" * 5000 + b"}"),
        "read in one way",
    ),
    "a deep payload": (
        lambda: ADA.raw(b'{"alg":"EdDSA"}', b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"),
        "payload is no JSON",
    ),
    "a rather deep payload": (
        lambda: ADA.raw(b'{"alg":"EdDSA"}', b'{"a":' + b"[" * 70 + b"]" * 70 + b"}"),
        "too deep",
    ),
}


def _with_payload(token: str, claims: dict[str, Any]) -> str:
    header, _, signature = token.split(".")
    return ".".join([header, base64url(json.dumps(claims).encode()), signature])


def _with_header(token: str, header: dict[str, Any]) -> str:
    _, rest = token.split(".", 1)
    return f"{base64url(json.dumps(header).encode())}.{rest}"


def _spare(token: str) -> str:
    """The same bytes in other letters: of the last of 86, two bits stand for nothing."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]


@pytest.mark.parametrize("name", FORGERIES)
async def test_a_forgery_does_not_count(people: CheckTokenActivity, name: str) -> None:
    make, why = FORGERIES[name]
    assert why in await refusal(people, make())


# Dates.

NOW = 1_800_000_000


@pytest.fixture
def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is `NOW`, to the microsecond."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Clock":
            return cls.fromtimestamp(NOW, tz)

    monkeypatch.setattr("jwt.api_jwt.datetime", Clock)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": NOW + 1}, None),
        ({"exp": NOW - 29}, None),
        ({"exp": NOW - 30}, "has expired"),
        ({"exp": NOW - 3600}, "has expired"),
        ({"nbf": NOW + 30}, None),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"iat": NOW + 30}, None),
        ({"iat": NOW + 31}, "not valid yet"),
        ({"iat": None}, None),
        ({"exp": None}, "does not say `exp`"),
        ({"exp": str(NOW + 60)}, "`exp` is no time"),
        ({"exp": True}, "`exp` is no time"),
        ({"exp": None, "expires": NOW + 60}, "does not say `exp`"),
        ({"exp": 10**30}, "`exp` is no time"),
        ({"exp": -1}, "`exp` is no time"),
        ({"nbf": "soon"}, "`nbf` is no time"),
        ({"iat": [NOW]}, "`iat` is no time"),
    ],
)
@pytest.mark.usefixtures("at_noon")
async def test_a_token_counts_in_its_time_to_within_the_leeway(
    people: CheckTokenActivity, claims: dict[str, Any], why: str | None
) -> None:
    token = ADA.token(**{"exp": NOW + 60, "iat": NOW - 60, **claims})
    if why is None:
        assert (await said(people, token))["sub"] == "ada"
    else:
        assert why in await refusal(people, token)


@pytest.mark.usefixtures("at_noon")
async def test_the_leeway_is_the_set_s_own(tmp_path: Path) -> None:
    checker = CheckTokenActivity([key_set(tmp_path, ADA, leeway="1s")])
    assert "has expired" in await refusal(checker, ADA.token(exp=NOW - 1, iat=NOW - 60))


@pytest.mark.parametrize(("issued", "good"), [(-31, False), (-29, True), (0, True), (None, True)])
async def test_a_token_that_is_older_than_its_question_does_not_count(
    people: CheckTokenActivity, issued: int | None, good: bool
) -> None:
    asked_at = datetime.fromtimestamp(int(time.time()), UTC)
    issued_at = None if issued is None else asked_at.timestamp() + issued
    token, since = ADA.token(iat=issued_at), rfc3339(asked_at)
    if good:
        assert (await said(people, token, since=since))["sub"] == "ada"
    else:
        assert "older than the question" in await refusal(people, token, since=since)


# For whom, and by whom.


@pytest.mark.parametrize(
    ("wanted", "claims", "why"),
    [
        ({}, {"aud": "holdfast"}, "for another audience"),
        ({}, {"aud": ["a", "b"]}, "for another audience"),
        ({"audience": "holdfast"}, {}, "does not say `aud`"),
        ({"audience": "holdfast"}, {"aud": "other"}, "for another audience"),
        ({"audience": "holdfast"}, {"aud": "holdfast"}, None),
        ({"audience": "holdfast"}, {"aud": ["other", "holdfast"]}, None),
        ({"audience": "holdfast"}, {"aud": []}, "`aud` is neither"),
        ({}, {"aud": []}, "`aud` is neither"),
        ({}, {"aud": ""}, "`aud` is neither"),
        ({}, {"aud": {"holdfast": 1}}, "`aud` is neither"),
        ({}, {"iss": "anybody"}, None),
        ({"issuer": "https://id.example"}, {"iss": "https://id.example"}, None),
        ({"issuer": "https://id.example"}, {"iss": "https://id.example/"}, "another issuer"),
        ({"issuer": "https://id.example"}, {}, "does not say `iss`"),
        ({"issuer": "https://id.example"}, {"iss": ["https://id.example"]}, "`iss` is no text"),
    ],
)
async def test_a_set_says_whose_tokens_and_for_whom(
    tmp_path: Path, wanted: dict[str, Any], claims: dict[str, Any], why: str | None
) -> None:
    checker = CheckTokenActivity([key_set(tmp_path, ADA, **wanted)])
    if why is None:
        assert (await said(checker, ADA.token(**claims)))["sub"] == "ada"
    else:
        assert why in await refusal(checker, ADA.token(**claims))


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"groups": ["desk"]}, None),
        ({}, None),
        ({"sub": "bob"}, "does not belong to its subject"),
        ({"sub": None}, "does not say `sub`"),
        ({"groups": ["desk", "finance"]}, "does not sign for one of its `groups`"),
    ],
)
async def test_nobody_signs_for_another_or_for_groups_that_are_not_theirs(
    tmp_path: Path, claims: dict[str, Any], why: str | None
) -> None:
    checker = CheckTokenActivity([key_set(tmp_path, ADA, subject="ada", groups=["desk", "ops"])])
    if why is None:
        assert (await said(checker, ADA.token(**claims)))["sub"] == "ada"
    else:
        assert why in await refusal(checker, ADA.token(**claims))


async def test_one_key_in_two_sets_counts_as_either_says(tmp_path: Path) -> None:
    sets = [key_set(tmp_path, ADA, name=name, audience=name) for name in ("ops", "desk")]
    for audience in ("ops", "desk"):
        assert (await said(CheckTokenActivity(sets), ADA.token(aud=audience)))["sub"] == "ada"
    assert "for another audience" in await refusal(CheckTokenActivity(sets), ADA.token(aud="shop"))


# What for.


async def test_a_set_for_principals_signs_no_decision_nor_the_other_way_round(
    tmp_path: Path,
) -> None:
    sets = [
        key_set(tmp_path, ADA, name="people", for_=["decisions"]),
        key_set(tmp_path, BOB, name="services", for_=["principals"]),
    ]
    principal = {"sub": "ada", "exp": time.time() + 60}
    checker = CheckTokenActivity(sets)
    assert (await said(checker, ADA.token()))["sub"] == "ada"
    assert (await said(checker, BOB.signed(principal), "principal"))["id"] == "ada"
    assert "none of this worker's" in await refusal(checker, BOB.token())
    assert "none of this worker's" in await refusal(checker, ADA.signed(principal), "principal")


async def test_without_keys_for_it_no_token_counts(tmp_path: Path) -> None:
    why = "this worker has no keys to check decisions with: see its option `--keys`"
    assert await refusal(CheckTokenActivity([]), ADA.token()) == why
    services = CheckTokenActivity([key_set(tmp_path, ADA, for_=["principals"])])
    assert await refusal(services, ADA.token()) == why


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"sub": None}, "does not say `sub`"),
        ({"sub": ""}, "`sub` is not of its type"),
        ({"sub": 7}, "`sub` is no text"),
        ({"sub": "a" * 201}, "`sub` is not of its type, or too long"),
        ({"digest": None}, "does not say `digest`"),
        ({"digest": DIGEST[:-1]}, "`digest` is no SHA-256"),
        ({"digest": DIGEST.upper()}, "`digest` is no SHA-256"),
        ({"digest": 7}, "`digest` is not of its type"),
        ({"workflowId": None}, "does not say `workflowId`"),
        ({"workflowId": None, "workflow_id": "order-8"}, "does not say `workflowId`"),
        ({"workflowId": ["order-7", "order-8"]}, "`workflowId` is not of its type"),
        ({"groups": "finance"}, "`groups` is not of its type"),
        ({"groups": ["finance", 7]}, "`groups` is not of its type"),
        ({"groups": ["g"] * 101}, "`groups` is not of its type"),
        ({"remember": "true"}, "`remember` is not of its type"),
        ({"remember": 1}, "`remember` is not of its type"),
        ({"callId": 1}, "`callId` is not of its type"),
        ({"resultDigest": "x"}, "`resultDigest` is no SHA-256"),
        ({"jti": 7}, "`jti` is no text"),
    ],
)
async def test_what_a_decision_says_is_read_strictly(
    people: CheckTokenActivity, claims: dict[str, Any], why: str
) -> None:
    assert why in await refusal(people, ADA.token(**claims))


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"digest": DIGEST}, "is for a decision"),
        ({"workflowId": "order-7"}, "is for a decision"),
        ({"decision": "approve"}, "is for a decision"),
        ({"sub": None}, "does not say `sub`"),
        ({"exp": None}, "does not say `exp`"),
        ({"exp": 1}, "has expired"),
        ({"scopes": "orders:read"}, "`scopes` is not of its type"),
        ({"scopes": ["a", None]}, "`scopes` is not of its type"),
        ({"scope": ["orders:read"]}, "`scope` is no text"),
        ({"scopes": [], "scope": "orders:refund"}, "both `scopes` and `scope`"),
    ],
)
async def test_what_a_principal_says_is_read_strictly(
    people: CheckTokenActivity, claims: dict[str, Any], why: str
) -> None:
    principal = {"sub": "ada", "exp": time.time() + 60, **claims}
    kept = {name: value for name, value in principal.items() if value is not None}
    assert why in await refusal(people, ADA.signed(kept), "principal")


async def test_a_principal_s_token_is_no_decision(people: CheckTokenActivity) -> None:
    token = ADA.signed({"sub": "ada", "scopes": ["all"], "exp": time.time() + 60})
    assert "does not say `digest`" in await refusal(people, token)


async def test_what_a_later_version_asks_is_refused_without_the_token(
    people: CheckTokenActivity,
) -> None:
    token = ADA.token()
    with pytest.raises(ApplicationError, match="does not know how") as refused:
        await people.check_token({"token": token, "purpose": "payment"})
    assert token not in str(refused.value)
    assert refused.value.non_retryable


# Sets that cannot be had.


async def test_a_set_that_cannot_be_had_is_asked_again_and_named(tmp_path: Path) -> None:
    def down(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async with httpx.AsyncClient(transport=httpx.MockTransport(down)) as http:
        url = "https://id.example/jwks.json"
        remote = UrlKeySet("provider", KeySet(url=url), httpx.URL(url), http)
        checker = CheckTokenActivity([remote, key_set(tmp_path, ADA)])
        with pytest.raises(ApplicationError) as unchecked:
            await said(checker, BOB.token())
        assert "has expired" in await refusal(checker, ADA.token(exp=1))
        assert (await said(checker, ADA.token()))["sub"] == "ada"
    error = unchecked.value
    assert (error.type, error.non_retryable) == ("keys_unavailable", False)
    assert error.message == "the key set `provider` cannot be had now: the worker's log says why"


# Whatever is done to a good token.

GOOD = {**decision(iat=None), "exp": 2**37, "groups": ["finance"]}


class Known(LiveKeySet):
    """Keys that are at hand."""

    def __init__(self, keys: Any) -> None:
        super().__init__("people", KeySet(file="-"), time.monotonic)
        self._known = keys

    async def _renewed(self, is_lacking: bool) -> Any:
        return self._known


KNOWN = Known(parse_key_set(Source("", json.loads(jwks(*PEOPLE)))).keys)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), signer=st.sampled_from(PEOPLE))
async def test_whatever_is_done_to_a_token_it_says_the_same_or_nothing(
    data: st.DataObject, signer: Signer
) -> None:
    checker = CheckTokenActivity([KNOWN])
    token = signer.signed(GOOD)
    place = data.draw(st.integers(0, len(token) - 1))
    upto = data.draw(st.integers(place, min(len(token), place + 3)))
    text = st.text("ABCabc019-_.= \n\x00é", max_size=4) | st.text(max_size=3)
    changed = token[:place] + data.draw(text) + token[upto:]
    try:
        answer = await said(checker, changed)
    except ApplicationError as error:
        answer = {"refused as": error.type}
    known = {**GOOD, "id": sha256(compact(GOOD)).hexdigest()}
    assert answer == (known if changed == token else {"refused as": "invalid_token"})


@settings(max_examples=200, deadline=None)
@given(header=st.binary(max_size=60), payload=st.binary(max_size=200), raw=st.text(max_size=300))
async def test_no_text_is_too_strange(header: bytes, payload: bytes, raw: str) -> None:
    checker = CheckTokenActivity([KNOWN])
    for token in (raw, ADA.raw(header, payload), ADA.raw(b'{"alg":"EdDSA"}', payload)):
        with pytest.raises(ApplicationError) as refused:
            await said(checker, token)
        assert refused.value.type == "invalid_token"


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JSON = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=3), SCALARS)


@settings(max_examples=200, deadline=None)
@given(
    header=st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "jwk", "b64"]), JSON),
    claims=st.dictionaries(
        st.sampled_from([*GOOD, "aud", "iss", "nbf", "iat", "jti", "scope", "callId", "id"]), JSON
    ),
    purpose=st.sampled_from(["decision", "principal"]),
)
async def test_no_value_is_too_strange(
    header: dict[str, Any], claims: dict[str, Any], purpose: Purpose
) -> None:
    made = (json.dumps(part).encode() for part in ({"alg": "EdDSA"} | header, GOOD | claims))
    try:
        answer = await said(CheckTokenActivity([KNOWN]), ADA.raw(*made), purpose)
    except ApplicationError as error:
        answer = {"refused as": error.type}
    assert set(answer) in ({"refused as"}, {"id", "scopes"}) or answer["id"]
    assert answer.get("refused as", "invalid_token") == "invalid_token"
    json.dumps(answer, allow_nan=False, ensure_ascii=False).encode()

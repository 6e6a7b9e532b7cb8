"""§7, §11: which tokens count, and every way to have another count in their place."""

import hmac
import json
import time
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as ec_key
from hypothesis import given
from hypothesis import strategies as st
from temporalio.exceptions import ApplicationError

from holdfast.activities.check_token import CheckTokenActivity
from holdfast.runtime.identity.key_matching import MAX_KEYS_TRIED
from holdfast.runtime.identity.key_sets import FileKeySet, LiveKeySet, UrlKeySet
from holdfast.runtime.identity.public_keys import MAX_KEYS, parse_key_set
from holdfast.runtime.settings_files.source import Source
from holdfast.schemas.base import rfc3339
from holdfast.schemas.decision import MAX_TOKEN_CHARACTERS, DecisionClaims, PrincipalClaims, Purpose
from holdfast.schemas.settings.keys import AUDIENCES, KeySet
from tests.support.identity.signing import (
    ADA,
    BOB,
    DIGEST,
    EVE,
    GOOD_FOR_SECONDS,
    NONCE,
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
    file = folder / f"{name}.json"
    file.write_text(jwks(*signers))
    return FileKeySet(name, KeySet.model_validate({"file": str(file), **said}), file)


@pytest.fixture
def people(tmp_path: Path) -> CheckTokenActivity:
    return CheckTokenActivity([key_set(tmp_path, *PEOPLE)])


async def verified(
    checker: CheckTokenActivity, token: str, purpose: Purpose = "decision", **more: Any
) -> dict[str, Any]:
    held = {"token": token, "purpose": purpose, "nonce": NONCE, "runs": ["order-7"], **more}
    return await checker.check_token(held)


async def refusal(
    checker: CheckTokenActivity, token: str, purpose: Purpose = "decision", **more: Any
) -> str:
    """Why a token is rejected: in a sentence, for ever, and without the token."""
    with pytest.raises(ApplicationError) as refused:
        await verified(checker, token, purpose, **more)
    error = refused.value
    assert (error.type, error.non_retryable) == ("invalid_token", True)
    assert error.__cause__ is None
    assert "\n" not in error.message
    parts = [part for part in token.split(".") if len(part) > 8]
    assert not any(part in error.message for part in [*parts, "order-7", DIGEST])
    return error.message


async def check(checker: CheckTokenActivity, token: str, why: str | None, **more: Any) -> None:
    """A token of Ada's counts, or is refused with these words."""
    if why is None:
        assert (await verified(checker, token, **more))["sub"] == "ada"
    else:
        assert why in await refusal(checker, token, **more)


def principal(**claims: Any) -> dict[str, Any]:
    own = {"sub": "ada", "aud": AUDIENCES["principals"], "jti": "order-7"}
    return {**own, "exp": int(time.time()) + GOOD_FOR_SECONDS, **claims}


def compact(claims: dict[str, Any]) -> bytes:
    return json.dumps(claims, separators=(",", ":")).encode()


# The claims of a good token.


@pytest.mark.parametrize("signer", PEOPLE, ids=["Ada", "Bob", "RSA"])
async def test_a_decision_that_a_known_person_has_signed_counts(
    people: CheckTokenActivity, signer: Signer
) -> None:
    token = signer.token(groups=["finance"], callId="t1c1", decision="deny", remember=True)
    claims = DecisionClaims.read(await verified(people, token))
    assert (claims.sub, claims.groups, claims.digest) == ("ada", ["finance"], DIGEST)
    assert (claims.workflow_id, claims.call_id, claims.decision) == ("order-7", "t1c1", "deny")
    assert claims.remember


async def test_a_subject_is_known_by_what_a_person_sees_of_it(people: CheckTokenActivity) -> None:
    token = ADA.token(sub="\u2800a\ufe0fda\u3164")
    assert (await verified(people, token))["sub"] == "ada"
    token = ADA.signed(principal(sub="ada\U000e0061"))
    assert (await verified(people, token, "principal"))["id"] == "ada"
    await check(people, ADA.token(sub="\u3164"), "`sub` is not of its type")


async def test_a_principal_of_another_issuer_is_another_one(tmp_path: Path) -> None:
    partner: Any = {"issuer": "https://partner.example", "for": ["principals"]}
    token = ADA.signed(principal(iss="https://partner.example"))
    for subject in ("{sub} @ https://partner.example", "{sub}@partner", "ada"):
        people = CheckTokenActivity([key_set(tmp_path, ADA, subject=subject, **partner)])
        assert (await verified(people, token, "principal"))["id"] == subject.replace("{sub}", "ada")


async def test_no_subject_poses_as_one_of_another_issuer(people: CheckTokenActivity) -> None:
    for mark in (" @ ", " @\u200b ", " \u200b@ "):
        sub = f"ada{mark}https://partner.example"
        await check(people, ADA.token(sub=sub), "`sub` has ` @ `, which marks an issuer")


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
    written = {**principal(), **claims}
    token = ADA.signed(written, {"typ": "at+jwt"})
    known = PrincipalClaims.read(await verified(people, token, "principal"))
    assert (known.id, known.scopes) == ("ada", scopes)
    assert known.expires_at is not None
    assert known.expires_at.timestamp() == written["exp"]


async def test_a_token_is_known_by_what_was_signed_and_not_by_the_signature(
    people: CheckTokenActivity,
) -> None:
    claims = decision(id="0" * 64)
    ids = {(await verified(people, signer.signed(claims)))["id"] for signer in PEOPLE}
    assert ids == {sha256(compact(claims)).hexdigest()}
    assert (await verified(people, ADA.signed({**claims, "jti": "2"})))["id"] not in ids


async def test_without_an_id_of_its_key_every_key_of_its_algorithm_is_tried(
    people: CheckTokenActivity,
) -> None:
    for signer in PEOPLE:
        assert (await verified(people, Signer(signer.private, None).token()))["sub"] == "ada"


async def test_more_keys_than_that_are_not_tried(tmp_path: Path) -> None:
    signers = [Signer(ed25519_key(number), f"k{number}") for number in range(MAX_KEYS_TRIED + 1)]
    sets = [
        key_set(tmp_path, *signers[first : first + MAX_KEYS], name=f"s{first}")
        for first in range(0, len(signers), MAX_KEYS)
    ]
    nameless = Signer(ed25519_key(MAX_KEYS_TRIED), None)
    assert "name it with a `kid`" in await refusal(CheckTokenActivity(sets), nameless.token())
    assert (await verified(CheckTokenActivity(sets), signers[-1].token()))["sub"] == "ada"


async def test_a_key_without_an_id_is_tried_on_every_token(tmp_path: Path) -> None:
    checker = CheckTokenActivity([key_set(tmp_path, Signer(ADA.private, None))])
    assert (await verified(checker, ADA.token()))["sub"] == "ada"
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
    """A token that is signed well, under another header."""
    said = {"alg": signer.algorithm, "kid": signer.key_id, **header}
    kept = {name: value for name, value in said.items() if value is not None}
    return signer.raw(json.dumps(kept).encode(), json.dumps(decision()).encode())


def _with(token: str, place: int, value: dict[str, Any]) -> str:
    """The token, with another header or payload under its signature."""
    parts = token.split(".")
    parts[place] = base64url(json.dumps(value).encode())
    return ".".join(parts)


def _spare(token: str) -> str:
    """The same bytes in other letters: of the last of 86, two bits mean nothing."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]


def of_payload(payload: bytes, header: bytes = b'{"alg":"EdDSA"}') -> str:
    return ADA.raw(header, payload)


WELL = decision()
WELL_BYTES = json.dumps(WELL).encode()
BOTH_ALGORITHMS = b'{"alg":"none","alg":"EdDSA","kid":"k1"}'
RAW_KEY = ADA.private.public_key().public_bytes_raw()
# By their claims.
FORGERIES: dict[str, dict[str, str]] = {
    "`alg` is not accepted": {
        "none, with one": forged({"alg": "none"}, WELL, b"x"),
        "none, in capitals": forged({"alg": "NONE"}, WELL, b"x"),
        "no algorithm": forged({"kid": "k1"}, WELL, b"x"),
        "a list of algorithms": as_other(ADA, alg=["EdDSA"]),
        "HS256 with the public key": hmac_with(rsa().pem().encode()),
        "ES256": jwt.encode(WELL, ec_key(SECP256R1()), "ES256"),
        "RS512 with a known key": jwt.encode(WELL, rsa_key(0), "RS512", {"kid": "r1"}),
        "PS256 with a known key": jwt.encode(WELL, rsa_key(0), "PS256", {"kid": "r1"}),
    },
    "signature is wrong": {
        "HS256 with the public key, called RS256": hmac_with(rsa().pem().encode(), "RS256"),
        "HS256 with the raw public key, called EdDSA": hmac_with(RAW_KEY, "EdDSA", kid="k1"),
        "an unknown key with the id of another": EVE.token(),
        "a known key with the id of another": Signer(ADA.private, "k2").token(),
        "an unknown key without an id": Signer(EVE.private, None).token(),
        "its own key": EVE.token({"jwk": EVE.jwk()}),
        "its own key's address": EVE.token({"jku": "https://eve.example/jwks.json"}),
        "its own certificate": EVE.token({"x5c": ["MIIB"], "x5u": "https://eve.example"}),
        "another claim": _with(ADA.token(), 1, decision(sub="eve")),
        "another header": _with(ADA.token(), 0, {"alg": "EdDSA", "kid": "k1", "typ": "jwt"}),
        "no signature of Ada's": ADA.token().rpartition(".")[0] + "." + "A" * 86,
    },
    "not that of its key": {
        "an EdDSA key as RS256": as_other(ADA, alg="RS256"),
        "an RSA key as EdDSA": as_other(rsa(), alg="EdDSA"),
    },
    "does not have the token's key": {
        "a key of an unknown id": Signer(ADA.private, "k9").token(),
        "a path as the key's id": Signer(EVE.private, "../../dev/null").token(),
    },
    "no name of a key": {
        "a key's id that is no text": as_other(ADA, kid=1),
        "an empty id of a key": as_other(ADA, kid=""),
        "an endless id of a key": as_other(ADA, kid="k" * 501),
    },
    "a field that is not supported": {
        "what must be understood": as_other(ADA, crit=["exp"], exp=1),
        "a payload that is not encoded": as_other(ADA, crit=["b64"], b64=False),
        "one token in another": as_other(ADA, cty="JWT"),
    },
    "lacks `nonce`": {"a token of a principal": ADA.token(nonce=None, scopes=["all"])},
    "another type": {"a token of another kind": as_other(ADA, typ="logout+jwt")},
    "no JWT": {
        "no signature": forged({"alg": "none"}, WELL),
        "an empty text": "",
        "two parts": ADA.token().rpartition(".")[0],
        "four parts": ADA.token() + ".AAAA",
        "as JSON": json.dumps({"payload": "AAAA", "signatures": []}),
        "padded": ADA.token() + "==",
        "with white space": ADA.token() + "\n",
        "in plain base64": ADA.token().replace("-", "+").replace("_", "/") + "+",
        "in letters of another kind": "ａ" + ADA.token()[1:],
    },
    "encrypted": {"encrypted": ".".join(["AAAA"] * 5)},
    "base64url": {"with bits to spare": _spare(ADA.token()), "cut off": ADA.token()[:-1]},
    "too long": {"too long": "A" * (MAX_TOKEN_CHARACTERS - 4) + ".AA.AA"},
    "no JSON object": {
        "no object": of_payload(b"[1]"),
        "a header that is none": of_payload(b"{}", header=b"1"),
    },
    "is not valid, unambiguous JSON": {
        "no JSON": of_payload(b"{"),
        "an algorithm twice": of_payload(WELL_BYTES, header=BOTH_ALGORITHMS),
        "a claim twice": of_payload(b'{"sub":"eve",' + WELL_BYTES[1:]),
        "in UTF-16": of_payload(json.dumps(WELL).encode("utf-16")),
        "behind a mark of its bytes' order": of_payload(b"\xef\xbb\xbf" + WELL_BYTES),
        "half a character": ADA.token(sub="\ud800"),
        "a number that is none": ADA.token(extra=float("nan")),
        "a number that is too large": of_payload(b'{"extra":1e999}'),
        "endless digits": of_payload(b'{"exp":' + b"9" * 5000 + b"}"),
        "a deep payload": of_payload(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"),
    },
    "too deep": {"a rather deep one": of_payload(b'{"a":' + b"[" * 70 + b"]" * 70 + b"}")},
}


@pytest.mark.parametrize(
    ("why", "name"), [(why, name) for why, names in FORGERIES.items() for name in names]
)
async def test_a_forgery_is_rejected(people: CheckTokenActivity, why: str, name: str) -> None:
    assert why in await refusal(people, FORGERIES[why][name])


# Dates.

NOW = 1_800_000_000


@pytest.fixture
def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Clock":
            return cls.fromtimestamp(NOW, tz)

    monkeypatch.setattr("jwt.api_jwt.datetime", Clock)


FOR = {"audience": "holdfast", "for": ["decisions"]}
OURS = AUDIENCES["decisions"]
BY = {"issuer": "https://id.example"}
HERS = {"subject": "ada", "groups": ["desk", "ops"]}


@pytest.mark.parametrize(
    ("wanted", "claims", "why"),
    [
        ({}, {"exp": NOW + 1}, None),
        ({}, {"exp": NOW - 29}, None),
        ({}, {"exp": NOW - 30}, "has expired"),
        ({"leeway": "1s"}, {"exp": NOW - 1}, "has expired"),
        ({}, {"nbf": NOW + 30}, None),
        ({}, {"nbf": NOW + 31}, "not valid yet"),
        ({}, {"iat": NOW + 30}, None),
        ({}, {"iat": NOW + 31}, "not valid yet"),
        ({}, {"iat": None}, None),
        ({}, {"exp": None}, "lacks `exp`"),
        ({}, {"exp": str(NOW + 60)}, "`exp` is no time"),
        ({}, {"exp": True}, "`exp` is no time"),
        ({}, {"exp": None, "expires": NOW + 60}, "lacks `exp`"),
        ({}, {"exp": 10**30}, "`exp` is no time"),
        ({}, {"exp": -1}, "`exp` is no time"),
        ({}, {"nbf": "soon"}, "`nbf` is no time"),
        ({}, {"iat": [NOW]}, "`iat` is no time"),
        ({}, {"aud": None}, "lacks `aud`"),
        ({}, {"aud": "holdfast"}, "for another audience (`aud`): sign one for `holdfast:decision`"),
        ({}, {"aud": ["a", "b"]}, "for another audience"),
        ({}, {"aud": [OURS, "other"]}, None),
        ({}, {"aud": [OURS, AUDIENCES["inbox"]]}, "lists several uses"),
        (FOR, {"aud": ["holdfast", AUDIENCES["principals"]]}, "lists several uses"),
        (FOR, {"aud": None}, "lacks `aud`"),
        (FOR, {}, "for another audience"),
        (FOR, {"aud": "other"}, "for another audience"),
        (FOR, {"aud": "holdfast"}, None),
        (FOR, {"aud": ["other", "holdfast"]}, None),
        (FOR, {"aud": []}, "`aud` is neither"),
        ({}, {"aud": []}, "`aud` is neither"),
        ({}, {"aud": ""}, "`aud` is neither"),
        ({}, {"aud": {"holdfast": 1}}, "`aud` is neither"),
        ({}, {"iss": "anybody"}, None),
        (BY, {"iss": "https://id.example"}, None),
        (BY, {"iss": "https://id.example/"}, "another issuer"),
        (BY, {}, "lacks `iss`"),
        (BY, {"iss": ["https://id.example"]}, "`iss` is no text"),
        (HERS, {"groups": ["desk"]}, None),
        (HERS, {}, None),
        (HERS, {"sub": "a\ufe0fda\u3164"}, None),
        (HERS, {"sub": "bob"}, "does not belong to its subject"),
        (HERS, {"sub": None}, "lacks `sub`"),
        (HERS, {"groups": ["desk", "finance"]}, "does not sign for one of its `groups`"),
    ],
)
@pytest.mark.usefixtures("at_noon")
async def test_a_token_counts_in_its_time_for_its_audience_and_by_its_issuer_and_subject(
    tmp_path: Path, wanted: dict[str, Any], claims: dict[str, Any], why: str | None
) -> None:
    checker = CheckTokenActivity([key_set(tmp_path, ADA, **wanted)])
    await check(checker, ADA.token(**{"exp": NOW + 60, "iat": NOW - 60, **claims}), why)


@pytest.mark.parametrize(
    ("issued", "why"), [(-31, "older than the approval"), (-29, None), (0, None), (None, None)]
)
async def test_a_token_that_is_older_than_its_question_is_rejected(
    people: CheckTokenActivity, issued: int | None, why: str | None
) -> None:
    asked_at = datetime.fromtimestamp(int(time.time()), UTC)
    issued_at = None if issued is None else asked_at.timestamp() + issued
    await check(people, ADA.token(iat=issued_at), why, since=rfc3339(asked_at))


async def test_one_key_in_two_sets_counts_by_the_rules_of_either(tmp_path: Path) -> None:
    own = {"for_": ["decisions"]}
    sets = [key_set(tmp_path, ADA, name=name, audience=name, **own) for name in ("ops", "desk")]
    for audience in ("ops", "desk"):
        assert (await verified(CheckTokenActivity(sets), ADA.token(aud=audience)))["sub"] == "ada"
    assert "for another audience" in await refusal(CheckTokenActivity(sets), ADA.token(aud="shop"))


# What for.


async def test_a_set_for_principals_signs_no_decision_nor_the_other_way_round(
    tmp_path: Path,
) -> None:
    sets = [
        key_set(tmp_path, ADA, name="people", for_=["decisions"]),
        key_set(tmp_path, BOB, name="services", for_=["principals"]),
    ]
    checker = CheckTokenActivity(sets)
    assert (await verified(checker, ADA.token()))["sub"] == "ada"
    assert (await verified(checker, BOB.signed(principal()), "principal"))["id"] == "ada"
    assert "does not have the token's key" in await refusal(checker, BOB.token())
    assert "does not have the token's key" in await refusal(
        checker, ADA.signed(principal()), "principal"
    )


async def test_the_nonce_of_a_decision_is_that_of_its_question() -> None:
    keyless = CheckTokenActivity([])
    assert await verified(keyless, NONCE, "question") == {}
    assert "another attempt or execution" in await refusal(keyless, NONCE[::-1], "question")


async def test_without_keys_for_it_no_token_counts(tmp_path: Path) -> None:
    why = "this worker has no keys to check decisions with: see its option `--keys`"
    assert await refusal(CheckTokenActivity([]), ADA.token()) == why
    services = CheckTokenActivity([key_set(tmp_path, ADA, for_=["principals"])])
    assert await refusal(services, ADA.token()) == why


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"sub": None}, "lacks `sub`"),
        ({"sub": ""}, "`sub` is not of its type"),
        ({"sub": 7}, "`sub` is no text"),
        ({"sub": "a" * 201}, "`sub` is not of its type, or too long"),
        ({"digest": None}, "lacks `digest`"),
        ({"digest": DIGEST[:-1]}, "`digest` is no SHA-256"),
        ({"digest": DIGEST.upper()}, "`digest` is no SHA-256"),
        ({"digest": 7}, "`digest` is not of its type"),
        ({"nonce": None}, "lacks `nonce`"),
        ({"nonce": "f" * 63}, "`nonce` is no SHA-256"),
        ({"nonce": [NONCE]}, "`nonce` is not of its type"),
        ({"nonce": "f" * 64}, "another approval, or another execution of the run"),
        ({"workflowId": None}, "lacks `workflowId`"),
        ({"workflowId": None, "workflow_id": "order-8"}, "lacks `workflowId`"),
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
async def test_the_claims_of_a_decision_are_read_strictly(
    people: CheckTokenActivity, claims: dict[str, Any], why: str
) -> None:
    assert why in await refusal(people, ADA.token(**claims))


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"digest": DIGEST}, "is for a decision"),
        ({"workflowId": "order-7"}, "is for a decision"),
        ({"decision": "approve"}, "is for a decision"),
        ({"sub": None}, "lacks `sub`"),
        ({"exp": None}, "lacks `exp`"),
        ({"exp": 1}, "has expired"),
        ({"scopes": "orders:read"}, "`scopes` is not of its type"),
        ({"jti": None}, "is not for this run: sign one with its workflow id as `jti`"),
        ({"jti": "order-8"}, "is not for this run"),
        ({"jti": "order-7.t1c1"}, "is not for this run"),
        ({"scopes": ["a", None]}, "`scopes` is not of its type"),
        ({"scope": ["orders:read"]}, "`scope` is no text"),
        ({"scopes": [], "scope": "orders:refund"}, "both `scopes` and `scope`"),
    ],
)
async def test_the_claims_of_a_principal_are_read_strictly(
    people: CheckTokenActivity, claims: dict[str, Any], why: str
) -> None:
    own = {"digest": None, "workflowId": None, "aud": AUDIENCES["principals"], "jti": "order-7"}
    token = ADA.token(**{**own, **claims})
    assert why in await refusal(people, token, "principal")


async def test_what_a_later_version_asks_is_refused_without_the_token(
    people: CheckTokenActivity,
) -> None:
    token = ADA.token()
    with pytest.raises(ApplicationError, match="does not know how") as refused:
        await people.check_token({"token": token, "purpose": "payment"})
    assert token not in str(refused.value)
    assert refused.value.non_retryable


# Sets that are not available.


async def test_an_unavailable_key_set_is_requested_again_and_named(tmp_path: Path) -> None:
    def down(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async with httpx.AsyncClient(transport=httpx.MockTransport(down)) as http:
        url = "https://id.example/jwks.json"
        remote = UrlKeySet("provider", KeySet(url=url), httpx.URL(url), http)
        checker = CheckTokenActivity([remote, key_set(tmp_path, ADA)])
        with pytest.raises(ApplicationError) as unchecked:
            await verified(checker, BOB.token())
        assert "has expired" in await refusal(checker, ADA.token(exp=1))
        assert (await verified(checker, ADA.token()))["sub"] == "ada"
    error = unchecked.value
    assert (error.type, error.non_retryable) == ("keys_unavailable", False)
    assert error.message == "the key set `provider` is not available now: see the worker's log"


# Whatever is done to a good token.

GOOD = {**decision(iat=None), "exp": 2**37, "groups": ["finance"]}


class Known(LiveKeySet):
    def __init__(self, keys: Any) -> None:
        super().__init__("people", KeySet(file="-"))
        self._known = keys

    async def _renewed(self, is_lacking: bool) -> Any:
        return self._known


KNOWN = Known(parse_key_set(Source("", json.loads(jwks(*PEOPLE)))))


@given(data=st.data(), signer=st.sampled_from(PEOPLE))
async def test_a_changed_token_has_the_same_claims_or_is_refused(
    data: st.DataObject, signer: Signer
) -> None:
    checker = CheckTokenActivity([KNOWN])
    token = signer.signed(GOOD)
    place = data.draw(st.integers(0, len(token) - 1))
    upto = data.draw(st.integers(place, min(len(token), place + 3)))
    text = st.text("ABCabc019-_.= \n\x00é", max_size=4) | st.text(max_size=3)
    changed = token[:place] + data.draw(text) + token[upto:]
    try:
        answer = await verified(checker, changed)
    except ApplicationError as error:
        answer = {"refused as": error.type}
    known = {**GOOD, "id": sha256(compact(GOOD)).hexdigest()}
    del known["aud"]
    assert answer == (known if changed == token else {"refused as": "invalid_token"})


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JSON = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(max_size=3), SCALARS)


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
        answer = await verified(CheckTokenActivity([KNOWN]), ADA.raw(*made), purpose)
    except ApplicationError as error:
        answer = {"refused as": error.type}
    assert set(answer) in ({"refused as"}, {"id", "scopes"}) or answer["id"]
    assert answer.get("refused as", "invalid_token") == "invalid_token"
    json.dumps(answer, allow_nan=False, ensure_ascii=False).encode()


async def test_a_token_of_a_decision_that_is_read_late_counts_by_its_dates_then(
    people: CheckTokenActivity,
) -> None:
    now = time.time()
    token = ADA.token(exp=now - 3_600, iat=now - 9_000)
    sent_at = rfc3339(datetime.fromtimestamp(now - 7_200, UTC))
    assert (await verified(people, token, sentAt=sent_at))["sub"] == "ada"
    assert "expired" in await refusal(people, token)
    late = rfc3339(datetime.fromtimestamp(now - 1_800, UTC))
    assert "expired" in await refusal(people, token, sentAt=late)
    for claim in ("iat", "nbf"):
        claims: dict[str, Any] = {claim: now - 3_000}
        early = ADA.token(**claims)
        assert "not valid yet" in await refusal(people, early, sentAt=sent_at)

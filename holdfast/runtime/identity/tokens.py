"""Parse a signed token in its compact form (RFC 7515) so that every parser would read the same.

An ambiguous token is rejected: a repeated name, base64 that is not in its shortest form, a text
that is not UTF-8, a number that is not finite. Signatures are not verified here.

A token is about a decision or about a principal, and is for one of the two. Its claims are read
strictly and under one name each: no value is converted to a type that the issuer may have meant.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self, TypeVar

from jwt.utils import base64url_decode, base64url_encode
from pydantic import ValidationError

from holdfast.runtime.identity.public_keys import MAX_KEY_ID_CHARACTERS
from holdfast.schemas.base import MAX_JSON_DEPTH, is_deeper, sha256
from holdfast.schemas.decision import MAX_TOKEN_CHARACTERS, DecisionClaims, PrincipalClaims
from holdfast.schemas.settings.keys import SUB
from holdfast.validation.text_safety import ISSUER_MARK, plain_name

ALGORITHMS = ("EdDSA", "RS256")
# Seconds since 1970: the year 9999, the last of `datetime`.
MAX_DATE_SECONDS = 253_402_300_799
_COMPACT = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_TYPES = ("jwt", "at+jwt")
_DATES = ("exp", "nbf", "iat")
_TEXTS = ("iss", "sub", "jti")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIGESTS = ("digest", "nonce", "resultDigest")
# The claims that only a token about a decision has. (`nonce` is one of OpenID's, too.)
_OF_DECISIONS = ("digest", "workflowId", "callId", "decision", "resultDigest", "remember")

Claims = TypeVar("Claims", DecisionClaims, PrincipalClaims)


class InvalidTokenError(Exception):
    """A token that is rejected: the reason and what to do, without any part of the token."""


@dataclass(frozen=True)
class SignedToken:
    """A token: its text, the key of its header, and its unverified claims.

    `payload` is the signed bytes that hold the claims.
    """

    text: str
    algorithm: str
    key_id: str | None
    payload: bytes
    claims: Mapping[str, Any]

    @property
    def audiences(self) -> list[str]:
        """Return its `aud`, which is a text or a list."""
        listed = self.claims.get("aud", [])
        return listed if isinstance(listed, list) else [listed]

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse a token without verifying it.

        Raises:
            InvalidTokenError: the text is not a token, or not a supported one.
        """
        if len(text) > MAX_TOKEN_CHARACTERS:
            raise InvalidTokenError(
                f"the token is too long: sign one of at most {MAX_TOKEN_CHARACTERS}"
            )
        parts = _COMPACT.fullmatch(text)
        if parts is None:
            what = "encrypted" if text.count(".") == 4 else "no JWT"
            raise InvalidTokenError(
                f"the token is {what}: send a signed one, three parts with dots between"
            )
        decoded = []
        for part in parts.groups():
            try:
                data = base64url_decode(part)
            except ValueError:
                data = b""
            # Only the one canonical spelling is accepted.
            if base64url_encode(data).decode() != part:
                raise InvalidTokenError("the token is no JWT: one of its parts is no base64url")
            decoded.append(data)
        header, payload, _ = decoded
        algorithm, key_id = _algorithm_and_key(_object(header, "header"))
        claims = _object(payload, "payload")
        _check_types(claims)
        return cls(text, algorithm, key_id, payload, claims)


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(data.decode(), object_pairs_hook=_once)
        # Only JSON that can be written again: no `NaN`, no half of a surrogate pair.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise InvalidTokenError(f"the token's {what} is not valid, unambiguous JSON") from None
    if not isinstance(value, dict) or is_deeper(value, MAX_JSON_DEPTH):
        raise InvalidTokenError(f"the token's {what} is no JSON object, or too deep")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name occurs twice")
    return dict(pairs)


def _algorithm_and_key(header: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the algorithm and the id of the key; other fields about keys are ignored."""
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise InvalidTokenError("the token's `alg` is not accepted: sign with EdDSA or RS256")
    if key_id is not None and not (
        isinstance(key_id, str) and 0 < len(key_id) <= MAX_KEY_ID_CHARACTERS
    ):
        raise InvalidTokenError("the token's `kid` is no name of a key")
    if not header.keys().isdisjoint(("crit", "b64", "cty")):
        raise InvalidTokenError(
            "the token's header has a field that is not supported (`crit`, `b64` or `cty`)"
        )
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
        raise InvalidTokenError("the token is of another type (`typ`): sign a `JWT`")
    return algorithm, key_id


def _check_types(claims: Mapping[str, Any]) -> None:
    """Check the types of registered claims: some libraries read a string as a number."""
    for name in _DATES:
        date = claims.get(name, 0)
        is_number = isinstance(date, int | float) and not isinstance(date, bool)
        if not is_number or not 0 <= date <= MAX_DATE_SECONDS:
            raise InvalidTokenError(f"the token's `{name}` is no time: write seconds since 1970")
    for name in _TEXTS:
        if not isinstance(claims.get(name, ""), str):
            raise InvalidTokenError(f"the token's `{name}` is no text")
    if ISSUER_MARK in plain_name(claims.get("sub", "")):
        raise InvalidTokenError(f"the token's `sub` has `{ISSUER_MARK}`, which marks an issuer")
    audience = claims.get("aud", "nobody")
    listed = audience if isinstance(audience, list) else [audience]
    if not listed or not all(isinstance(each, str) and each for each in listed):
        raise InvalidTokenError("the token's `aud` is neither a text nor a list of texts")


def decision_claims(token: SignedToken) -> DecisionClaims:
    """Return the claims of a verified token about a decision, identified by the signed payload.

    Raises:
        InvalidTokenError: a claim is missing or invalid.
    """
    if "nonce" not in token.claims:
        raise InvalidTokenError("the token lacks `nonce`: sign that of the pending approval")
    for name in _DIGESTS:
        claim = token.claims.get(name)
        if isinstance(claim, str) and not _DIGEST.fullmatch(claim):
            raise InvalidTokenError(
                f"the token's `{name}` is no SHA-256: write its 64 hexadecimal digits"
            )
    named = {"sub": plain_name(token.claims["sub"])} if "sub" in token.claims else {}
    return _read(DecisionClaims, {**token.claims, **named, "id": sha256(token.payload)}, {})


def principal_claims(
    token: SignedToken, subject: str | None = None, team: str | None = None
) -> dict[str, Any]:
    """Return the claims of a verified token about a principal, as JSON.

    The `subject` of its key set may write the name: `{sub}@partner`; `team` is the claim that names
    the team.

    Raises:
        InvalidTokenError: a claim is missing or invalid.
    """
    if not token.claims.keys().isdisjoint(_OF_DECISIONS):
        raise InvalidTokenError(
            "the token is for a decision: sign one for the principal, without fields of a decision"
        )
    scopes = token.claims.get("scopes", [])
    match token.claims:
        case {"scopes": _, "scope": _}:
            raise InvalidTokenError(
                "the token has both `scopes` and `scope`: sign one with one of them"
            )
        case {"scope": str(scope)}:
            scopes = scope.split()
        case {"scope": _}:
            raise InvalidTokenError(
                "the token's `scope` is no text: write the scopes with spaces between"
            )
    sub = plain_name(token.claims.get("sub", ""))
    written = subject if sub and subject and SUB in subject else SUB
    who = {"id": written.replace(SUB, sub)} if "sub" in token.claims else {}
    until = datetime.fromtimestamp(token.claims["exp"], UTC)
    claims = {**who, "scopes": scopes, "expiresAt": until}
    if team is not None and team in token.claims:
        claims["team"] = token.claims[team]
    return _read(PrincipalClaims, claims, {"id": "sub"}).to_json()


def _read(model: type[Claims], said: Mapping[str, Any], spelt: Mapping[str, str]) -> Claims:
    """Return the claims; `spelt` maps names in the token to names here."""
    try:
        return model.model_validate(said, by_alias=True, by_name=False, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = str(first["loc"][0])
        name = spelt.get(name, name)
    if first["type"] == "missing":
        raise InvalidTokenError(f"the token lacks `{name}`: sign one with it")
    raise InvalidTokenError(f"the token's `{name}` is not of its type, or too long")

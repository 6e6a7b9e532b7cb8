"""Parse a signed token in its compact form (RFC 7515) so that every parser would read the same.

An ambiguous token is rejected: a repeated name, base64 that is not in its shortest form, a text
that is not UTF-8, a number that is not finite. Signatures are not verified here.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from jwt.utils import base64url_decode, base64url_encode

from holdfast.runtime.identity.public_keys import MAX_KEY_ID_CHARACTERS
from holdfast.schemas.base import MAX_JSON_DEPTH, is_deeper
from holdfast.schemas.decision import MAX_TOKEN_CHARACTERS

ALGORITHMS = ("EdDSA", "RS256")
# Seconds since 1970: some ten thousand years.
MAX_DATE_SECONDS = 2**38
_COMPACT = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_TYPES = ("jwt", "at+jwt")
_DATES = ("exp", "nbf", "iat")
_TEXTS = ("iss", "sub", "jti")


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
        header, payload, _ = (_decoded(part) for part in parts.groups())
        said = _object(header, "header")
        algorithm, key_id = _of_header(said)
        claims = _object(payload, "payload")
        _check_types(claims)
        return cls(text, algorithm, key_id, payload, claims)


def _decoded(part: str) -> bytes:
    """Decode a part; only its one canonical spelling is accepted."""
    try:
        data = base64url_decode(part)
    except ValueError:
        data = b""
    if base64url_encode(data).decode() != part:
        raise InvalidTokenError("the token is no JWT: one of its parts is no base64url")
    return data


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(data.decode(), object_pairs_hook=_once)
        # Only JSON that can be written again: no `NaN`, no half of a surrogate pair.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise InvalidTokenError(
            f"the token's {what} is no JSON that can be read in one way"
        ) from None
    if not isinstance(value, dict) or is_deeper(value, MAX_JSON_DEPTH):
        raise InvalidTokenError(f"the token's {what} is no JSON object, or too deep")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)


def _of_header(header: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the algorithm and the id of the key; other fields about keys are ignored."""
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise InvalidTokenError("the token's `alg` is not taken: sign with EdDSA or RS256")
    if key_id is not None and not (
        isinstance(key_id, str) and 0 < len(key_id) <= MAX_KEY_ID_CHARACTERS
    ):
        raise InvalidTokenError("the token's `kid` is no name of a key")
    if any(name in header for name in ("crit", "b64", "cty")):
        raise InvalidTokenError(
            "the token's header asks for more than is done (`crit`, `b64` or `cty`)"
        )
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
        raise InvalidTokenError("the token is of another type (`typ`): sign a `JWT`")
    return algorithm, key_id


def _check_types(claims: Mapping[str, Any]) -> None:
    """Check the types of registered claims: some libraries read a string as a number."""
    for name in _DATES:
        if name in claims and not _is_date(claims[name]):
            raise InvalidTokenError(f"the token's `{name}` is no time: write seconds since 1970")
    for name in _TEXTS:
        if not isinstance(claims.get(name, ""), str):
            raise InvalidTokenError(f"the token's `{name}` is no text")
    audience = claims.get("aud", "nobody")
    listed = audience if isinstance(audience, list) else [audience]
    if not listed or not all(isinstance(each, str) and each for each in listed):
        raise InvalidTokenError("the token's `aud` is neither a text nor a list of texts")


def _is_date(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and 0 <= value <= MAX_DATE_SECONDS

"""The claims of a token about a decision, or about a principal.

A token is for one of the two. Its claims are read strictly and under one name each: no value is
converted to a type that the issuer may have meant.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from holdfast.runtime.identity.jws import InvalidTokenError, SignedToken
from holdfast.schemas.base import sha256
from holdfast.schemas.decision import DecisionClaims, PrincipalClaims

Claims = TypeVar("Claims", DecisionClaims, PrincipalClaims)

_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIGESTS = ("digest", "resultDigest")
# The claims that only a token about a decision has.
_OF_DECISIONS = ("digest", "workflowId", "callId", "decision", "resultDigest", "remember")


def decision_claims(token: SignedToken) -> DecisionClaims:
    """Return the claims of a verified token about a decision, identified by the signed payload.

    Raises:
        InvalidTokenError: a claim is missing or invalid.
    """
    for name in _DIGESTS:
        said = token.claims.get(name)
        if isinstance(said, str) and not _DIGEST.fullmatch(said):
            raise InvalidTokenError(
                f"the token's `{name}` is no SHA-256: write its 64 hexadecimal digits"
            )
    return _read(DecisionClaims, {**token.claims, "id": sha256(token.payload)}, {})


def principal_claims(token: SignedToken) -> dict[str, Any]:
    """Return the claims of a verified token about a principal, as JSON.

    Raises:
        InvalidTokenError: a claim is missing or invalid.
    """
    if not token.claims.keys().isdisjoint(_OF_DECISIONS):
        raise InvalidTokenError(
            "the token is for a decision, and says on nobody's behalf a run may act"
        )
    who = {"id": token.claims["sub"]} if "sub" in token.claims else {}
    said = {**who, "scopes": _scopes(token.claims)}
    return _read(PrincipalClaims, said, {"id": "sub"}).to_json()


def _scopes(claims: Mapping[str, Any]) -> Any:
    match claims:
        case {"scopes": _, "scope": _}:
            raise InvalidTokenError(
                "the token says both `scopes` and `scope`: sign one that says one"
            )
        case {"scope": str(scope)}:
            return scope.split()
        case {"scope": _}:
            raise InvalidTokenError(
                "the token's `scope` is no text: write the scopes with spaces between"
            )
        case _:
            return claims.get("scopes", [])


def _read(model: type[Claims], said: Mapping[str, Any], spelt: Mapping[str, str]) -> Claims:
    """Return the claims; `spelt` maps names in the token to names here."""
    try:
        return model.model_validate(said, by_alias=True, by_name=False, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = str(first["loc"][0])
        name = spelt.get(name, name)
    if first["type"] == "missing":
        raise InvalidTokenError(f"the token does not say `{name}`: sign one that does")
    raise InvalidTokenError(f"the token's `{name}` is not of its type, or too long")

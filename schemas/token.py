"""Tokens: what a signed decision, or a principal's token, says once its signature was checked.

A token is a JWT (RFC 7519), signed with EdDSA on Ed25519 (RFC 8037) or RS256 (RFC 7518). What its
claims say is here; who signed it, and whether it is in date, only the activity `check_token` knows.
"""

import base64
import json
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from holdfast.schemas.base import Lenient

MAX_TOKEN_CHARACTERS = 16_384
_NO_TOKEN = (
    "`token` is no signed decision: it is to be a JWT with `sub`, `groups`, `digest`, `workflowId`"
    " and `exp`"
)

Purpose = Literal["decision", "principal"]


class TokenCheck(Lenient):
    """What `check_token` is asked: whether this is a good token, for this purpose."""

    token: str
    """The JWT."""
    purpose: Purpose
    """What it is to be good for."""
    since: str | None = None
    """Where it says when it was issued (`iat`), that is not to be before this time."""


class DecisionClaims(Lenient):
    """What a token says of a decision.

    Without `decision` it is for an approval or a denial of the very call that `digest` is of. What
    goes beyond has to be signed too: for `edit`, `digest` is of the tool with the arguments as they
    are sent; for `respond` and `happened`, `resultDigest` is of the result; and `remember`.
    """

    sub: Annotated[str, Field(min_length=1, max_length=200)]
    """Who decides."""
    groups: Annotated[list[str], Field(max_length=100)] = []
    """The groups that they decide for."""
    digest: str
    """Of what would be carried out."""
    workflow_id: str
    """The run."""
    exp: float
    """Until when it counts, in seconds since 1970."""
    iat: float | None = None
    """When it was issued: not before the call was asked about."""
    call_id: str | None = None
    """The call; unset, the first that it is used on."""
    decision: str | None = None
    """What was decided."""
    result_digest: str | None = None
    """SHA-256 of the result, as canonical JSON."""
    remember: bool = False
    """Whether it holds for every further call of the tool."""
    id: str = ""
    """By which it is known: the SHA-256 of what was signed. Not a claim; the check adds it."""

    @classmethod
    def unchecked(cls, token: str) -> Self:
        """What a token says, whoever has signed it: to tell soon of what can be no good.

        Raises:
            ValueError: it is no such token.
        """
        try:
            part = token.split(".")[1]
            return cls.read(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))
        except (IndexError, ValueError, RecursionError):
            raise ValueError(_NO_TOKEN) from None


class PrincipalClaims(Lenient):
    """What a token says of a principal."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    """Who it is: `sub`."""
    scopes: list[str] = []
    """What they may do: `scopes`, or `scope`."""

    def to_json(self) -> dict[str, Any]:
        """Every field."""
        return self.model_dump(mode="json", by_alias=True)

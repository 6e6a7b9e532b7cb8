"""Programs, authenticated by JWTs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from holdfast.activities.check_token import check_groups, matching_key_set
from holdfast.runtime.identity.key_sets import KeysUnavailableError, LiveKeySet
from holdfast.runtime.identity.tokens import InvalidTokenError, SignedToken, principal_claims
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.decision import PrincipalClaims
from holdfast.schemas.settings.keys import KEY_RIGHTS
from holdfast.web.auth.sessions import Authentication, Person, build_person
from holdfast.web.http.problems import RefusedRequest, unauthorized


class BearerTokens:
    """Authenticates programs by JWTs, checked as the workers check a principal's.

    The audience is the inbox's own, or `audience`: a principal's token that was read in a history
    is rejected.

    Beside `sub` and `scopes`, a token may have `groups`: the approver groups that the program
    decides for, as far as its key may sign for them. Without keys, no token is accepted.
    """

    def __init__(
        self, seal: TextSealer, sets: Sequence[LiveKeySet] = (), audience: str | None = None
    ) -> None:
        self._seal, self._sets, self._audience = seal, sets, audience

    async def authenticate(self, request: Request) -> Authentication | None:
        """Return the sender; None without a token, or without keys.

        Raises:
            RefusedRequest: the token is rejected, or its keys are not available.
        """
        kind, _, shown = request.headers.get("authorization", "").partition(" ")
        if not self._sets or kind.lower() != "bearer":
            return None
        return Authentication((await self.read(shown.strip()))[0])

    async def read(self, text: str) -> tuple[Person, Mapping[str, Any]]:
        """Return the sender of a token, and its claims; raises as `authenticate` does."""
        try:
            token = SignedToken.read(text)
            settings = await matching_key_set(token, self._sets, "inbox", self._audience)
            claims = PrincipalClaims.read(principal_claims(token))
            groups = token.claims.get("groups", [])
            if not isinstance(groups, list) or not all(isinstance(each, str) for each in groups):
                raise InvalidTokenError(
                    "the token's `groups` are not a list of texts: sign one with such a list"
                )
            check_groups(groups, settings.groups)
        except InvalidTokenError as error:
            raise unauthorized(str(error)) from None
        except KeysUnavailableError as error:
            message = f"the key set `{error}` is not available now; try again"
            raise RefusedRequest(503, message, {"Retry-After": "10"}) from None
        person = build_person(self._seal, claims.id, groups, "token", claims.scopes)
        may = KEY_RIGHTS if settings.may is None else frozenset[str](settings.may)
        return replace(person, may=may), token.claims

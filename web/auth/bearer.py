"""Bearer tokens of programs: JWTs, checked as the workers check a principal's.

Beside `sub` and `scopes`, a token may have `groups`: the approver groups that the program decides
for, as far as its key may sign for them.
"""

from collections.abc import Sequence

from starlette.requests import Request

from holdfast.activities.check_token import check_groups, matching_key_set
from holdfast.runtime.identity.jws import InvalidTokenError, SignedToken
from holdfast.runtime.identity.key_sets import KeysUnavailableError, LiveKeySet
from holdfast.runtime.identity.token_claims import principal_claims
from holdfast.schemas.decision import PrincipalClaims
from holdfast.web.auth.person import build_person
from holdfast.web.auth.sealed_text import TextSealer
from holdfast.web.auth.sessions import Authentication
from holdfast.web.http.refused_request import RefusedRequest, unauthorized


class BearerTokens:
    """Authenticates by a bearer token; without keys, none is accepted."""

    def __init__(self, seal: TextSealer, sets: Sequence[LiveKeySet]) -> None:
        self._seal, self._sets = seal, sets

    async def authenticate(self, request: Request) -> Authentication | None:
        """Return the sender; None without a token, or without keys.

        Raises:
            RefusedRequest: the token is rejected, or its keys are not available.
        """
        kind, _, shown = request.headers.get("authorization", "").partition(" ")
        if not self._sets or kind.lower() != "bearer":
            return None
        try:
            token = SignedToken.read(shown.strip())
            settings = await matching_key_set(token, self._sets, "principals")
            claims = PrincipalClaims.read(principal_claims(token))
            groups = _groups(token)
            check_groups(groups, settings.groups)
        except InvalidTokenError as error:
            raise unauthorized(str(error)) from None
        except KeysUnavailableError as error:
            said = f"the key set `{error}` cannot be had now; try again"
            raise RefusedRequest(503, said, {"Retry-After": "10"}) from None
        return Authentication(build_person(self._seal, claims.id, groups, "token", claims.scopes))


def _groups(token: SignedToken) -> list[str]:
    said = token.claims.get("groups", [])
    if not isinstance(said, list) or not all(isinstance(each, str) for each in said):
        raise InvalidTokenError("the token's `groups` are no list of texts: sign one that says one")
    return said

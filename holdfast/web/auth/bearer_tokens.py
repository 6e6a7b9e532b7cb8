"""Programs, authenticated by JWTs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request

from holdfast.runtime.identity.key_matching import check_groups, matching_key_set
from holdfast.runtime.identity.key_sets import KeysUnavailableError, LiveKeySet
from holdfast.runtime.identity.tokens import InvalidTokenError, SignedToken, principal_claims
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.decision import PrincipalClaims
from holdfast.schemas.settings.keys import KEY_RIGHTS, KeySet
from holdfast.validation.text_safety import is_same_person
from holdfast.web.auth.sessions import Authentication, Person, build_person
from holdfast.web.http.problems import RefusedRequest, unauthorized

# The claims that have the subject of a program's own token, and another value beside a person.
_CLIENTS: Final = ("client_id", "azp", "appid", "cid", "oid")


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
            claims = PrincipalClaims.read(principal_claims(token, settings.subject))
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
        return replace(person, may=may, is_program=is_program(token.claims, settings)), token.claims


def is_program(claims: Mapping[str, Any], settings: KeySet) -> bool:
    """Return whether a token is a program's own, by its key set or by the marks of providers.

    Sources: RFC 9068 2.2 (also Okta, Cognito), Auth0, Microsoft Entra, FusionAuth, Keycloak.
    """
    if (rule := settings.person) is not None:
        found = claims.get(rule.claim)
        values = found if isinstance(found, list) else [found]
        return not found if rule.value is None else rule.value not in values
    sub = claims["sub"]
    return (
        any(is_same_person(sub, str(claims.get(each, ""))) for each in _CLIENTS)
        or sub.endswith("@clients")
        or "client-credentials" in str(claims.get("gty")).replace("_", "-")
        or claims.get("idtyp") == "app"
        or str(claims.get("preferred_username")).startswith("service-account-")
    )

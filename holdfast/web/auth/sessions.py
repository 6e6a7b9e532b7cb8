"""People and programs: a signed-in person, sealed in a cookie, or the sender of a JWT.

The inbox stores no session, so any instance with the same secret accepts it; a session is valid
until it expires. Cookies are hidden from scripts and other sites, and need https on every host but
this machine. Programs are authenticated by JWTs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from holdfast.runtime.identity.key_matching import check_groups, matching_key_set
from holdfast.runtime.identity.key_sets import KeysUnavailableError, LiveKeySet
from holdfast.runtime.identity.tokens import InvalidTokenError, SignedToken, principal_claims
from holdfast.runtime.text_sealer import MAX_SEALED_CHARS, TextSealer
from holdfast.schemas.decision import PrincipalClaims
from holdfast.schemas.settings.keys import KEY_RIGHTS, KeySet
from holdfast.validation.text_safety import ISSUER_MARK, is_same_person, plain_name
from holdfast.web.http.path_prefix import root_of
from holdfast.web.http.problems import RefusedRequest, forbidden, unauthorized

MAX_NAME_CHARS: Final = 200
MAX_GROUPS: Final = 100
SESSION_SECONDS: Final = 8 * 3600
_COOKIE = "session"

SameSite = Literal["lax", "strict"]
Via = Literal["link", "oidc", "proxy", "token", "message"]


@dataclass(frozen=True)
class Person:
    """An authenticated sender: the name, and the groups that they decide for.

    `via` is the method of authentication. `form_token` is the token in every form of their pages; a
    program, which has a bearer token, has none. `scopes` are the scopes of that token, and `may`
    are the rights of its key. `is_program`: it is the program's own, of no person.
    """

    name: str
    groups: tuple[str, ...] = ()
    via: Via = "link"
    form_token: str = ""
    scopes: tuple[str, ...] = ()
    may: frozenset[str] = KEY_RIGHTS
    is_program: bool = False


def person_of(connection: HTTPConnection) -> Person:
    person = connection.state.person
    assert isinstance(person, Person)  # no request is routed before authentication
    return person


def build_person(
    seal: TextSealer, name: Any, groups: Iterable[Any], via: Via, scopes: Iterable[str] = ()
) -> Person:
    """Return the person of this name with the token of their forms; a program has no forms.

    Raises:
        RefusedRequest: the name or a group cannot be shown in a record.
    """
    if not _is_plain(name) or (via != "token" and ISSUER_MARK in name):
        raise forbidden("your name cannot be shown in a record of decisions; change it")
    known = tuple(dict.fromkeys(groups))
    if len(known) > MAX_GROUPS:
        todo = "ask the operator of the inbox to omit groups that decide nothing"
        raise forbidden(f"you are in more than {MAX_GROUPS} groups; {todo}")
    if not all(map(_is_plain, known)):
        raise forbidden("one of your groups has a name that cannot be shown; change it")
    # The token is the same after signing in again: an open page remains valid.
    token = "" if via == "token" else seal.mark("form", f"{via} {name}")
    return Person(name, known, via, token, tuple(scopes))


def _is_plain(name: Any) -> bool:
    """Check that a name has no invisible or misleading characters."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
        return False
    return name == " ".join(plain_name(name).split()) and name.isprintable()


class Authentication(NamedTuple):
    """A person, and the seconds until their session ends."""

    person: Person
    seconds_left: float = math.inf


class Sessions:
    """Starts, finds and ends sessions."""

    def __init__(self, seal: TextSealer, via: Via) -> None:
        self._seal, self._via = seal, via
        # A session of another sign-in method is not valid.
        self._kind = f"session {via}"
        # The browser sends the cookie when the provider's page redirects a user back.
        self._same_site: SameSite = "lax" if via == "oidc" else "strict"

    def start(self, answer: Response, request: Request, name: str, groups: Iterable[str]) -> None:
        """Set the session cookie; raises as `build_person` does."""
        known = build_person(self._seal, name, groups, self._via)
        values = {"name": known.name, "groups": known.groups}
        sealed = self._seal.seal(self._kind, values, SESSION_SECONDS)
        if len(sealed) > MAX_SEALED_CHARS:
            todo = "ask the operator of the inbox to omit groups that decide nothing"
            raise forbidden(f"you are in more groups than a browser can keep; {todo}")
        set_cookie(answer, request, _COOKIE, sealed, SESSION_SECONDS, self._same_site)

    async def authenticate(self, request: Request) -> Authentication | None:
        """Return the person of the session cookie."""
        opened = self._seal.open(self._kind, read_cookie(request, _COOKIE))
        if opened is None:
            return None
        return Authentication(
            build_person(self._seal, **opened.values, via=self._via), opened.seconds_left
        )

    def end(self, answer: Response, request: Request) -> None:
        delete_cookie(answer, request, _COOKIE)


def read_cookie(request: Request, name: str) -> str:
    """Return the value of a cookie; empty without it."""
    return request.cookies.get(_named(request, name), "")


def read_cookies(request: Request, prefix: str) -> dict[str, str]:
    """Return the cookies whose names begin so, by their names."""
    before = _named(request, "")
    found = ((name.removeprefix(before), value) for name, value in request.cookies.items())
    return {name: value for name, value in found if name.startswith(prefix)}


def set_cookie(
    answer: Response, request: Request, name: str, value: str, seconds: int, same_site: SameSite
) -> None:
    """Set a cookie for the inbox's own address; scripts cannot read it."""
    answer.set_cookie(
        _named(request, name),
        value,
        max_age=seconds,
        path=root_of(request) or "/",
        secure=_is_secure(request),
        httponly=True,
        samesite=same_site,
    )


def delete_cookie(answer: Response, request: Request, name: str) -> None:
    path, secure = root_of(request) or "/", _is_secure(request)
    answer.delete_cookie(_named(request, name), path, secure=secure, httponly=True)


def _named(request: Request, name: str) -> str:
    if _is_secure(request):
        # A browser accepts these names over https only, and `__Host-` from this host alone, for all
        # of its paths: the applications beside a path would receive the session.
        return f"__{'Secure' if root_of(request) else 'Host'}-holdfast_{name}"
    # A machine shares cookies among all ports: several inboxes must not sign each other out.
    return f"holdfast_{request.state.origin.rpartition(':')[2]}_{name}"


def _is_secure(request: Request) -> bool:
    """Check for https by the own origin: a proxy terminates it."""
    return bool(request.state.origin.startswith("https:"))


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

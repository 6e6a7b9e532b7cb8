"""People, their sessions and their cookies: the signed-in person, sealed in a cookie.

The inbox stores no session, so any instance with the same secret accepts it; a session is valid
until it expires. Cookies are hidden from scripts and other sites, and need https on every host but
this machine.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from holdfast.runtime.text_sealer import MAX_SEALED_CHARS, TextSealer
from holdfast.schemas.settings.keys import KEY_RIGHTS
from holdfast.validation.text_safety import ISSUER_MARK, plain_name
from holdfast.web.http.problems import forbidden

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
    """Return the authenticated sender of the request."""
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
        """Delete the session cookie."""
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
    """Set a cookie."""
    answer.set_cookie(
        _named(request, name),
        value,
        max_age=seconds,
        secure=_is_secure(request),
        httponly=True,
        samesite=same_site,
    )


def delete_cookie(answer: Response, request: Request, name: str) -> None:
    """Delete a cookie."""
    answer.delete_cookie(_named(request, name), secure=_is_secure(request), httponly=True)


def _named(request: Request, name: str) -> str:
    if _is_secure(request):
        # A browser accepts a cookie of this name over https only, and from this host only.
        return f"__Host-holdfast_{name}"
    # A machine shares cookies among all ports: several inboxes must not sign each other out.
    return f"holdfast_{request.state.origin.rpartition(':')[2]}_{name}"


def _is_secure(request: Request) -> bool:
    """Check for https by the own origin: a proxy terminates it."""
    return bool(request.state.origin.startswith("https:"))

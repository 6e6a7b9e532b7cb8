"""The authenticated sender of a request, set by `auth_middleware`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from starlette.requests import HTTPConnection

from holdfast.runtime.text_safety import clean
from holdfast.web.auth.sealed_text import TextSealer
from holdfast.web.http.refused_request import RefusedRequest

MAX_NAME_CHARS: Final = 200
MAX_GROUPS: Final = 100

Via = Literal["link", "oidc", "proxy", "token"]


@dataclass(frozen=True)
class Person:
    """An authenticated sender: the name, and the groups that they decide for.

    `via` is the method of authentication. `form_token` is the token in every form of their pages; a
    program, which has a bearer token, has none. `scopes` are the scopes of that token.
    """

    name: str
    groups: tuple[str, ...] = ()
    via: Via = "link"
    form_token: str = ""
    scopes: tuple[str, ...] = ()


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
    if not _is_plain(name):
        raise RefusedRequest(
            403, "your name cannot be shown in a record of decisions; have it changed"
        )
    known = tuple(dict.fromkeys(groups))
    if len(known) > MAX_GROUPS:
        todo = "have those that decide nothing left out"
        raise RefusedRequest(403, f"you are in more than {MAX_GROUPS} groups; {todo}")
    if not all(map(_is_plain, known)):
        raise RefusedRequest(
            403, "one of your groups has a name that cannot be shown; have it changed"
        )
    # The token is the same after signing in again: an open page remains valid.
    token = "" if via == "token" else seal.mark("form", f"{via} {name}")
    return Person(name, known, via, token, tuple(scopes))


def _is_plain(name: Any) -> bool:
    """Check that a name has no invisible or misleading characters."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
        return False
    return name == " ".join(clean(name).split()) and name.isprintable()

"""Who is in front of a page, or sends a request.

`inbox.access` finds it out before anything else is done, and refuses whoever is nobody.
"""

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
    """Somebody who is known: in whose name, and for which groups of approvers, they decide.

    `via` says how they are known. `form_token` is what every form that they are given carries; a
    program, which is known by a token, is given none. `scopes` are what its token says it may do.
    """

    name: str
    groups: tuple[str, ...] = ()
    via: Via = "link"
    form_token: str = ""
    scopes: tuple[str, ...] = ()


def person_of(connection: HTTPConnection) -> Person:
    """Who sends this request; `inbox.access` has seen to it that it is somebody."""
    person = connection.state.person
    assert isinstance(person, Person)  # nothing is routed before they are known
    return person


def build_person(
    seal: TextSealer, name: Any, groups: Iterable[Any], via: Via, scopes: Iterable[str] = ()
) -> Person:
    """The person of this name, and the token of their forms; a program has no forms.

    Raises:
        Refused: it is no name that can stand in a record, or the groups are none.
    """
    if not _is_plain(name):
        raise RefusedRequest(
            403, "your name cannot stand in a record of who decided; have it changed"
        )
    known = tuple(dict.fromkeys(groups))
    if len(known) > MAX_GROUPS:
        todo = "have those that decide nothing left out"
        raise RefusedRequest(403, f"you are in more than {MAX_GROUPS} groups; {todo}")
    if not all(map(_is_plain, known)):
        raise RefusedRequest(
            403, "one of your groups has a name that cannot be shown; have it changed"
        )
    # The same after signing in again: a page that is open still counts.
    token = "" if via == "token" else seal.mark("form", f"{via} {name}")
    return Person(name, known, via, token, tuple(scopes))


def _is_plain(name: Any) -> bool:
    """Whether it reads as what it is."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
        return False
    return name == " ".join(clean(name).split()) and name.isprintable()

"""Who is in front of a page, or sends a request.

`inbox.access` finds it out before anything else is done, and refuses whoever is nobody.
"""

from dataclasses import dataclass
from typing import Literal

from starlette.requests import HTTPConnection

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

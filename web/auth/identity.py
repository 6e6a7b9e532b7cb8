"""A person, by what somebody who is believed has said of them.

What comes from a header or a claim is looked at once more: a name stands in every record of what
was decided, so nothing in it may read as another.
"""

from collections.abc import Iterable
from typing import Any, Final

from holdfast.runtime.text_safety import clean
from holdfast.web.auth.person import Person, Via
from holdfast.web.auth.sealed_text import TextSealer
from holdfast.web.http.refused_request import RefusedRequest

MAX_NAME_CHARS: Final = 200
MAX_GROUPS: Final = 100


def person(
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

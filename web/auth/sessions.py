"""Sessions and cookies: the signed-in person, sealed in a cookie.

The inbox stores no session, so any instance accepts it; a session is valid until it expires.
Cookies are hidden from scripts and other sites, and need https on every host but this machine.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response

from holdfast.web.auth.person import Person, Via, build_person
from holdfast.web.auth.sealed_text import MAX_SEALED_CHARS, TextSealer
from holdfast.web.http.refused_request import RefusedRequest

# A browser accepts a cookie of this name over https only, and from this host only.
_SECURE: Final = "__Host-"
SameSite = Literal["lax", "strict"]

SESSION_SECONDS: Final = 8 * 3600
_COOKIE = _KIND = "session"


@dataclass(frozen=True)
class Authentication:
    """A person, and the seconds until their session ends."""

    person: Person
    seconds_left: float | None = None


class Sessions:
    """Starts, finds and ends sessions."""

    def __init__(self, seal: TextSealer, via: Via) -> None:
        self._seal, self._via = seal, via
        # The browser sends the cookie when the provider's page redirects a user back.
        self._same_site: SameSite = "lax" if via == "oidc" else "strict"

    def start(self, answer: Response, request: Request, name: str, groups: Iterable[str]) -> None:
        """Set the session cookie.

        Raises:
            RefusedRequest: their name or groups cannot be used.
        """
        known = build_person(self._seal, name, groups, self._via)
        said = {"name": known.name, "groups": known.groups, "via": self._via}
        sealed = self._seal.seal(_KIND, said, SESSION_SECONDS)
        if len(sealed) > MAX_SEALED_CHARS:
            todo = "have those that decide nothing left out"
            raise RefusedRequest(403, f"you are in more groups than a browser can keep; {todo}")
        set_cookie(answer, request, _COOKIE, sealed, SESSION_SECONDS, self._same_site)

    def find(self, request: Request) -> Authentication | None:
        """Return the person of the session cookie."""
        opened = self._seal.open(_KIND, read_cookie(request, _COOKIE) or "")
        # A session of another sign-in method is not valid.
        if opened is None or opened.values["via"] != self._via:
            return None
        said = opened.values
        known = build_person(self._seal, said["name"], said["groups"], self._via)
        return Authentication(known, opened.seconds_left)

    def end(self, answer: Response, request: Request) -> None:
        """Delete the session cookie."""
        delete_cookie(answer, request, _COOKIE)


def read_cookie(request: Request, name: str) -> str | None:
    """Return the value of a cookie."""
    return request.cookies.get(_named(request, name))


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
        return f"{_SECURE}holdfast_{name}"
    # A machine shares cookies among all ports: several inboxes must not sign each other out.
    return f"holdfast_{_origin(request).rpartition(':')[2]}_{name}"


def _is_secure(request: Request) -> bool:
    """Check for https by the own origin: a proxy terminates it."""
    return _origin(request).startswith("https:")


def _origin(request: Request) -> str:
    own: str = request.state.origin
    return own

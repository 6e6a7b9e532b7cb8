"""Cookies: kept from scripts and from other sites, and over https from every other host as well."""

from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response

# A browser takes a cookie of this name over https alone, and from this host alone.
_SECURE: Final = "__Host-"

SameSite = Literal["lax", "strict"]


def kept(request: Request, name: str) -> str | None:
    """What the browser has kept under this name."""
    return request.cookies.get(_named(request, name))


def keep(
    answer: Response, request: Request, name: str, value: str, seconds: int, same_site: SameSite
) -> None:
    """Have the browser keep it."""
    answer.set_cookie(
        _named(request, name),
        value,
        max_age=seconds,
        secure=_is_secure(request),
        httponly=True,
        samesite=same_site,
    )


def forget(answer: Response, request: Request, name: str) -> None:
    """Have the browser keep it no longer."""
    answer.delete_cookie(_named(request, name), secure=_is_secure(request), httponly=True)


def _named(request: Request, name: str) -> str:
    if _is_secure(request):
        return f"{_SECURE}holdfast_{name}"
    # On one machine, cookies are of all ports: several inboxes are not to sign each other out.
    return f"holdfast_{_origin(request).rpartition(':')[2]}_{name}"


def _is_secure(request: Request) -> bool:
    """Whether it came over https: a proxy has taken that off, so the name that was asked tells."""
    return _origin(request).startswith("https:")


def _origin(request: Request) -> str:
    own: str = request.state.origin
    return own

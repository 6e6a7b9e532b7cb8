"""Where somebody goes once they have signed in: back to a page of the inbox, and nowhere else."""

from typing import Final
from urllib.parse import quote, urlsplit

from starlette.requests import Request

HOME: Final = "/"
SIGN_IN: Final = "/sign-in"
SIGNED_IN: Final = "/sign-in/done"
SIGN_OUT: Final = "/sign-out"
MAX_PATH_CHARS: Final = 2_000


def own_path(text: str | None) -> str:
    """The path, if it is one of the inbox's own pages; else the first page's."""
    if not text or len(text) > MAX_PATH_CHARS or not text.startswith("/"):
        return HOME
    # Browsers read `\\` as `/`, leave out tabs and line ends, and take `//HOST` for another site.
    if text.startswith("//") or "\\" in text or not (text.isascii() and text.isprintable()):
        return HOME
    return HOME if urlsplit(text).path in (SIGN_IN, SIGNED_IN, SIGN_OUT) else text


def asked_for(request: Request) -> str:
    """The page that was asked for, as a path to come back to."""
    path = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1")
    return own_path(f"{path}?{request.url.query}" if request.url.query else path)


def sign_in_for(path: str) -> str:
    """Where to sign in, and come back."""
    return SIGN_IN if path == HOME else f"{SIGN_IN}?next={quote(path, safe='')}"

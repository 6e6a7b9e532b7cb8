"""Pages and addresses around signing in and out, for unauthenticated senders.

After signing in, a browser returns only to a page of the inbox. A form that was sent without a
session is kept on a page, to send it again.
"""

from typing import Final
from urllib.parse import quote, urlsplit

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.runtime.text_safety import as_sentence, clean
from holdfast.web.auth.sessions import Person, Sessions
from holdfast.web.http.problems import RefusedRequest
from holdfast.web.http.request_body import FIELD
from holdfast.web.pages import page

HOME: Final = "/"
SIGN_IN: Final = "/sign-in"
SIGNED_IN: Final = "/sign-in/done"
SIGN_OUT: Final = "/sign-out"
MAX_PATH_CHARS: Final = 2_000


def sign_out_routes(sessions: Sessions) -> list[Route]:
    """Return the routes for signing out."""

    async def sign_out(request: Request) -> Response:
        answer = RedirectResponse(SIGN_OUT, 303)
        sessions.end(answer, request)
        return answer

    async def signed_out(request: Request) -> Response:
        return page(request, "access/signed_out.html")

    return [
        Route(SIGN_OUT, sign_out, methods=["POST"]),
        Route(SIGN_OUT, signed_out, methods=["GET"]),
    ]


def return_path_of(request: Request) -> str:
    """Return the page to show after signing in."""
    return local_path(request.query_params.get("next", HOME))


def failure_page(request: Request, refused: RefusedRequest, **values: str) -> Response:
    """Return the page that explains a failed sign-in."""
    said = as_sentence(refused.sentence)
    shown = page(request, "access/sign_in.html", refused.status, wrong=said, **values)
    shown.headers.update(refused.headers)
    return shown


def local_path(text: str | None) -> str:
    """Return the path if it is a page of the inbox, else the first page's."""
    if not text or len(text) > MAX_PATH_CHARS or not text.startswith("/"):
        return HOME
    # Browsers read `\\` as `/`, drop tabs and line ends, and read `//HOST` as another site.
    if text.startswith("//") or "\\" in text or not (text.isascii() and text.isprintable()):
        return HOME
    return HOME if urlsplit(text).path in (SIGN_IN, SIGNED_IN, SIGN_OUT) else text


def requested_path(request: Request) -> str:
    """Return the requested page, as a path to return to."""
    path = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1")
    return local_path(f"{path}?{request.url.query}" if request.url.query else path)


def sign_in_path(path: str) -> str:
    """Return the address for signing in and returning to a path."""
    return SIGN_IN if path == HOME else f"{SIGN_IN}?next={quote(path, safe='')}"


def resubmission_page(request: Request, form: FormData | None, person: Person | None) -> Response:
    """Return the page that reports that nothing was done, and keeps the form.

    An unauthenticated sender submits the form again after signing in; a person with the form of
    another person submits it in their own name.
    """
    items = [] if form is None else form.multi_items()
    fields = [(name, value) for name, value in items if isinstance(value, str)]
    token = person.form_token if person else "".join(v for name, v in fields if name == FIELD)
    written = [(name, value) for name, value in fields if name != FIELD]
    where = requested_path(request)
    return page(
        request,
        "access/resubmit.html",
        403 if person else 401,
        where=where,
        sign_in=sign_in_path(where),
        token=token,
        written=written,
        shown=[(clean(name), clean(value)) for name, value in written if value.strip()],
    )

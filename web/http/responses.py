"""The inbox's own responses: refusals, and the headers of every response."""

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.runtime.text_safety import as_sentence
from holdfast.web.http.problems import problem_of
from holdfast.web.http.refused_request import RefusedRequest
from holdfast.web.pages import page

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Without a policy, a browser would not send the origin of a form (`Origin`).
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
STATIC: Final = "/static/"
_FAILED: Final = (
    "The inbox has failed at this. {} If it fails again, tell the operator of the inbox: its log"
    " says why."
)
_LOOKED: Final = "Load the page again."
_SENT: Final = (
    "What you sent may have been taken or not: look at the pending approvals, or at the run, before"
    " you send it again."
)


def add_headers(headers: MutableHeaders, path: str) -> None:
    """Add the headers of every response; none may be cached on the way."""
    for name, said in HEADERS.items():
        headers.setdefault(name, said)  # a response without a page may have stricter headers
    headers["Cache-Control"] = "no-cache" if path.startswith(STATIC) else "no-store"


def wants_page(request: Request) -> bool:
    """Check whether the sender wants a page: a script accepts anything, a program JSON."""
    return "text/html" in request.headers.get("accept", "")


def refusal(request: Request, refused: RefusedRequest) -> Response:
    """Return the response to a refused request: a page, or a problem (RFC 9457)."""
    if wants_page(request):
        shown = page(
            request, "shared/problem.html", refused.status, text=as_sentence(refused.sentence)
        )
        shown.headers.update(refused.headers)
        return shown
    return problem_of(refused).response()


async def refused(request: Request, error: Exception) -> Response:
    """Return the response to a refused request that a handler raised."""
    assert isinstance(error, RefusedRequest)
    return refusal(request, error)


def failure(request: Request, error: Exception) -> Response:
    """Return the response to an unexpected error, which is logged."""
    if isinstance(error, RefusedRequest):
        return refusal(request, error)
    problem = problem_of(error)
    if wants_page(request):
        said = _FAILED.format(_LOOKED if request.method in ("GET", "HEAD") else _SENT)
        return page(request, "shared/problem.html", problem.status, text=said)
    return problem.response()


class ErrorMiddleware:
    """An application that answers with a page or a problem if it raises."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception as error:
            if begun:
                raise  # the response has started; the server logs the error and disconnects
            await failure(Request(scope), error)(scope, receive, send)

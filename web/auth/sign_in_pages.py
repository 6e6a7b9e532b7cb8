"""What stands outside of the doors: pages for somebody who is not signed in, and signing out."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.runtime.text_safety import as_sentence
from holdfast.web.auth.return_path import HOME, SIGN_OUT, own_path
from holdfast.web.auth.sessions import Sessions
from holdfast.web.http.refused_request import RefusedRequest
from holdfast.web.pages import page


def sign_out_routes(sessions: Sessions) -> list[Route]:
    """Signing out, and the page that says so."""

    async def sign_out(request: Request) -> Response:
        answer = RedirectResponse(SIGN_OUT, 303)
        sessions.end(answer, request)
        return answer

    async def signed_out(request: Request) -> Response:
        return page(request, "signed-out.html")

    return [
        Route(SIGN_OUT, sign_out, methods=["POST"]),
        Route(SIGN_OUT, signed_out, methods=["GET"]),
    ]


def home_of(request: Request) -> str:
    """Where somebody who signs in wants to go."""
    return own_path(request.query_params.get("next", HOME))


def failed(request: Request, refused: RefusedRequest, **values: str) -> Response:
    """The page of somebody who could not be signed in: why, and how to try again."""
    said = as_sentence(refused.sentence)
    shown = page(request, "sign-in.html", refused.status, wrong=said, **values)
    shown.headers.update(refused.headers)
    return shown

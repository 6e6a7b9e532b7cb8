"""The inbox: a web application over a Temporal client, without a store of its own.

    auth ─► pages:  pending approvals (`listing`), one call (`call`), one run (`run`)
         └► HTTP:   runs, decisions, messages and events for programs (`api`)

Every page queries Temporal and the runs, so any number of inboxes can run side by side, and one
that is killed loses nothing.
"""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from holdfast.client.command_errors import NO_SUCH, UNREACHABLE, WRONG_COMMAND, CommandError
from holdfast.runtime.text_safety import as_sentence, clean
from holdfast.web.api import routes as api
from holdfast.web.call import routes as call
from holdfast.web.http.refused_request import RefusedRequest
from holdfast.web.http.responses import ErrorMiddleware, refused
from holdfast.web.listing import routes as listing
from holdfast.web.pages import STATIC, page
from holdfast.web.run import routes as live
from holdfast.web.services import Services

# The HTTP status of an error, by the exit code of the command.
_STATUS = {NO_SUCH: 404, UNREACHABLE: 503, WRONG_COMMAND: 400}
_NOT_FOUND = "This page does not exist."


def application(parts: Services) -> Starlette:
    """Return the inbox as an ASGI application."""
    app = Starlette(
        routes=[
            Mount("/static", StaticFiles(directory=STATIC)),
            *listing.routes(parts),
            *call.routes(parts),
            *live.routes(parts),
            *api.routes(parts),
        ],
        middleware=[Middleware(ErrorMiddleware)],
        exception_handlers={
            CommandError: _command_error_page,
            RefusedRequest: refused,
            HTTPException: _http_error_page,
        },
    )
    # A redirect from `/run/` would use http, even where a proxy uses https.
    app.router.redirect_slashes = False
    return app


async def _command_error_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, CommandError)
    said = as_sentence(clean(str(error)))
    return page(request, "shared/problem.html", _STATUS.get(error.code, 502), text=said)


async def _http_error_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = _NOT_FOUND if error.status_code == 404 else str(error.detail)
    return page(request, "shared/problem.html", error.status_code, text=said)

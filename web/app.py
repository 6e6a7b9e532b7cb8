"""The inbox: a web application over a Temporal client, with no store of its own.

    access ─► pages:  what waits (`listing`), one call (`call`), one run (`live`)
           └► HTTP:   runs, decisions, messages and events for programs (`api`)

Everything is asked of Temporal and of the runs when it is looked at, so any number of these can
stand side by side, and one that is killed has lost nothing.
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

# What went wrong, by the exit code that the command would have had.
_STATUS = {NO_SUCH: 404, UNREACHABLE: 503, WRONG_COMMAND: 400}
_NOT_FOUND = "There is no such page."


def application(parts: Services) -> Starlette:
    """The inbox as an ASGI application."""
    app = Starlette(
        routes=[
            Mount("/static", StaticFiles(directory=STATIC)),
            *listing.routes(parts),
            *call.routes(parts),
            *live.routes(parts),
            *api.routes(parts),
        ],
        middleware=[Middleware(ErrorMiddleware)],
        exception_handlers={CommandError: _told, RefusedRequest: refused, HTTPException: _unknown},
    )
    # What is sent on from `/run/` would go to http, also where a proxy speaks https.
    app.router.redirect_slashes = False
    return app


async def _told(request: Request, error: Exception) -> Response:
    """What cannot be shown or done, and what to do about it."""
    assert isinstance(error, CommandError)
    said = as_sentence(clean(str(error)))
    return page(request, "trouble.html", _STATUS.get(error.code, 502), said=said)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = _NOT_FOUND if error.status_code == 404 else str(error.detail)
    return page(request, "trouble.html", error.status_code, said=said)

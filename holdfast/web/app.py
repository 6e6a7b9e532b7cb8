"""The inbox: a web application over a Temporal client, without a store of its own.

    auth ─► pages:  pending approvals (`listing`), one call (`call`), one run (`run`)
         └► HTTP:   runs, decisions, messages and events for programs (`api`)

Every page queries Temporal and the runs, so any number of inboxes can run side by side, and one
that is killed loses nothing.
"""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from holdfast.web.api import operations as api
from holdfast.web.call import routes as call
from holdfast.web.home import HomePage
from holdfast.web.listing import routes as listing
from holdfast.web.pages import STATIC, ErrorMiddleware, error_response
from holdfast.web.run import routes as live
from holdfast.web.services import Services


def application(parts: Services, *more: Route) -> Starlette:
    """Return the inbox as an ASGI application, with the routes of Slack and of links."""
    app = Starlette(
        routes=[
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/home", HomePage(parts).show, methods=["GET"]),
            *listing.routes(parts),
            *call.routes(parts),
            *live.routes(parts),
            *api.routes(parts),
            *more,
        ],
        middleware=[Middleware(ErrorMiddleware)],
        exception_handlers={HTTPException: error_response},
    )
    app.state.services = parts
    # A redirect from `/run/` would use http, even where a proxy uses https.
    app.router.redirect_slashes = False
    return app

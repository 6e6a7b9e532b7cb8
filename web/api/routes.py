"""The addresses of the HTTP API, each with its operations; errors are problems (RFC 9457)."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from holdfast.web.api.api_request import ApiRequest
from holdfast.web.api.event_stream import Streams
from holdfast.web.api.openapi import build_description, docs_routes
from holdfast.web.api.operations import Operation, operations
from holdfast.web.http.problems import HttpProblem, problem_of
from holdfast.web.http.routing import RunRoute
from holdfast.web.services import Services

_RUN = "{run}"


def routes(parts: Services) -> list[BaseRoute]:
    """Return the routes of the operations and of their description."""
    known = operations(Streams())
    # An address that ends with a run's id is matched last: the id may contain slashes.
    paths = sorted({each.path for each in known}, key=lambda path: (path.endswith(_RUN), path))
    found: list[BaseRoute] = [
        RunRoute(path, Resource([each for each in known if each.path == path], parts))
        for path in paths
    ]
    return [*found, *docs_routes(build_description(known))]


class Resource:
    """The operations of one address; an ASGI application."""

    def __init__(self, known: Sequence[Operation], parts: Services) -> None:
        self._operations = {each.method: each for each in known}
        self._parts = parts

    @property
    def methods(self) -> Sequence[str]:
        """Return the HTTP methods of the address."""
        return list(self._operations)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        answer = await self._answer(Request(scope, receive))
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        operation = self._operations.get(method)
        try:
            if operation is None:
                raise self._not_done(request.method)
            asked = ApiRequest(request, self._parts, request.path_params.get("run", ""))
            return await operation.handler(asked)
        except Exception as error:
            return problem_of(error).response()

    def _not_done(self, method: str) -> HttpProblem:
        allowed = ", ".join(self.methods)
        said = f"There is no {method[:20]} here; ask with {allowed}."
        return HttpProblem("method_not_allowed", said, headers={"Allow": allowed})

"""The addresses that programs ask: found by their raw path, and answered with problems.

A run's id may hold any character, so it is told apart from what follows it before it is decoded:
`/runs/a%2Fevents` is the run `a/events`, and `/runs/a/events` are the events of the run `a`.
"""

from collections.abc import Sequence
from urllib.parse import quote, unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from inbox.api.asked import Asked
from inbox.api.events import Streams
from inbox.api.openapi import description
from inbox.api.operations import Operation, operations
from inbox.api.page import described
from inbox.parts import Parts
from inbox.problems import Problem, problem_of

_RUN = "{run}"


def routes(parts: Parts) -> list[BaseRoute]:
    """What programs can ask for, and how that is described."""
    known = operations(Streams())
    # What ends with a run's id is looked at last: that id may have slashes in it.
    paths = sorted({each.path for each in known}, key=lambda path: (path.endswith(_RUN), path))
    found: list[BaseRoute] = [
        Resource(path, [each for each in known if each.path == path], parts) for path in paths
    ]
    return [*found, *described(description(known))]


class Resource(BaseRoute):
    """One address, and what can be done there."""

    def __init__(self, path: str, known: Sequence[Operation], parts: Parts) -> None:
        self.path = path
        self._template = path.split("/")[1:]
        self._operations = {each.method: each for each in known}
        self._parts = parts

    @property
    def methods(self) -> Sequence[str]:
        """With what it can be asked."""
        return list(self._operations)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for this address; Starlette asks."""
        raw = scope.get("raw_path") or quote(scope["path"]).encode()
        run_id = matched(self._template, raw.decode("latin-1").split("/")[1:])
        if scope["type"] != "http" or run_id is None:
            return Match.NONE, {}
        return Match.FULL, {"path_params": {"run": run_id}}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; Starlette calls this."""
        request = Request(scope, receive)
        answer = await self._answer(request)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        operation = self._operations.get(method)
        try:
            if operation is None:
                raise self._not_done(request.method)
            asked = Asked(request, self._parts, request.path_params["run"])
            return await operation.handler(asked)
        except ClientDisconnect:
            return Response(status_code=204)  # nobody reads it
        except Exception as error:
            return problem_of(error).answer()

    def _not_done(self, method: str) -> Problem:
        allowed = ", ".join(self.methods)
        said = f"There is no {method[:20]} here; ask with {allowed}."
        return Problem("method_not_allowed", said, headers={"Allow": allowed})


def matched(template: Sequence[str], segments: Sequence[str]) -> str | None:
    """The id of the run that a path names, as its template says; empty where that names none, and
    `None` where the path is of another form.

    A proxy may have decoded an id that has slashes in it: then it takes several segments.
    """
    if _RUN not in template:
        return "" if [unquote(each) for each in segments] == list(template) else None
    at = template.index(_RUN)
    before, after = list(template[:at]), list(template[at + 1 :])
    end = len(segments) - len(after)
    if end <= at or list(segments[:at]) != before or list(segments[end:]) != after:
        return None
    return unquote("/".join(segments[at:end])) or None

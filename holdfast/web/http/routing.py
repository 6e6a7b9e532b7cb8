"""Addresses that name a run: matched as they were sent, before any part is decoded.

A run's id may contain any character, so it is separated from the rest of the path first:
`/run/a%2Fnews` is the page of the run `a/news`, and `/run/a/news` is the news of the run `a`.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from holdfast.schemas.settings.inbox import Right
from holdfast.web.auth.sessions import person_of

_RUN = "{run}"
# A number in an address; the `int` convertor of Starlette accepts any number of digits.
NUMBER: Final = "[0-9]{1,12}"


class _Number(IntegerConvertor):
    regex = NUMBER


register_url_convertor("number", _Number())


class RunRoute(Route):
    """An address that may name a run, as `{run}`, and the right that it needs there.

    One of several rights is enough; without one, the endpoint checks. It receives the rights of
    the person (`access_of`).

    A proxy may have decoded an id that contains slashes: then the id spans several segments.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        right: Right | Collection[Right] | None,
        methods: Sequence[str] | None = None,
    ) -> None:
        super().__init__(path.replace(_RUN, "{run:path}"), endpoint, methods=methods)
        self.right = right

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a person with the right; Starlette calls this."""
        if self.right is not None and (not self.methods or scope["method"] in self.methods):
            request = Request(scope)
            parts, run_id = request.app.state.services, request.path_params["run"]
            required = parts.require(person_of(request), self.right, run_id)
            request.state.access = await required
        await super().handle(scope, receive, send)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Report whether a request is for this address; Starlette calls this."""
        raw = scope.get("raw_path") or quote(scope["path"]).encode()
        found, child = super().matches({**scope, "path": raw.decode("latin-1"), "root_path": ""})
        named = {
            name: unquote(value) if isinstance(value, str) else value
            for name, value in child.get("path_params", {}).items()
        }
        if found is Match.NONE or "" in named.values():
            return Match.NONE, {}
        return found, {**child, "path_params": named}

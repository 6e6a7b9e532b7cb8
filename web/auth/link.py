"""Sign-in by a link: the user who starts the inbox on this machine opens the printed address.

The link contains a key, which is removed from the address at once and is in no log.
"""

import time
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.web.auth.sessions import Clock, Sessions, TextSealer
from holdfast.web.auth.sign_in_pages import (
    SIGN_IN,
    failure_page,
    local_path,
    return_path_of,
    sign_out_routes,
)
from holdfast.web.codec.shared_secret import Secret
from holdfast.web.http.problems import RefusedRequest
from holdfast.web.http.request_body import read_form
from holdfast.web.pages import page

_KEY: Final = "key"


class LinkOwner(NamedTuple):
    """The user of the link."""

    name: str
    groups: tuple[str, ...] = ()


class LinkSignIn:
    """Signs in the holder of the link as the user who started the inbox."""

    def __init__(self, seal: TextSealer, whose: LinkOwner, clock: Clock = time.monotonic) -> None:
        self._whose = whose
        self._sessions = Sessions(seal, "link")
        self._key = seal.mark("link", whose.name)
        self._secret = Secret(self._key, "the key of this inbox's link", clock)
        self.authenticate = self._sessions.authenticate
        self.routes = [
            Route(SIGN_IN, self._sign_in, methods=["GET", "POST"]),
            *sign_out_routes(self._sessions),
        ]

    def address(self, origin: str) -> str:
        """Return the link."""
        return f"{origin}{SIGN_IN}?{_KEY}={self._key}"

    async def _sign_in(self, request: Request) -> Response:
        """Sign in with the key of the link, or with the key or the whole link in the form."""
        shown, home = request.query_params.get(_KEY), return_path_of(request)
        if request.method == "POST":
            form = await read_form(request)
            shown, following = (str(form.get(name) or "").strip() for name in (_KEY, "next"))
            home = local_path(following)
            with suppress(ValueError):
                shown = parse_qs(urlsplit(shown).query, max_num_fields=10).get(_KEY, [shown])[0]
        if shown is None:
            return page(request, "access/sign_in.html", wrong="", way="link", home=home)
        try:
            self._secret.check(shown, "" if request.client is None else request.client.host)
        except RefusedRequest as refused:
            return failure_page(request, refused, way="link", home=home)
        # Redirect at once: the key must not remain in the address.
        answer = RedirectResponse(home, 303)
        self._sessions.start(answer, request, self._whose.name, self._whose.groups)
        return answer

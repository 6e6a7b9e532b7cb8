"""Sign-in by a link: the user who starts the inbox on this machine opens the printed address.

The link contains a key, which is removed from the address at once and is in no log.
"""

import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.web.auth.sealed_text import TextSealer
from holdfast.web.auth.sessions import Authentication, Sessions
from holdfast.web.auth.sign_in_pages import (
    SIGN_IN,
    failure_page,
    local_path,
    return_path_of,
    sign_out_routes,
)
from holdfast.web.codec.shared_secret import Clock, Secret
from holdfast.web.http.refused_request import RefusedRequest
from holdfast.web.http.request_body import read_form
from holdfast.web.pages import page

_KEY: Final = "key"


@dataclass(frozen=True)
class LinkOwner:
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
        self.routes = [
            Route(SIGN_IN, self._page, methods=["GET"]),
            Route(SIGN_IN, self._entered, methods=["POST"]),
            *sign_out_routes(self._sessions),
        ]

    def address(self, origin: str) -> str:
        """Return the link."""
        return f"{origin}{SIGN_IN}?{_KEY}={self._key}"

    async def authenticate(self, request: Request) -> Authentication | None:
        """Return the sender by the session."""
        return self._sessions.find(request)

    async def _page(self, request: Request) -> Response:
        shown = request.query_params.get(_KEY)
        if shown is not None:
            return self._signed_in(request, shown, return_path_of(request))
        return page(
            request, "access/sign_in.html", wrong="", way="link", home=return_path_of(request)
        )

    async def _entered(self, request: Request) -> Response:
        form = await read_form(request)
        return self._signed_in(
            request, _key_in(form.get(_KEY)), local_path(_text(form.get("next")))
        )

    def _signed_in(self, request: Request, shown: str, home: str) -> Response:
        try:
            self._secret.check(shown, "" if request.client is None else request.client.host)
        except RefusedRequest as refused:
            return failure_page(request, refused, way="link", home=home)
        # Redirect at once: the key must not remain in the address.
        answer = RedirectResponse(home, 303)
        self._sessions.start(answer, request, self._whose.name, self._whose.groups)
        return answer


def _text(field: object) -> str:
    return field.strip() if isinstance(field, str) else ""


def _key_in(field: object) -> str:
    """Return the key of an entered text: the key itself, or the whole link."""
    text = _text(field)
    try:
        return parse_qs(urlsplit(text).query, max_num_fields=10).get(_KEY, [text])[0]
    except ValueError:
        return text

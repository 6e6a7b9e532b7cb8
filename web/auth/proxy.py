"""Sign-in by a proxy that names people in headers.

Any client can send a header. It is accepted only from the networks of the proxy;
any other sender of such a header is refused.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.schemas.settings.inbox import Proxy
from holdfast.web.auth.person import build_person
from holdfast.web.auth.sealed_text import TextSealer
from holdfast.web.auth.sessions import Authentication
from holdfast.web.auth.sign_in_pages import HOME, SIGN_IN
from holdfast.web.http.refused_request import RefusedRequest
from holdfast.web.pages import page

_FROM_ELSEWHERE: Final = (
    "only the proxy in front of the inbox may name the user; come through it, or have its"
    " network named in `networks`"
)


class ProxySignIn:
    """Authenticates by the headers of a proxy."""

    def __init__(self, seal: TextSealer, settings: Proxy) -> None:
        self._seal = seal
        self._user, self._groups = settings.user_header, settings.groups_header
        self._networks = settings.ranges()
        self.routes: Sequence[Route] = [Route(SIGN_IN, self._page, methods=["GET"])]

    async def authenticate(self, request: Request) -> Authentication | None:
        """Return the sender.

        Raises:
            RefusedRequest: the headers come from elsewhere, or cannot be read.
        """
        if not self._is_theirs(request):
            if self._named(request):
                raise RefusedRequest(403, _FROM_ELSEWHERE)
            return None
        names = [_text(value) for value in request.headers.getlist(self._user)]
        if not any(names):
            return None
        if len(names) > 1:
            raise RefusedRequest(403, f"the proxy says `{self._user}` twice; have it say it once")
        return Authentication(
            build_person(self._seal, names[0], self._said_groups(request), "proxy")
        )

    def _named(self, request: Request) -> bool:
        headers = (self._user, self._groups)
        return any(header in request.headers for header in headers if header is not None)

    def _said_groups(self, request: Request) -> Iterator[str]:
        values = [] if self._groups is None else request.headers.getlist(self._groups)
        for value in values:
            yield from (group for each in _text(value).split(",") if (group := each.strip()))

    def _is_theirs(self, request: Request) -> bool:
        if request.client is None:
            return False
        address = ip_address(request.client.host)
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)

    async def _page(self, request: Request) -> Response:
        return page(request, "access/sign_in.html", 403, wrong="", way="proxy", home=HOME)


def _text(value: str) -> str:
    """Decode a header as UTF-8."""
    try:
        return value.encode("latin-1").decode().strip(" \t")
    except UnicodeError:
        raise RefusedRequest(
            403, "the proxy says a name that is not UTF-8; have it fixed"
        ) from None

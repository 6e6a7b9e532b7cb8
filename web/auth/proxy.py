"""Sign-in by a proxy that names people in headers.

Any client can send a header. It is accepted only from the networks of the proxy;
any other sender of such a header is refused.
"""

from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.schemas.settings.inbox import Proxy
from holdfast.web.auth.sessions import Authentication, TextSealer, build_person
from holdfast.web.auth.sign_in_pages import HOME, SIGN_IN
from holdfast.web.http.problems import RefusedRequest
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

        async def explain(request: Request) -> Response:
            return page(request, "access/sign_in.html", 403, wrong="", way="proxy", home=HOME)

        self.routes: Sequence[Route] = [Route(SIGN_IN, explain, methods=["GET"])]

    async def authenticate(self, request: Request) -> Authentication | None:
        """Return the sender.

        Raises:
            RefusedRequest: the headers come from elsewhere, or cannot be read.
        """
        names, groups = (
            [] if header is None else request.headers.getlist(header)
            for header in (self._user, self._groups)
        )
        if not self._is_from_proxy(request):
            if names or groups:
                raise RefusedRequest(403, _FROM_ELSEWHERE)
            return None
        names = [_text(value) for value in names]
        if not any(names):
            return None
        if len(names) > 1:
            raise RefusedRequest(403, f"the proxy says `{self._user}` twice; have it say it once")
        said = (group.strip() for value in groups for group in _text(value).split(","))
        return Authentication(build_person(self._seal, names[0], filter(None, said), "proxy"))

    def _is_from_proxy(self, request: Request) -> bool:
        if request.client is None:
            return False
        address = ip_address(request.client.host)
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)


def _text(value: str) -> str:
    """Decode a header as UTF-8."""
    try:
        return value.encode("latin-1").decode().strip(" \t")
    except UnicodeError:
        raise RefusedRequest(
            403, "the proxy says a name that is not UTF-8; have it fixed"
        ) from None

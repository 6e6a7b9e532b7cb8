"""Signing in by a link or a proxy, and the pages and addresses around it.

The user who starts the inbox on this machine opens the link that it prints. It contains a key,
which is removed from the address at once and is in no log. Any client can send the headers in which
a proxy names people: they are accepted only from its networks, and refused from elsewhere.

After signing in, a browser returns only to a page of the inbox. A form that was sent without a
session is kept on a page, to send it again.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.runtime.text_safety import as_sentence, clean
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.settings.inbox import Proxy
from holdfast.web.auth.sessions import Authentication, Person, Sessions, build_person
from holdfast.web.http.problems import RefusedRequest, forbidden
from holdfast.web.http.requests import FIELD, read_form
from holdfast.web.http.shared_secret import Secret
from holdfast.web.pages import page

_FROM_ELSEWHERE: Final = (
    "only the proxy in front of the inbox may name the user; use its address, or list its"
    " network in `networks`"
)

_KEY: Final = "key"

HOME: Final = "/"
SIGN_IN: Final = "/sign-in"
SIGNED_IN: Final = "/sign-in/done"
SIGN_OUT: Final = "/sign-out"
MAX_PATH_CHARS: Final = 2_000
# The forms of a page that have an address of their own, where there is no page.
_ACTIONS: Final = re.compile("/(message|withdraw|close|claim)$")


def sign_out_routes(sessions: Sessions) -> list[Route]:
    """Return the routes that end a session, and confirm it."""

    async def sign_out(request: Request) -> Response:
        answer = RedirectResponse(SIGN_OUT, 303)
        sessions.end(answer, request)
        return answer

    async def signed_out(request: Request) -> Response:
        return page(request, "access/signed_out.html")

    return [
        Route(SIGN_OUT, sign_out, methods=["POST"]),
        Route(SIGN_OUT, signed_out, methods=["GET"]),
    ]


def return_path_of(request: Request) -> str:
    """Return the page to show after signing in."""
    return local_path(request.query_params.get("next", HOME))


def failure_page(request: Request, refused: RefusedRequest, **values: str) -> Response:
    """Return the page that explains a failed sign-in."""
    sentence = as_sentence(refused.sentence)
    shown = page(request, "access/sign_in.html", refused.status, wrong=sentence, **values)
    shown.headers.update(refused.headers)
    return shown


def local_path(text: str | None) -> str:
    """Return the path if it is a page of the inbox, else the first page's."""
    if not text or len(text) > MAX_PATH_CHARS or not text.startswith("/"):
        return HOME
    # Browsers read `\\` as `/`, drop tabs and line ends, and read `//HOST` as another site.
    if text.startswith("//") or "\\" in text or not (text.isascii() and text.isprintable()):
        return HOME
    path = urlsplit(text).path
    # A browser resolves these, also encoded: they lead out of the inbox's own path.
    if {".", ".."}.intersection(map(unquote, path.split("/"))):
        return HOME
    return HOME if path in (SIGN_IN, SIGNED_IN, SIGN_OUT) else text


def requested_path(request: Request) -> str:
    """Return the requested page, as a path to return to."""
    path = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1")
    return local_path(f"{path}?{request.url.query}" if request.url.query else path)


def sign_in_path(path: str) -> str:
    return SIGN_IN if path == HOME else f"{SIGN_IN}?next={quote(path, safe='')}"


def resubmission_page(request: Request, form: FormData | None, person: Person | None) -> Response:
    """Return the page that reports that nothing was done, and keeps the form.

    An unauthenticated sender submits the form again after signing in; a person with the form of
    another person submits it in their own name.
    """
    items = [] if form is None else form.multi_items()
    fields = [(name, value) for name, value in items if isinstance(value, str)]
    token = person.form_token if person else "".join(v for name, v in fields if name == FIELD)
    written = [(name, value) for name, value in fields if name != FIELD]
    where = requested_path(request)
    back = _ACTIONS.sub("", where)
    return page(
        request,
        "access/resubmit.html",
        403 if person else 401,
        where=where,
        back=back,
        sign_in=sign_in_path(back),
        token=token,
        written=written,
        is_cut=getattr(request.state, "is_cut", False),
        files=[clean(name) for _, name, _ in getattr(request.state, "files", [])],
        shown=[(clean(name), clean(value)) for name, value in written if value.strip()],
    )


class LinkSignIn:
    """Signs in the holder of the link as the user who started the inbox."""

    def __init__(self, seal: TextSealer, name: str, groups: Iterable[str] = ()) -> None:
        self._name, self._groups = name, groups
        self._sessions = Sessions(seal, "link")
        self._key = seal.mark("link", name)
        self._secret = Secret(self._key, "the key of this inbox's link")
        self.authenticate = self._sessions.authenticate
        self.routes = [
            Route(SIGN_IN, self._sign_in, methods=["GET", "POST"]),
            *sign_out_routes(self._sessions),
        ]

    def address(self, origin: str) -> str:
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
            self._secret.check(shown, request)
        except RefusedRequest as refused:
            return failure_page(request, refused, way="link", home=home)
        # Redirect at once: the key must not remain in the address.
        answer = RedirectResponse(home, 303)
        self._sessions.start(answer, request, self._name, self._groups)
        return answer


class ProxySignIn:
    """Authenticates by the headers of a proxy."""

    def __init__(self, seal: TextSealer, settings: Proxy) -> None:
        self._seal = seal
        self._user, self._groups = settings.user_header, settings.groups_header
        self._networks = [ip_network(each) for each in settings.networks]

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
        sender = None if request.client is None else ip_address(request.client.host)
        if isinstance(sender, IPv6Address):
            sender = sender.ipv4_mapped or sender
        if sender is None or not any(sender in network for network in self._networks):
            if names or groups:
                raise forbidden(_FROM_ELSEWHERE)
            return None
        names = [_text(value) for value in names]
        if not any(names):
            return None
        if len(names) > 1:
            raise forbidden(f"the proxy sends `{self._user}` twice; configure it to send it once")
        group_names = (group.strip() for value in groups for group in _text(value).split(","))
        return Authentication(
            build_person(self._seal, names[0], filter(None, group_names), "proxy")
        )


def _text(value: str) -> str:
    try:
        return value.encode("latin-1").decode().strip(" \t")
    except UnicodeError:
        raise forbidden("the proxy sends a name that is not UTF-8; fix its configuration") from None

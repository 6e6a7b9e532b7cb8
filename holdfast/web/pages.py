"""Render the templates, with the page of an error and the headers of every response.

Text of a run, a model or a person is escaped. A request of htmx (`HX-Request`) receives the same
page, and htmx uses a part of it.

Every page has the name, the logo and the color of an organization. Inline styles are forbidden, so
the color is a stylesheet. It and the logo are static files, served without authentication: the
sign-in page has them, too.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import holdfast
from holdfast.client.errors import NO_SUCH, HoldfastError
from holdfast.runtime.decision_links import PATH as DECISION_LINKS
from holdfast.runtime.narration import phrases
from holdfast.runtime.narration.arguments import total_text
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.text_safety import (
    as_sentence,
    clean,
    format_age,
    format_date,
    one_line,
    read_time,
)
from holdfast.schemas.phrases import distinct_names
from holdfast.web.http.path_prefix import root_of
from holdfast.web.http.problems import RefusedRequest, problem_of

LOGO_PATH: Final = "/static/organization"
STYLE_PATH: Final = "/static/organization.css"
LOGO_TYPES: Final = {".png": "image/png", ".svg": "image/svg+xml", ".webp": "image/webp"}
MAX_LOGO_BYTES: Final = 100_000
# An SVG that is opened by its address: it has styles of its own, and no scripts.
_LOGO_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


@dataclass(frozen=True)
class Branding:
    """The looks of an inbox; `color` is `#rrggbb`, and empty for the default."""

    name: str = "Holdfast"
    color: str = ""
    logo: bytes = b""
    logo_type: str = ""

    @property
    def logo_path(self) -> str:
        """Return the address of the logo; empty without one."""
        return LOGO_PATH if self.logo else ""

    def response(self, path: str) -> Response | None:
        """Return the file at an address, if it is one of the organization's."""
        if path == STYLE_PATH and self.color:
            rules = f":root {{ --brand: {self.color}; --on-brand: {ink_on(self.color)}; }}\n"
            return Response(rules, media_type="text/css")
        if path == LOGO_PATH and self.logo:
            policy = {"Content-Security-Policy": _LOGO_POLICY}
            return Response(self.logo, media_type=self.logo_type, headers=policy)
        return None


HOLDFAST: Final = Branding()


def ink_on(color: str) -> str:
    """Return the color of text on a color: white or black, with a contrast of 4.5 or more."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#ffffff" if 1.05 / (luminance + 0.05) >= 4.5 else "#000000"


HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Without a policy, a browser would not send the origin of a form (`Origin`).
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
STATIC_PATH: Final = "/static/"
_FAILED: Final = (
    "The inbox failed to process this. {} If it fails again, contact the operator of the inbox: the"
    " reason is in its log."
)
_READ: Final = "Load the page again."
_SENT: Final = (
    "Your request may have had an effect: check the pending approvals, or the run, before you send"
    " it again."
)

_READERS: Final = "load the page again in a moment, or ask an operator of the inbox"
_COMMAND: Final = re.compile(r"\bholdfast [a-z]")

HERE = Path(__file__).parent
STATIC = HERE / "static"
LINE_CHARS = 500
_LINK: Final = re.compile(r'(\s(?:href|src|(?:form)?action|hx-get|sse-connect|data-here)=")/')


def address(*parts: str) -> str:
    """Return the path of a page: `address("run", "order/7")` is `/run/order%2F7`."""
    return "/" + "/".join(map(partial(quote, safe=""), parts))


@dataclass(frozen=True)
class DisplayTime:
    """A time in UTC: `iso` for programs (empty if unknown), `text` for people, and `relative`."""

    iso: str
    text: str
    relative: str


def display_time(at: Any) -> DisplayTime:
    """Return a time of a list or a log for display: `3 min ago`, `in 7 d`."""
    time = read_time(at)
    if time is None:
        return DisplayTime("", "at an unknown time", "")
    age = format_age(time)
    relative = f"in {age}" if time > datetime.now(UTC) else f"{age} ago"
    return DisplayTime(time.isoformat(timespec="milliseconds"), format_date(time), relative)


ENVIRONMENT = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,  # an undefined name in a template raises an error
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.globals |= {"address": address, "brand": HOLDFAST, "phrases": phrases}
ENVIRONMENT.globals |= {"view_of": QuestionView.of, "total_text": total_text}
ENVIRONMENT.globals["version"] = holdfast.__version__
ENVIRONMENT.filters["line"] = partial(one_line, limit_chars=LINE_CHARS)
ENVIRONMENT.filters["moment"] = display_time
ENVIRONMENT.filters["names"] = distinct_names
ENVIRONMENT.filters["plain"] = clean


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page for the person of the request."""
    who = getattr(request.state, "person", None)
    path, app = request.scope["path"], request.scope.get("app")
    values["brand"] = getattr(request.state, "brand", HOLDFAST)
    values["badge"] = app.state.services.badge(who) if who and app else ""
    text = render(template, root_of(request), person=who, path=path, **values)
    return HTMLResponse(text, status)


def render(template: str, root: str, **values: Any) -> str:
    """Return the text of a template; the paths that it links to, sends to and loads have `root`.

    Other texts cannot contain an attribute: their quotes are escaped.
    """
    text = ENVIRONMENT.get_template(template).render(**values)
    return _LINK.sub(rf"\1{root}/", text) if root else text


def add_headers(headers: MutableHeaders, path: str) -> None:
    """Add the headers of every response; none may be cached on the way."""
    for name, value in HEADERS.items():
        headers.setdefault(name, value)  # a response without a page may have stricter headers
    if path.startswith(DECISION_LINKS):
        headers["Referrer-Policy"] = "no-referrer"  # the address decides
    headers["Cache-Control"] = "no-cache" if path.startswith(STATIC_PATH) else "no-store"


def wants_page(request: Request) -> bool:
    """Check whether the sender requests a page: a script accepts anything, a program JSON."""
    return "text/html" in request.headers.get("accept", "")


def reader_texts(error: HoldfastError) -> tuple[str, str]:
    """Return an error for a reader of pages, and the command that is for operators, or nothing."""
    if not _COMMAND.search(error.todo):
        return as_sentence(clean(str(error))), ""
    is_missing = error.exit_code == NO_SUCH
    todo = "see the pending approvals, or the runs" if is_missing else _READERS
    command = error.todo[:1].upper() + error.todo[1:]
    return as_sentence(clean(f"{error.wrong}; {todo}")), clean(command)


def error_response(request: Request, error: Exception) -> Response:
    """Return the response to an error: a page, or for a program a problem (RFC 9457).

    An unexpected error is logged.
    """
    if isinstance(error, HoldfastError):
        status, (text, command) = problem_of(error).status, reader_texts(error)
        return page(request, "shared/problem.html", status, text=text, command=command)
    if isinstance(error, HTTPException):
        text = "This page does not exist." if error.status_code == 404 else str(error.detail)
        return page(request, "shared/problem.html", error.status_code, text=text)
    problem = problem_of(error)
    if not wants_page(request):
        return problem.response()
    if isinstance(error, RefusedRequest):
        shown = page(request, "shared/problem.html", error.status, text=problem.detail)
        shown.headers.update(error.headers)
        return shown
    text = _FAILED.format(_READ if request.method in ("GET", "HEAD") else _SENT)
    return page(request, "shared/problem.html", problem.status, text=text)


class ErrorMiddleware:
    """An application that answers with a page or a problem if it raises.

    Its responses have the headers of every response.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        has_started = False

        async def sent(message: Message) -> None:
            nonlocal has_started
            has_started = True
            if message["type"] == "http.response.start":
                add_headers(MutableHeaders(raw=message["headers"]), scope["path"])
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception as error:
            if has_started:
                raise  # the response has started; the server logs the error and disconnects
            await error_response(Request(scope), error)(scope, receive, sent)

"""Requests: addresses that name a run, and bodies.

A run's id may contain any character, so it is separated from the rest of the path first, before any
part is decoded: `/run/a%2Fnews` is the page of the run `a/news`, and `/run/a/news` is the news of
the run `a`. A body is read up to a size and within a time, and must be of an expected type. A few
forms at a time may be larger, at the addresses that take files; further ones are refused.
"""

import asyncio
import hmac
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from holdfast.runtime.attachments import most_bytes as most_bytes_of
from holdfast.schemas.settings.inbox import Right
from holdfast.web.auth.sessions import Person, person_of
from holdfast.web.http.problems import RefusedRequest

_RUN = "{run}"
# A number in an address; the `int` convertor of Starlette accepts any number of digits.
NUMBER: Final = "[0-9]{1,12}"
FIELD: Final = "form_token"
HEADER: Final = "x-form-token"
# The most that Temporal accepts in one request.
MAX_BODY_BYTES: Final = 2_000_000
MAX_FIELDS: Final = 1_000
MAX_FILES: Final = 20
# Those above `MAX_BODY_BYTES`.
MAX_LARGE_UPLOADS: Final = 4
MAX_LARGE_UPLOADS_OF_ONE: Final = 2
_TAKES_FILES: Final = re.compile("/run/.+/message|/runs(/.+/messages)?", re.DOTALL)
URLENCODED: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"

BODY_TIMEOUT_SECONDS = 20
# Of a body of many megabytes, over a slow line.
UPLOAD_TIMEOUT_SECONDS = 300


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


def media_type_of(request: Request) -> str:
    """Return the media type of the body: `application/json`; empty without one."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_size(data: bytes | bytearray, most_bytes: int = MAX_BODY_BYTES) -> None:
    """Raise `RefusedRequest` if a body, or a field of one, is too large."""
    if len(data) > most_bytes:
        raise RefusedRequest(413, f"send at most {most_bytes} bytes at a time")


async def read_body(
    request: Request,
    types: Collection[str],
    most_bytes: int = MAX_BODY_BYTES,
    seconds: float = 0,
    *,
    cuts: bool = False,
) -> bytes:
    """Return the body; it is read for so many seconds, by default `BODY_TIMEOUT_SECONDS`.

    With `cuts`, the rest of a larger or slower one is dropped, and `request.state.is_cut` is set.

    Raises:
        RefusedRequest: the body is of another type, too large, or incomplete.
    """
    # A browser sends some other types without a preflight request.
    if media_type_of(request) not in types:
        raise RefusedRequest(415, f"send it as {' or '.join(types)}")
    body, seconds = bytearray(), seconds or BODY_TIMEOUT_SECONDS
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if cuts and len(body) > most_bytes:
                    # The rest is received, too: a browser that still sends shows no response.
                    request.state.is_cut = True
                    del body[most_bytes:]
                check_size(body, most_bytes)
    except TimeoutError:
        if not cuts:
            raise RefusedRequest(408, f"it was not received within {seconds} s") from None
        request.state.is_cut = True
    except ClientDisconnect:
        raise RefusedRequest(400, "the connection closed before its end") from None
    return bytes(body)


async def read_form(request: Request) -> FormData:
    """Return the submitted form; handlers read forms only with this function.

    Afterwards `request.state.files` has the fields, names and contents of its files. A large form
    with files of a sender who is not signed in is cut.

    Raises:
        RefusedRequest: the body is no form, or too large, or one of too many.
    """
    known: FormData | None = getattr(request.state, "form", None)
    if known is None:
        most_bytes, seconds = MAX_BODY_BYTES, 0
        has_files = media_type_of(request) == MULTIPART
        has_files = has_files and bool(_TAKES_FILES.fullmatch(request.scope["path"]))
        cuts = has_files and not hasattr(request.state, "uploads")
        if has_files and not cuts:
            seconds, size = UPLOAD_TIMEOUT_SECONDS, request.headers.get("content-length", "")
            if not (size.isdecimal() and int(size) <= MAX_BODY_BYTES):
                most_bytes += most_bytes_of("MESSAGE")
                uploads, name = request.state.uploads, request.state.person.name
                if uploads.is_full(name):
                    raise RefusedRequest(503, "too many large files at a time; try again")
                request.state.until_end.enter_context(uploads.open_stream(name))
        body = await read_body(request, (URLENCODED, MULTIPART), most_bytes, seconds, cuts=cuts)
        if getattr(request.state, "is_cut", False):
            body += b"\r\n%b--\r\n" % body.partition(b"\r\n")[0]  # ends the file that was cut

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        # With the application in its scope, Starlette answers an invalid form itself.
        scope = {**request.scope}
        scope.pop("app", None)
        form = Request(scope, receive).form(
            max_files=MAX_FILES, max_fields=MAX_FIELDS, max_part_size=most_bytes
        )
        try:
            async with form as sent:
                fields = sent.multi_items()
                request.state.files = [
                    (field, one.filename, await one.read())
                    for field, one in fields
                    if isinstance(one, UploadFile) and one.filename
                ]
            known = FormData([field for field in fields if isinstance(field[1], str)])
            for _, text in known.multi_items():
                check_size(str(text).encode(errors="replace"))
            request.state.form = known
        except (MultiPartException, KeyError, ValueError) as error:
            why = error.message if isinstance(error, MultiPartException) else "it is none"
            raise RefusedRequest(
                400, f"the form cannot be read: {why}; send it from its page"
            ) from None
    return known


def is_form(request: Request) -> bool:
    return media_type_of(request) in (URLENCODED, MULTIPART)


async def carries_token(request: Request, person: Person) -> bool:
    """Report whether the request has the form token of the person."""
    shown = request.headers.get(HEADER)
    if shown is None and is_form(request):
        field = (await read_form(request)).get(FIELD)
        shown = field if isinstance(field, str) else None
    expected = person.form_token.encode()
    sent = (shown or "").encode("utf-8", "surrogatepass")
    return bool(expected) and hmac.compare_digest(sent, expected)

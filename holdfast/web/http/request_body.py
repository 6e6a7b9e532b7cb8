"""Bodies of requests: read up to a size and within a time, and of an expected type."""

import asyncio
import hmac
from collections.abc import Collection
from typing import Final

from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from holdfast.web.auth.sessions import Person
from holdfast.web.http.problems import RefusedRequest

FIELD: Final = "form_token"
HEADER: Final = "x-form-token"
MAX_FORM_BYTES: Final = 1_000_000
MAX_FIELDS: Final = 1_000
URLENCODED: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"

BODY_TIMEOUT_SECONDS = 20


def media_type_of(request: Request) -> str:
    """Return the media type of the body: `application/json`; empty without one."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, media_types: Collection[str], most_bytes: int) -> bytes:
    """Return the body.

    Raises:
        RefusedRequest: the body is of another type, too large, or incomplete.
    """
    # A browser sends some other types without a preflight request.
    if media_type_of(request) not in media_types:
        raise RefusedRequest(415, f"send it as {' or '.join(media_types)}")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most_bytes:
                    raise RefusedRequest(413, f"send at most {most_bytes} bytes at a time")
    except TimeoutError:
        raise RefusedRequest(408, f"it was not received within {BODY_TIMEOUT_SECONDS} s") from None
    except ClientDisconnect:
        raise RefusedRequest(400, "the connection closed before its end") from None
    return bytes(body)


async def read_form(request: Request) -> FormData:
    """Return the submitted form; handlers read forms only with this function.

    Raises:
        RefusedRequest: the body is no form, or too large.
    """
    known: FormData | None = getattr(request.state, "form", None)
    if known is None:
        body = await read_body(request, (URLENCODED, MULTIPART), MAX_FORM_BYTES)

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        # With the application in its scope, Starlette answers an invalid form itself.
        scope = {name: value for name, value in request.scope.items() if name != "app"}
        form = Request(scope, receive).form(
            max_files=0, max_fields=MAX_FIELDS, max_part_size=MAX_FORM_BYTES
        )
        try:
            known = request.state.form = await form
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

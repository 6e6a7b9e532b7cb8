"""Bodies of requests: read up to a size and within a time, and of a type that was asked for."""

import asyncio
from collections.abc import Collection

from starlette.requests import ClientDisconnect, Request

from holdfast.web.http.refused_request import RefusedRequest

BODY_TIMEOUT_SECONDS = 20


def media_type_of(request: Request) -> str:
    """As what a body is sent: `application/json`; empty where it is not said."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def body_of(request: Request, media_types: Collection[str], most_bytes: int) -> bytes:
    """The body.

    Raises:
        Refused: it is of another type, too large, or does not come whole.
    """
    # Of other types, a browser sends some without asking first whether it may.
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
        raise RefusedRequest(408, f"it did not come within {BODY_TIMEOUT_SECONDS} s") from None
    except ClientDisconnect:
        raise RefusedRequest(400, "it broke off") from None
    return bytes(body)

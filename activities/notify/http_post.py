"""A message to a web server: sent once, to the address that the operator named and to no other.

What the server answers says whether it is sent again: done, never, or later, and when.
"""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

import httpx

from holdfast.activities.notify.base import ATTEMPT_SECONDS, notification_error
from holdfast.activities.notify.message_text import one_line
from holdfast.providers.model_errors import retry_delay

ANSWER_BYTES = 1_000
ANSWER_CHARACTERS = 200
# What another attempt may mend; so may it what a server calls a fault of its own.
_RETRIED_STATUS = (408, 425, 429)
_USER_AGENT = "holdfast"


async def post(http: httpx.AsyncClient, url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send JSON there.

    Raises:
        ApplicationError: it did not arrive, or was not taken.
    """
    sent = {"content-type": "application/json", "user-agent": _USER_AGENT, **headers}
    # The address itself may be a secret.
    shown = httpx.URL(url).host
    try:
        async with asyncio.timeout(ATTEMPT_SECONDS):
            async with http.stream(
                "POST",
                url,
                content=body,
                headers=sent,
                follow_redirects=False,
                timeout=ATTEMPT_SECONDS,
            ) as response:
                if not response.is_success:
                    await _refused(response, shown)
    except TimeoutError:
        said = f"{shown} did not answer within {ATTEMPT_SECONDS:g} s"
        raise notification_error(said, retried=True) from None
    except httpx.HTTPError as error:
        said = f"{shown} could not be told: {type(error).__name__}"
        raise notification_error(said, retried=True) from None


async def _refused(response: httpx.Response, shown: str) -> None:
    status = response.status_code
    answer = await _beginning(response)
    said = f"{shown} answered {status}{f': {answer}' if answer else ''}"
    if status in _RETRIED_STATUS or status >= 500:
        delay = retry_delay(response.headers, datetime.now(UTC))
        raise notification_error(said, retried=True, delay=delay)
    if 300 <= status < 400:
        raise notification_error(f"{said}. Check the channel's address: redirects are not followed")
    raise notification_error(f"{said}. Check the channel's address, and whether it is still there")


async def _beginning(response: httpx.Response) -> str:
    data = b""
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) >= ANSWER_BYTES:
            break
    return one_line(data[:ANSWER_BYTES].decode("utf-8", "replace"), ANSWER_CHARACTERS)

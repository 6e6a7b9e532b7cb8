"""Send a message by HTTP, once, to an address that the operator configured.

The server's answer decides whether it is sent again: done, never, or later, and when. The errors
and delays of other requests of activities are made here, too.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial

import httpx
from temporalio.exceptions import ApplicationError

from holdfast.runtime.text_safety import one_line
from holdfast.schemas.names import TELLING_FAILED

ANSWER_BYTES = 1_000
ANSWER_CHARACTERS = 200
# Statuses that may pass, like those of a fault of the server.
_RETRIED_STATUS = (408, 425, 429)

# An attempt ends before Temporal's timeout, so that it reports why.
ATTEMPT_SECONDS = 20.0
MAX_RETRY_DELAY = timedelta(hours=1)


def request_error(
    kind: str, message: str, *, retried: bool = False, delay: timedelta | None = None
) -> ApplicationError:
    """Return the error of an activity's request, retried (after `delay`) or not."""
    return ApplicationError(message, type=kind, non_retryable=not retried, next_retry_delay=delay)


notification_error = partial(request_error, TELLING_FAILED)


@dataclass(frozen=True)
class EnvironmentValue:
    """A value of the environment, read when it is used."""

    variable: str
    environ: Mapping[str, str]

    @property
    def text(self) -> str:
        """Return the value; empty if it is not set."""
        return self.environ.get(self.variable, "").strip()

    def value(self) -> str:
        """Return the value.

        Raises:
            ApplicationError: it is not set; not retried, since the environment does not change.
        """
        if not self.text:
            raise notification_error(f"the environment variable {self.variable} is not set")
        return self.text


async def post(
    http: httpx.AsyncClient,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    reads_answer: bool = False,
) -> bytes:
    """Send JSON to an address, and return the answer if it is to be read.

    Raises:
        ApplicationError: it did not arrive, or was not accepted.
    """
    sent = {"content-type": "application/json", "user-agent": "holdfast", **headers}
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
                if response.is_success:
                    return await response.aread() if reads_answer else b""
                data = b""
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) >= ANSWER_BYTES:
                        break
    except TimeoutError:
        message = f"{shown} did not answer within {ATTEMPT_SECONDS:g} s"
        raise notification_error(message, retried=True) from None
    except httpx.HTTPError as error:
        message = f"{shown} cannot be reached: {type(error).__name__}"
        raise notification_error(message, retried=True) from None
    answer = one_line(data[:ANSWER_BYTES].decode("utf-8", "replace"), ANSWER_CHARACTERS)
    status = response.status_code
    message = f"{shown} answered {status}{f': {answer}' if answer else ''}"
    if status in _RETRIED_STATUS or status >= 500:
        delay = retry_delay(response.headers, datetime.now(UTC))
        raise notification_error(message, retried=True, delay=delay)
    is_redirect = 300 <= status < 400
    check = ": redirects are not followed" if is_redirect else ", and whether it still exists"
    raise notification_error(f"{message}. Check the channel's address{check}")


def retry_delay(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Return the provider's delay of a retry, at most an hour from `now`, if it has one."""
    delay = _delay(milliseconds=headers.get("retry-after-ms"))
    if delay is None:
        delay = _delay(seconds=headers.get("retry-after"))
    if delay is None:
        try:
            moment = parsedate_to_datetime(headers.get("retry-after") or "")
        except (ValueError, OverflowError):
            return None
        delay = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - now
    return min(delay, MAX_RETRY_DELAY) if delay > timedelta() else None


def _delay(**units: str | None) -> timedelta | None:
    try:
        return timedelta(**{unit: float(text or "") for unit, text in units.items()})
    except (ValueError, OverflowError):
        return None

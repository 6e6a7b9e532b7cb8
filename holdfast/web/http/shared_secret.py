"""A shared secret: stored as a digest, compared in constant time, with limited attempts."""

import hashlib
import hmac
import math
from collections import OrderedDict
from time import monotonic
from typing import Any

from starlette.requests import HTTPConnection

from holdfast.web.http.problems import RefusedRequest, unauthorized

# After this number of wrong secrets in this time, an address must wait, even with the right one.
MAX_FAILURES = 10
FAILURES_SECONDS = 60
MAX_ADDRESSES = 10_000


class Secret:
    """The secret as a digest, and the recent failures by address; `what` is its name."""

    def __init__(self, secret: str, what: str) -> None:
        self._digest = digest(secret)
        self._what = what
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def check(self, shown: str, sender: HTTPConnection) -> None:
        """Accept the secret.

        Raises:
            RefusedRequest: it is wrong, or too many wrong ones came from the sender's address.
        """
        address = "" if sender.client is None else sender.client.host
        count, until = self._failures.get(address, (0, 0.0))
        left = until - monotonic()
        if count >= MAX_FAILURES and left > 0:
            wait = {"Retry-After": str(math.ceil(left))}
            raise RefusedRequest(
                429, "too many wrong secrets were sent from this address; wait a minute", wait
            )
        # Digests have one length: the time of a comparison reveals nothing about the secret.
        if not hmac.compare_digest(digest(shown.strip()), self._digest):
            before = count if left > 0 else 0
            self._failures[address] = (before + 1, monotonic() + FAILURES_SECONDS)
            self._failures.move_to_end(address)
            keep_newest(self._failures, MAX_ADDRESSES)
            raise unauthorized(f"that is not {self._what}")


def keep_newest(entries: OrderedDict[Any, Any], most: int) -> None:
    """Remove the oldest entries beyond `most`."""
    while len(entries) > most:
        entries.popitem(last=False)


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
